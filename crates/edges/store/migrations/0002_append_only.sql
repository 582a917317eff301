-- What is only ever added to refuses everything else, for every role: the owner too.

CREATE FUNCTION refuse_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: it is only ever added to', TG_OP, TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation', HINT = 'post a reversal';
END $$;

-- For each statement, not each row: so it also fires where row-level security hides every row.
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON usage_event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON price_version
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON price
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
-- Partitions get one of their own in ensure_ledger_partition: a statement that names a partition fires only that.
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_line
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
