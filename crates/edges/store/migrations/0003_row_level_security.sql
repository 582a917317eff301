-- Who sees and does what.
--
-- warpyard_meter writes, and sees everything. warpyard_reader sees the rows whose tenant was named in this
-- transaction: warpyard.namespaces and warpyard.queues are JSON arrays of names, warpyard.everything is 'yes'.
-- Nothing set, nothing seen. The owner has no policy and, as security is forced, sees no row either.

-- What the settings say. Policies call these in sub-selects, so that they run once for a query and not for each row;
-- IN over a sub-select becomes one look-up in a hash table for each row, however many names there are.

CREATE FUNCTION visible_names(setting text) RETURNS SETOF text
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_array_elements_text(nullif(current_setting(setting, true), '')::jsonb)
$$;

CREATE FUNCTION everything_visible() RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(current_setting('warpyard.everything', true) = 'yes', false)
$$;

DO $$
DECLARE
    tenant_table text;
BEGIN
    FOREACH tenant_table IN ARRAY
        ARRAY['pod_usage', 'usage_event', 'ledger_line', 'open_usage', 'daily_spend', 'run_spend']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', tenant_table);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', tenant_table);
        EXECUTE format('CREATE POLICY meter ON %I TO warpyard_meter USING (true) WITH CHECK (true)', tenant_table);
        EXECUTE format(
            'CREATE POLICY reader ON %I FOR SELECT TO warpyard_reader USING (
                 (SELECT everything_visible())
                 OR namespace IN (SELECT visible_names(''warpyard.namespaces''))
                 OR queue IN (SELECT visible_names(''warpyard.queues'')))',
            tenant_table);
    END LOOP;
END $$;

GRANT SELECT, INSERT ON usage_event, ledger_line, price_version, price TO warpyard_meter;
GRANT SELECT, INSERT, UPDATE ON pod_usage, node_usage, account, daily_spend, run_spend, meter_state TO warpyard_meter;
GRANT SELECT, INSERT, DELETE ON open_usage, problem TO warpyard_meter;

-- price_version tells the currency.
GRANT SELECT ON ledger_line, open_usage, daily_spend, run_spend, price_version TO warpyard_reader;
