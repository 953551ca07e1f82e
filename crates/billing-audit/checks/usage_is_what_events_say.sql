-- The quantity that each record was billed for last, counted again from the events. Events that arrived after that
-- invoice are late usage still to come, or came after the wait for it: so either all events agree, or those that were
-- there when the invoice was made (the time is in its id), give or take what was under way just then.
WITH billed AS (
    SELECT DISTINCT ON (line.customer_key, line.record_id)
        line.organization_id, line.customer_key, line.record_id, invoice.number, line.trace,
        (line.trace ->> 'quantity')::numeric AS quantity,
        to_timestamp(('x' || substr(replace(invoice.id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) AS made_at,
        (line.trace -> 'window' ->> 'start')::timestamptz AS start_at,
        (line.trace -> 'window' ->> 'end')::timestamptz AS end_at
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    WHERE line.trace ->> 'kind' = 'usage_charge' AND line.record_id IS NOT NULL
    ORDER BY line.customer_key, line.record_id, invoice.id DESC
),
metered AS (
    SELECT billed.*, metric.event_name, metric.aggregation_type, metric.property_name, metric.filters
    FROM billed
    JOIN metrics metric
        ON metric.organization_id = billed.organization_id
            AND metric.id = regexp_replace(billed.trace -> 'metric' ->> 'metric_id', '^metric_', '')::uuid
    WHERE metric.metric_type = 'counter'
),
figures AS (
    SELECT metered.number, metered.record_id, metered.quantity, found.cut, found.quantity AS found
    FROM metered
    CROSS JOIN LATERAL (
        SELECT cut.name AS cut, CASE metered.aggregation_type
            WHEN 'count' THEN count(event.is_there)
            WHEN 'sum' THEN coalesce(sum(event.number), 0)
            WHEN 'max' THEN coalesce(max(event.number), 0)
            WHEN 'min' THEN coalesce(min(event.number), 0)
            WHEN 'unique' THEN count(DISTINCT event.text)
            WHEN 'average' THEN coalesce(
                sum(event.number) * 1.0000000000000000000000000000000000000000 / nullif(count(event.number), 0), 0
            )
            WHEN 'latest' THEN coalesce(
                (array_agg(event.number ORDER BY event.time_created DESC, event.idempotency_id COLLATE "C" DESC)
                    FILTER (WHERE event.is_there))[1],
                0
            )
        END AS quantity
        FROM (VALUES ('all', 'infinity'::timestamptz), ('then', metered.made_at), ('shortly before', metered.made_at - interval '5 s'))
            AS cut (name, at)
        LEFT JOIN LATERAL (
            SELECT measured.*, true AS is_there
            FROM (
                SELECT stored.received_at, stored.time_created, stored.idempotency_id, CASE
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
                FROM events stored
                WHERE stored.customer_key = metered.customer_key AND stored.organization_id = metered.organization_id
                    AND stored.event_name = metered.event_name
                    AND stored.time_created >= metered.start_at AND stored.time_created < metered.end_at
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
                        ) own
                        WHERE NOT coalesce(CASE wanted ->> 'operator'
                            WHEN 'gte' THEN own.distance >= 0
                            WHEN 'gt' THEN own.distance > 0
                            WHEN 'eq' THEN own.distance = 0
                            WHEN 'lt' THEN own.distance < 0
                            WHEN 'lte' THEN own.distance <= 0
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
            WHERE measured.received_at <= cut.at AND CASE
                WHEN metered.property_name IS NULL THEN true
                WHEN metered.aggregation_type = 'unique' THEN measured.text IS NOT NULL
                ELSE measured.number IS NOT NULL
            END
        ) event ON true
        GROUP BY cut.name
    ) found
)
SELECT number AS subject,
    format('record %s was billed for %s, its events say %s', record_id, quantity, string_agg(found || ' (' || cut || ')', ', ' ORDER BY cut)) AS problem
FROM figures
GROUP BY number, record_id, quantity
HAVING bool_and(round(found - quantity, 30) <> 0)
