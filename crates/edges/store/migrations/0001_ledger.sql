-- The ledger's tables. Run by warpyard_owner; the roles warpyard_meter and warpyard_reader exist
-- (docs/decisions/0022-ledger-in-postgres.md says what an administrator runs before).
--
-- Times are whole seconds, UTC. `amount` and `rate` are costing::Amount units. A day is a date, UTC.

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO warpyard_meter, warpyard_reader;

-- What is known of each pod and node: joined, so it only ever becomes more certain.

CREATE TABLE pod_usage (
    cluster       text        NOT NULL,
    uid           text        NOT NULL,
    namespace     text        NOT NULL,
    name          text        NOT NULL,
    node          text        NOT NULL,
    run           text,
    attempt       bigint,
    queue         text,
    username      text,
    gpus          bigint      NOT NULL,
    cpu_millis    bigint      NOT NULL,
    scheduled_at  timestamptz NOT NULL,
    started_at    timestamptz,
    ended_at      timestamptz,
    ended_certain boolean,
    -- How many rows of usage_event tell of it.
    events        bigint      NOT NULL,
    PRIMARY KEY (cluster, uid),
    CHECK ((ended_at IS NULL) = (ended_certain IS NULL))
);
-- The pods of a node on a day: those that ended after the day began, and began before it ended.
CREATE INDEX pod_usage_of_node ON pod_usage (cluster, node, (coalesce(ended_at, 'infinity'::timestamptz)));
CREATE INDEX pod_usage_open ON pod_usage (cluster, uid) WHERE ended_at IS NULL;

CREATE TABLE node_usage (
    cluster       text        NOT NULL,
    uid           text        NOT NULL,
    name          text        NOT NULL,
    created_at    timestamptz NOT NULL,
    -- What it is, from when on: [{"from": seconds since 1970, "capacityType": …, "gpus": …}, …].
    shapes        jsonb       NOT NULL,
    ended_at      timestamptz,
    ended_certain boolean,
    events        bigint      NOT NULL,
    PRIMARY KEY (cluster, uid),
    CHECK ((ended_at IS NULL) = (ended_certain IS NULL))
);
CREATE INDEX node_usage_of_name ON node_usage (cluster, name);

-- What was learnt, as it was learnt: each row is the record after one change to it.
CREATE TABLE usage_event (
    -- `cluster/pod/UID` or `cluster/node/UID`; its events count 1, 2, 3, …
    source      text        NOT NULL,
    sequence    bigint      NOT NULL CHECK (sequence > 0),
    cluster     text        NOT NULL,
    namespace   text,
    queue       text,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    record      jsonb       NOT NULL,
    UNIQUE (source, sequence)
);

-- Prices, by versions: a change adds a whole version, the highest counts.

CREATE TABLE price_version (
    cluster     text        NOT NULL,
    version     bigint      NOT NULL,
    currency    text        NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (cluster, version)
);

CREATE TABLE price (
    cluster       text        NOT NULL,
    version       bigint      NOT NULL,
    position      bigint      NOT NULL,
    sheet         text        NOT NULL,
    instance_type text,
    gpu_type      text,
    capacity_type text,
    unit          text        NOT NULL CHECK (unit IN ('Node', 'Gpu')),
    -- Millionths of the currency's unit per hour.
    price         bigint      NOT NULL CHECK (price >= 0),
    valid_from    timestamptz NOT NULL,
    PRIMARY KEY (cluster, version, position),
    FOREIGN KEY (cluster, version) REFERENCES price_version
);

