-- Machines that we bought: at what price, for whom, and since when they are open to pods; what spot saved; and what
-- interruptions cost.

-- {"paid": millionths per hour, "onDemand": …, "start": {"openedAt": seconds since 1970, "namespace": …, "run": …, …}}
ALTER TABLE node_usage ADD COLUMN bought jsonb;

-- What a second would have cost more on demand.
ALTER TABLE ledger_line ADD COLUMN saved_rate numeric(38, 0) NOT NULL DEFAULT 0;
ALTER TABLE open_usage ADD COLUMN saved_rate numeric(38, 0) NOT NULL DEFAULT 0;
-- Whether it would not have been without an interruption: costing::Line says which lines are so.
ALTER TABLE open_usage ADD COLUMN of_interruption boolean NOT NULL DEFAULT false;
ALTER TABLE daily_spend ADD COLUMN saved numeric(38, 0) NOT NULL DEFAULT 0;
ALTER TABLE daily_spend ADD COLUMN interruptions numeric(38, 0) NOT NULL DEFAULT 0;
ALTER TABLE run_spend ADD COLUMN saved numeric(38, 0) NOT NULL DEFAULT 0;
ALTER TABLE run_spend ADD COLUMN interruptions numeric(38, 0) NOT NULL DEFAULT 0;

-- NOT VALID spares a look at every line: all that are there kept the narrower rule. New lines are checked.
ALTER TABLE ledger_line DROP CONSTRAINT ledger_line_class_check;
ALTER TABLE ledger_line ADD CONSTRAINT ledger_line_class_check
    CHECK (class IN ('Productive', 'Starting', 'Lost', 'NodeStarting', 'NodeIdle')) NOT VALID;

-- The sums of what was posted before. The owner sees no tenant's row while security is forced on it too.
ALTER TABLE open_usage NO FORCE ROW LEVEL SECURITY;
ALTER TABLE run_spend NO FORCE ROW LEVEL SECURITY;
ALTER TABLE daily_spend NO FORCE ROW LEVEL SECURITY;
UPDATE open_usage SET of_interruption = true WHERE class = 'Lost' OR class = 'Starting' AND attempt > 1;
UPDATE run_spend SET interruptions = amount WHERE class = 'Lost' OR class = 'Starting' AND attempt > 1;
UPDATE daily_spend AS daily SET interruptions = runs.interruptions
FROM (
    SELECT cluster, day, namespace, queue, username, class, sum(interruptions) AS interruptions
    FROM run_spend GROUP BY cluster, day, namespace, queue, username, class
) AS runs
WHERE runs.interruptions <> 0
  AND (daily.cluster, daily.day, daily.class) = (runs.cluster, runs.day, runs.class)
  AND daily.namespace IS NOT DISTINCT FROM runs.namespace
  AND daily.queue IS NOT DISTINCT FROM runs.queue
  AND daily.username IS NOT DISTINCT FROM runs.username;
ALTER TABLE open_usage FORCE ROW LEVEL SECURITY;
ALTER TABLE run_spend FORCE ROW LEVEL SECURITY;
ALTER TABLE daily_spend FORCE ROW LEVEL SECURITY;
