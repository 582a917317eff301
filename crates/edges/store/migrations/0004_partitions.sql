-- Makes sure that the month of a day has its partition of ledger_line. The meter calls it; only the owner could
-- otherwise make tables, hence SECURITY DEFINER.
--
-- At most 28 partitions can come of it at any time: 24 months back, this one, and 3 ahead.

CREATE FUNCTION ensure_ledger_partition(of_day date) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
    -- Without a time zone: the months are of UTC, wherever the session is.
    first_day  date := date_trunc('month', of_day::timestamp)::date;
    this_month date := date_trunc('month', (now() AT TIME ZONE 'UTC'))::date;
    partition  text := 'ledger_line_' || to_char(of_day::timestamp, 'YYYY_MM');
BEGIN
    IF to_regclass('public.' || partition) IS NOT NULL THEN
        RETURN false;
    END IF;
    IF first_day < this_month - interval '24 months' OR first_day > this_month + interval '3 months' THEN
        RAISE EXCEPTION 'no partition for %: it is more than 24 months ago or 3 months ahead', of_day
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Two replicas at once: the second waits here, and finds the table made.
    PERFORM pg_advisory_xact_lock(hashtextextended('warpyard/ensure_ledger_partition', 0));
    IF to_regclass('public.' || partition) IS NOT NULL THEN
        RETURN false;
    END IF;
    -- Made alone and attached whole: readers of ledger_line wait for neither.
    EXECUTE format('CREATE TABLE public.%I (LIKE public.ledger_line INCLUDING ALL)', partition);
    -- Nobody but the owner may name a partition, and it too sees no row: there is no policy on it.
    EXECUTE format('ALTER TABLE public.%I ENABLE ROW LEVEL SECURITY', partition);
    EXECUTE format('ALTER TABLE public.%I FORCE ROW LEVEL SECURITY', partition);
    EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON public.%I
                        FOR EACH STATEMENT EXECUTE FUNCTION public.refuse_change()', partition);
    EXECUTE format('ALTER TABLE public.ledger_line ATTACH PARTITION public.%I FOR VALUES FROM (%L) TO (%L)',
                   partition, first_day, (first_day + interval '1 month')::date);
    RETURN true;
END $$;

REVOKE ALL ON FUNCTION ensure_ledger_partition(date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ensure_ledger_partition(date) TO warpyard_meter;