-- One account is one node name on one day. Its row is the lock under which lines are posted.
CREATE TABLE account (
    cluster       text        NOT NULL,
    node          text        NOT NULL,
    day           date        NOT NULL,
    -- The sequence of its next ledger line.
    next_sequence bigint      NOT NULL DEFAULT 1,
    -- From when on its lines may not show what is known: at once if something was learnt; at midnight if something
    -- is open; at a price change to come. NULL if nothing can change it but something new.
    due_at        timestamptz,
    PRIMARY KEY (cluster, node, day)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
-- In the order in which accounts are posted. Days that are over and posted are not in it: besides what is due it holds
-- a row for each node that lives, and those few are passed over.
CREATE INDEX account_due ON account (cluster, day DESC, node) WHERE due_at IS NOT NULL;
CREATE INDEX account_of_day ON account (cluster, day);

-- The ledger. Only ever added to; a line that turned out wrong is followed by its reversal.
CREATE TABLE ledger_line (
    day         date           NOT NULL,
    -- `cluster/node/day`. A unique constraint of a partitioned table must contain the partition key. The source
    -- contains the day, so two rows with one source have one day, and UNIQUE (day, source, sequence) is
    -- UNIQUE (source, sequence) over all partitions; the CHECK below holds the premise.
    source      text           NOT NULL,
    sequence    bigint         NOT NULL CHECK (sequence > 0),
    posted_at   timestamptz    NOT NULL DEFAULT now(),
    cluster     text           NOT NULL,
    node        text           NOT NULL,
    node_uid    text           NOT NULL,
    -- NULL: what is left of the node.
    pod_uid     text,
    class       text           NOT NULL CHECK (class IN ('Productive', 'Starting', 'NodeIdle')),
    from_time   timestamptz    NOT NULL,
    to_time     timestamptz    NOT NULL,
    -- Below zero where pods hold more than the node has, which is a problem that is shown and not hidden.
    gpus        bigint         NOT NULL,
    namespace   text,
    pod         text,
    run         text,
    attempt     bigint,
    queue       text,
    username    text,
    -- Per second; NULL without a price.
    rate        numeric(38, 0),
    -- These two are what is summed: negative in a reversal. Everything else repeats the line that is reversed.
    amount      numeric(38, 0),
    gpu_seconds bigint         NOT NULL,
    -- The sequence of the charge, in the same source, that this line takes back.
    reverses    bigint,
    UNIQUE (day, source, sequence),
    CHECK (source = cluster || '/' || node || '/' || to_char(day::timestamp, 'YYYY-MM-DD')),
    CHECK (reverses < sequence),
    CHECK (to_time > from_time),
    CHECK (from_time >= day::timestamp AT TIME ZONE 'UTC' AND to_time <= (day + 1)::timestamp AT TIME ZONE 'UTC'),
    CHECK (gpu_seconds = gpus * extract(epoch FROM to_time - from_time)
                         * CASE WHEN reverses IS NULL THEN 1 ELSE -1 END),
    CHECK (amount IS NOT DISTINCT FROM rate * extract(epoch FROM to_time - from_time)
                         * CASE WHEN reverses IS NULL THEN 1 ELSE -1 END)
) PARTITION BY RANGE (day);
-- No line is taken back twice.
CREATE UNIQUE INDEX ledger_line_reversed_once ON ledger_line (day, source, reverses) WHERE reverses IS NOT NULL;

-- What goes on: cost so far = posted + (now - since) × rate. Replaced, row by row, as it changes.
CREATE TABLE open_usage (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cluster   text        NOT NULL,
    node      text        NOT NULL,
    day       date        NOT NULL,
    node_uid  text        NOT NULL,
    pod_uid   text,
    class     text        NOT NULL,
    since     timestamptz NOT NULL,
    gpus      bigint      NOT NULL,
    namespace text,
    pod       text,
    run       text,
    attempt   bigint,
    queue     text,
    username  text,
    rate      numeric(38, 0)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
CREATE INDEX open_usage_of_account ON open_usage (cluster, node, day);
CREATE INDEX open_usage_of_run ON open_usage (cluster, namespace, run);

-- Sums of ledger_line, kept in the transaction that posts. `lines` counts charges less reversals.

CREATE TABLE daily_spend (
    cluster              text           NOT NULL,
    day                  date           NOT NULL,
    namespace            text,
    queue                text,
    username             text,
    class                text           NOT NULL,
    amount               numeric(38, 0) NOT NULL,
    gpu_seconds          bigint         NOT NULL,
    unpriced_gpu_seconds bigint         NOT NULL,
    lines                bigint         NOT NULL,
    UNIQUE NULLS NOT DISTINCT (cluster, day, namespace, queue, username, class)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

CREATE TABLE run_spend (
    cluster              text           NOT NULL,
    namespace            text,
    -- NULL: pods without a Run, and idle nodes.
    run                  text,
    attempt              bigint,
    day                  date           NOT NULL,
    queue                text,
    username             text,
    class                text           NOT NULL,
    amount               numeric(38, 0) NOT NULL,
    gpu_seconds          bigint         NOT NULL,
    unpriced_gpu_seconds bigint         NOT NULL,
    lines                bigint         NOT NULL,
    UNIQUE NULLS NOT DISTINCT (cluster, namespace, run, attempt, day, queue, username, class)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX run_spend_of_day ON run_spend (cluster, day);

-- What the meter must remember. One row per cluster.
CREATE TABLE meter_state (
    cluster      text PRIMARY KEY,
    -- Until when the meter saw everything.
    alive_until  timestamptz,
    -- The last day for which accounts were made; NULL until the ledger was told a day.
    rolled_to    date
);

-- What folds found wrong, by account; gone once it is mended.
CREATE TABLE problem (
    cluster   text        NOT NULL,
    node      text        NOT NULL,
    day       date        NOT NULL,
    kind      text        NOT NULL CHECK (kind IN ('Overcommitted', 'OutsideNode')),
    pod_uid   text,
    from_time timestamptz,
    to_time   timestamptz,
    found_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX problem_of_account ON problem (cluster, node, day);
