-- Runs that have ended, as they were when they were removed from the cluster. Rows are never deleted.

CREATE TABLE archived_run (
    cluster text NOT NULL,
    uid text NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    queue text,
    username text,
    phase text NOT NULL,
    -- When it was submitted, in seconds since 1970.
    created_second bigint NOT NULL,
    -- The object as the cluster had it.
    document jsonb NOT NULL,
    PRIMARY KEY (cluster, uid)
);

-- A page of all runs, newest first, and of one namespace. With all that filters compare: a search reads a million
-- entries of an index, and not a million documents.
CREATE INDEX archived_run_newest ON archived_run (cluster, created_second DESC, namespace, name)
    INCLUDE (uid, queue, username, phase);
CREATE INDEX archived_run_of_namespace ON archived_run (cluster, namespace, created_second DESC, name)
    INCLUDE (uid, queue, username, phase);
CREATE INDEX archived_run_by_name ON archived_run (cluster, namespace, name, created_second DESC);

ALTER TABLE archived_run ENABLE ROW LEVEL SECURITY;
ALTER TABLE archived_run FORCE ROW LEVEL SECURITY;
CREATE POLICY meter ON archived_run TO warpyard_meter USING (true) WITH CHECK (true);
-- Not by queue: who may see the sums of a queue may not read its tenants' runs.
CREATE POLICY reader ON archived_run FOR SELECT TO warpyard_reader USING (
    (SELECT everything_visible()) OR namespace IN (SELECT visible_names('warpyard.namespaces')));

GRANT SELECT, INSERT, UPDATE ON archived_run TO warpyard_meter;
GRANT SELECT ON archived_run TO warpyard_reader;
