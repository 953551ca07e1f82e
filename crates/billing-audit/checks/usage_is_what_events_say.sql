-- The quantity of each usage line, counted again from the events that were seen: those of the customer with arrival numbers up
-- to the one that the line names, whatever came later. And where events of a record that waits for nothing any more were corrected
-- behind its last line, and none came in: what its documents charge is the price of the events as they are, less what was waived;
-- rated as in usage_is_priced_right. What one unit of a gauge is for may have been cut or moved since by a
-- change of the subscription, so that of gauges by the whole period only the last line of a record is looked at. A custom metric's
-- query is a text of a caller's, which nobody runs as it stands: what it means is said in one place, so there is no second
-- opinion to ask. Averages and levels are quotients of 40 decimals here, off by less than the 30th that is looked at: as in
-- usage_is_priced_right.
WITH span (word, unit, step, months) AS (
    VALUES ('seconds', 'second', interval '1 second', 0), ('minutes', 'minute', interval '1 minute', 0),
        ('hours', 'hour', interval '1 hour', 0), ('days', 'day', interval '24 hours', 0), ('months', 'month', interval '1 month', 1),
        ('quarters', 'quarter', interval '3 months', 3), ('years', 'year', interval '1 year', 12)
),
line AS (
    SELECT line.organization_id, line.customer_key, line.record_id, line.subscription_id, invoice.number,
        invoice.currency_decimals, line.trace, (line.trace ->> 'quantity')::numeric AS quantity,
        coalesce((line.trace ->> 'last_arrival')::bigint, 0) AS last_arrival,
        row_number() OVER (PARTITION BY line.customer_key, line.record_id ORDER BY invoice.id DESC) = 1 AS is_last,
        (line.trace -> 'window' ->> 'start')::timestamptz AS start_at,
        (line.trace -> 'window' ->> 'end')::timestamptz AS end_at
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    WHERE line.trace ->> 'kind' = 'usage_charge' AND line.record_id IS NOT NULL
),
billed AS (
    SELECT line.*, false AS is_settled, NULL::uuid AS component_id, 0 AS waived FROM line
    UNION ALL
    SELECT line.*, true, record.component_id, record.billed_forgiven
    FROM line
    JOIN billing_records record ON record.customer_key = line.customer_key AND record.id = line.record_id
    WHERE line.is_last AND record.usage_billing = 'here' AND record.start_at = line.start_at AND record.end_at = line.end_at
        AND record.next_invoicing_at IS NULL AND record.late_until IS NULL
        AND EXISTS (
            SELECT FROM event_corrections correction
            WHERE correction.customer_key = line.customer_key AND correction.arrival > line.last_arrival
        )
),
metered AS (
    SELECT billed.*, CASE WHEN billed.is_settled THEN 9223372036854775807 ELSE billed.last_arrival END AS upto, metric.event_name, metric.metric_type, metric.aggregation_type, metric.property_name, metric.filters,
        metric.event_type, bucket.unit AS bucket_unit, bucket.step AS bucket_step, bucket.months AS bucket_months, span.step,
        -- What one unit of a gauge is for.
        CASE WHEN span.step IS NULL THEN subscription.full_start_at ELSE billed.start_at END AS full_start_at,
        CASE WHEN span.step IS NULL THEN subscription.full_end_at ELSE billed.start_at + span.step END AS full_end_at,
        -- A gauge brings its level from before, a window of a rate begins before the event that it ends at.
        CASE metric.metric_type
            WHEN 'gauge' THEN '-infinity'
            WHEN 'rate' THEN billed.start_at - span.step
            ELSE billed.start_at
        END AS reach_at
    FROM billed
    JOIN metrics metric
        ON metric.organization_id = billed.organization_id
            AND metric.id = regexp_replace(billed.trace -> 'metric' ->> 'metric_id', '^metric_', '')::uuid
    JOIN subscriptions subscription
        ON subscription.customer_key = billed.customer_key AND subscription.id = billed.subscription_id
    LEFT JOIN span ON span.word = metric.granularity
    LEFT JOIN span bucket ON bucket.word = metric.proration
    WHERE metric.metric_type IN ('counter', 'gauge', 'rate')
        AND (billed.is_last OR metric.metric_type <> 'gauge' OR span.step IS NOT NULL)
),
counted AS (
    SELECT metered.*
    FROM metered
    WHERE NOT metered.is_settled OR NOT EXISTS (
        -- What came in late may have changed nothing when it was looked at; an amended event came in with its first correction.
        SELECT FROM events stored
        WHERE stored.customer_key = metered.customer_key AND stored.organization_id = metered.organization_id
            AND stored.event_name = metered.event_name AND stored.correction < 2
            AND stored.time_created >= metered.reach_at AND stored.time_created < metered.end_at
            AND metered.last_arrival < coalesce((
                SELECT min(first.arrived) FROM event_corrections first
                WHERE first.customer_key = stored.customer_key AND first.organization_id = stored.organization_id
                    AND first.id_hash = stored.id_hash AND first.idempotency_id = stored.idempotency_id
            ), stored.arrival)
    )
),
figures AS (
    SELECT metered.customer_key, metered.number, metered.currency_decimals, metered.record_id, metered.component_id, metered.quantity,
        metered.last_arrival, metered.is_settled, metered.waived, (metered.trace ->> 'prepaid_amount')::numeric AS prepaid_amount,
        found.quantity AS found
    FROM counted metered
    CROSS JOIN LATERAL (
        WITH event AS MATERIALIZED (
            SELECT measured.*
            FROM (
                SELECT stored.time_created, stored.idempotency_id, CASE
                    WHEN json_typeof(stored.properties -> metered.property_name) = 'number'
                        AND octet_length(stored.properties ->> metered.property_name) <= 60
                        AND stored.properties ->> metered.property_name
                            ~ '^-?[0-9]+(\.[0-9]+)?([eE][+-]?0*([0-2]?[0-9]|30))?$'
                    THEN (stored.properties ->> metered.property_name)::numeric::text
                    WHEN json_typeof(stored.properties -> metered.property_name) IN ('string', 'boolean', 'number')
                    THEN stored.properties ->> metered.property_name
                END AS text,
                CASE
                    WHEN json_typeof(stored.properties -> metered.property_name) IN ('number', 'string')
                        AND octet_length(stored.properties ->> metered.property_name) <= 60
                        AND stored.properties ->> metered.property_name
                            ~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0*([0-2]?[0-9]|30))?$'
                    THEN (stored.properties ->> metered.property_name)::numeric
                END AS number
                FROM (
                    -- As they were then: what was corrected since counts as it did before.
                    SELECT organization_id, customer_key, event_name, time_created, idempotency_id, properties, arrival,
                        'infinity'::float8 AS until
                    FROM events WHERE correction < 2
                    UNION ALL
                    SELECT organization_id, customer_key, event_name, time_created, idempotency_id, properties, arrived, arrival
                    FROM event_corrections
                ) stored
                WHERE stored.customer_key = metered.customer_key AND stored.organization_id = metered.organization_id
                    AND stored.event_name = metered.event_name AND stored.arrival <= metered.upto AND metered.upto < stored.until
                    AND stored.time_created >= metered.reach_at AND stored.time_created < metered.end_at
                    AND NOT EXISTS (
                        SELECT FROM jsonb_each_text(metered.trace -> 'metric' -> 'subscription_filters') wanted
                        WHERE stored.properties ->> wanted.key IS DISTINCT FROM wanted.value
                    )
                    AND NOT EXISTS (
                        SELECT FROM jsonb_array_elements(coalesce(metered.filters -> 'numeric_filters', '[]')) wanted
                        CROSS JOIN LATERAL (
                            SELECT CASE
                                WHEN json_typeof(stored.properties -> (wanted ->> 'property_name')) IN ('number', 'string')
                                    AND octet_length(stored.properties ->> (wanted ->> 'property_name')) <= 60
                                    AND stored.properties ->> (wanted ->> 'property_name')
                                        ~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?0*([0-2]?[0-9]|30))?$'
                                THEN (stored.properties ->> (wanted ->> 'property_name'))::numeric
                                    - (wanted ->> 'comparison_value')::numeric
                            END AS distance
                        ) compared
                        WHERE NOT coalesce(CASE wanted ->> 'operator'
                            WHEN 'gte' THEN compared.distance >= 0
                            WHEN 'gt' THEN compared.distance > 0
                            WHEN 'eq' THEN compared.distance = 0
                            WHEN 'lt' THEN compared.distance < 0
                            WHEN 'lte' THEN compared.distance <= 0
                        END, false)
                    )
                    AND NOT EXISTS (
                        SELECT FROM jsonb_array_elements(coalesce(metered.filters -> 'categorical_filters', '[]')) wanted
                        WHERE (wanted ->> 'operator' = 'isnotin') = coalesce(CASE
                            WHEN json_typeof(stored.properties -> (wanted ->> 'property_name')) IN ('string', 'boolean', 'number')
                            THEN wanted -> 'comparison_value' @> to_jsonb(stored.properties ->> (wanted ->> 'property_name'))
                        END, false)
                    )
            ) measured
            WHERE CASE
                WHEN metered.property_name IS NULL THEN true
                WHEN metered.aggregation_type = 'unique' THEN measured.text IS NOT NULL
                ELSE measured.number IS NOT NULL
            END
        ),
        counter AS (
            SELECT CASE metered.aggregation_type
                WHEN 'count' THEN count(*)
                WHEN 'sum' THEN coalesce(sum(event.number), 0)
                WHEN 'max' THEN coalesce(max(event.number), 0)
                WHEN 'min' THEN coalesce(min(event.number), 0)
                WHEN 'unique' THEN count(DISTINCT event.text)
                WHEN 'average' THEN coalesce(
                    sum(event.number) * 1.0000000000000000000000000000000000000000 / nullif(count(event.number), 0), 0
                )
                WHEN 'latest' THEN coalesce(
                    (array_agg(event.number ORDER BY event.time_created DESC, event.idempotency_id COLLATE "C" DESC))[1], 0
                )
                ELSE format('an unknown aggregation: %s', metered.aggregation_type)::numeric
            END AS quantity
            FROM event
        ),
        rate AS (
            SELECT coalesce(max(one.quantity), 0) AS quantity
            FROM event last
            CROSS JOIN LATERAL (
                SELECT CASE metered.aggregation_type
                    WHEN 'count' THEN count(*)
                    WHEN 'sum' THEN sum(event.number)
                    WHEN 'max' THEN max(event.number)
                    WHEN 'average' THEN sum(event.number) * 1.0000000000000000000000000000000000000000 / count(*)
                    ELSE format('an unknown aggregation of a rate: %s', metered.aggregation_type)::numeric
                END AS quantity
                FROM event
                WHERE event.time_created BETWEEN last.time_created - metered.step AND last.time_created
            ) one
            WHERE last.time_created >= metered.start_at
        ),
        level AS (
            SELECT event.time_created AS at, event.time_created >= metered.start_at AS is_inside,
                row_number() OVER in_order AS place,
                CASE metered.event_type WHEN 'total' THEN event.number ELSE sum(event.number) OVER in_order END AS level
            FROM event
            WINDOW in_order AS (ORDER BY event.time_created, event.idempotency_id COLLATE "C" ROWS UNBOUNDED PRECEDING)
        ),
        carried AS (
            SELECT coalesce((SELECT level FROM level WHERE NOT is_inside ORDER BY place DESC LIMIT 1), 0) AS level
        ),
        peak AS (
            SELECT greatest(
                (SELECT max(level) FROM level WHERE is_inside),
                (SELECT level FROM carried WHERE NOT EXISTS (SELECT FROM level WHERE at = metered.start_at))
            ) AS quantity
        ),
        -- From when on which level counts: a bucket with events has their greatest, and leaves the last one behind.
        bucket AS (
            SELECT date_trunc(metered.bucket_unit, at) AS start_at, max(level) AS greatest,
                (array_agg(level ORDER BY place DESC))[1] AS last
            FROM level
            WHERE is_inside
            GROUP BY 1
        ),
        turn AS (
            SELECT metered.start_at AS at, '-infinity'::timestamptz AS bucket_at, 0 AS place, level FROM carried
            UNION ALL
            SELECT greatest(start_at, metered.start_at), start_at, 1, greatest FROM bucket
            UNION ALL
            SELECT least(start_at + metered.bucket_step, metered.end_at), start_at, 2, last FROM bucket
        ),
        stretch AS (
            SELECT level, at AS from_at, lead(at, 1, metered.end_at) OVER (ORDER BY bucket_at, place) AS to_at FROM turn
        ),
        -- So many buckets of the calendar, which differ in length, one unit is for.
        whole AS (
            SELECT max(n) AS count
            FROM generate_series(0, 1200) n
            WHERE metered.full_start_at + n * metered.bucket_step <= metered.full_end_at
        ),
        unit AS (
            SELECT CASE metered.bucket_months
                WHEN 0 THEN extract(epoch FROM metered.full_end_at - metered.full_start_at)::numeric
                ELSE whole.count + extract(epoch FROM metered.full_end_at - tile.start_at)::numeric
                    * 1.0000000000000000000000000000000000000000 / extract(epoch FROM tile.end_at - tile.start_at)::numeric
            END AS count
            FROM whole
            CROSS JOIN LATERAL (
                SELECT metered.full_start_at + whole.count * metered.bucket_step AS start_at,
                    metered.full_start_at + (whole.count + 1) * metered.bucket_step AS end_at
            ) tile
        ),
        weighed AS (
            SELECT sum(stretch.level * (upto.count - since.count)) * 1.0000000000000000000000000000000000000000
                / nullif((SELECT count FROM unit), 0) AS quantity
            FROM stretch
            CROSS JOIN LATERAL (
                SELECT (array_agg(counted_to.count ORDER BY counted_to.place)) AS counts
                FROM (
                    SELECT edge.place, CASE metered.bucket_months
                        WHEN 0 THEN extract(epoch FROM edge.at - metered.start_at)::numeric
                        ELSE div((extract(year FROM month.at) * 12 + extract(month FROM month.at) - 1)::numeric, metered.bucket_months)
                            + extract(epoch FROM edge.at - month.at)::numeric * 1.0000000000000000000000000000000000000000
                            / extract(epoch FROM month.at + metered.bucket_step - month.at)::numeric
                    END AS count
                    FROM (VALUES (1, stretch.from_at), (2, stretch.to_at)) AS edge (place, at)
                    CROSS JOIN LATERAL (SELECT date_trunc(metered.bucket_unit, edge.at) AS at) month
                ) counted_to
            ) both_edges
            CROSS JOIN LATERAL (SELECT both_edges.counts[1] AS count) since
            CROSS JOIN LATERAL (SELECT both_edges.counts[2] AS count) upto
        )
        SELECT CASE
            WHEN metered.metric_type = 'counter' THEN (SELECT quantity FROM counter)
            WHEN metered.metric_type = 'rate' THEN (SELECT quantity FROM rate)
            WHEN metered.start_at >= metered.end_at THEN 0
            WHEN metered.bucket_unit IS NULL THEN (SELECT quantity FROM peak)
            ELSE (SELECT quantity FROM weighed)
        END AS quantity
    ) found
),
step AS (
    SELECT figures.*, component.is_bulk, tier.ordinal, tier.price, CASE
        WHEN component.is_bulk THEN CASE
            WHEN (tier.ordinal = 1 OR figures.found > tier.range_start)
                AND (tier.range_end IS NULL OR figures.found <= tier.range_end OR tier.is_last)
            THEN least(figures.found, coalesce(tier.range_end, figures.found))
        END
        WHEN figures.found > tier.range_start OR tier.ordinal = 1
        THEN greatest(least(figures.found, coalesce(tier.range_end, figures.found)) - tier.range_start, 0)
    END AS part
    FROM figures
    JOIN components component ON component.id = figures.component_id
    CROSS JOIN LATERAL (
        SELECT ordinal, entry -> 'price' AS price,
            coalesce(lag((entry ->> 'range_end')::numeric) OVER (ORDER BY ordinal), 0) AS range_start,
            (entry ->> 'range_end')::numeric AS range_end,
            ordinal = jsonb_array_length(component.tiers) AS is_last
        FROM jsonb_array_elements(component.tiers) WITH ORDINALITY AS list (entry, ordinal)
    ) tier
    WHERE figures.is_settled
),
due AS (
    SELECT customer_key, number, record_id, found, last_arrival, greatest(round(round(greatest(sum(CASE price ->> 'type'
        WHEN 'free' THEN 0
        WHEN 'flat' THEN (price ->> 'cost')::numeric
        WHEN 'per_unit' THEN (price ->> 'cost_per_batch')::numeric * CASE coalesce(price ->> 'batch_rounding', 'no_rounding')
            WHEN 'round_up' THEN ceil(batch.count)
            WHEN 'round_down' THEN floor(batch.count)
            WHEN 'round_nearest' THEN floor(batch.count + 0.5)
            WHEN 'no_rounding' THEN batch.count
            ELSE format('an unknown rounding of batches: %s', price ->> 'batch_rounding')::numeric
        END
        ELSE format('a tier of an unknown kind: %s', price ->> 'type')::numeric
    END) - prepaid_amount, 0), 30), currency_decimals) - waived, 0) AS amount
    FROM step
    CROSS JOIN LATERAL (
        SELECT greatest(part, 0) * 1.0000000000000000000000000000000000000000
            / nullif((price ->> 'metric_units_per_batch')::numeric, 0) AS count
    ) batch
    WHERE part IS NOT NULL
    GROUP BY customer_key, number, record_id, found, last_arrival, prepaid_amount, currency_decimals, waived
)
SELECT number AS subject,
    format('record %s was billed for %s, its events up to arrival %s say %s', record_id, quantity, last_arrival, found) AS problem
FROM figures
WHERE NOT is_settled AND round(found - quantity, 30) <> 0
UNION ALL
SELECT due.number,
    format('record %s is charged %s, its events were corrected behind arrival %s and say %s: %s', due.record_id, charged.amount, due.last_arrival, due.found, due.amount)
FROM due
CROSS JOIN LATERAL (
    SELECT coalesce(sum(line.base - coalesce((
        SELECT sum(part.base) FROM credit_note_lines part
        JOIN credit_notes note ON note.customer_key = part.customer_key AND note.id = part.credit_note_id
        WHERE note.voided_at IS NULL AND part.customer_key = line.customer_key AND part.invoice_id = line.invoice_id
            AND part.position = line.position
    ), 0)), 0) AS amount
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    WHERE line.customer_key = due.customer_key AND line.record_id = due.record_id AND line.trace ->> 'kind' = 'usage_charge'
        AND invoice.payment_status <> 'voided'
) charged
WHERE charged.amount <> due.amount
