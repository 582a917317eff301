-- What a pod did in vain: use after the checkpoint from which a later attempt of its Run began.

ALTER TABLE pod_usage ADD COLUMN lost_from timestamptz;
-- A Run's attempt, once a later one has said what it loaded.
CREATE INDEX pod_usage_of_attempt ON pod_usage (cluster, namespace, run, attempt) WHERE run IS NOT NULL;

-- NOT VALID spares a look at every line: all that are there kept the narrower rule. New lines are checked.
ALTER TABLE ledger_line DROP CONSTRAINT ledger_line_class_check;
ALTER TABLE ledger_line ADD CONSTRAINT ledger_line_class_check
    CHECK (class IN ('Productive', 'Starting', 'Lost', 'NodeIdle')) NOT VALID;
