-- Every usage line rated again from the tiers of its version: naively, in SQL, with nothing of the engine. A kind of tier or
-- of rounding that is not known here is no price of nothing: its name is cast to a number, which ends the audit with it.
--
-- Where the decimals come from: Postgres gives a quotient at least as many decimals as its dividend has, so each dividend is
-- multiplied by a 1 with 40 of them. Batches are then off by less than 1 in the 40th decimal, and their price, at up to ten
-- digits before the point each, by less than 1 in the 30th. So 30 decimals are looked at: what lies beyond is the dust of
-- quotients, which must not move an amount off a half.
WITH usage AS (
    SELECT invoice.number, invoice.currency_decimals, line.position, line.base, line.trace,
        (line.trace ->> 'quantity')::numeric AS quantity,
        (line.trace ->> 'prepaid_amount')::numeric AS prepaid_amount,
        (line.trace -> 'rounding' ->> 'given_before')::numeric AS given_before,
        coalesce((line.trace -> 'rounding' ->> 'forgiven')::numeric, 0) AS forgiven,
        component.tiers, component.is_bulk
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    JOIN components component
        ON component.organization_id = line.organization_id
            AND component.plan_version_id = regexp_replace(line.plan ->> 'version_id', '^plan_version_', '')::uuid
            AND component.metric_id = regexp_replace(line.trace -> 'metric' ->> 'metric_id', '^metric_', '')::uuid
    WHERE line.trace ->> 'kind' = 'usage_charge'
),
step AS (
    SELECT usage.*, tier.ordinal, tier.price, tier.is_last,
        CASE
            -- Bulk: the one tier that holds the quantity has all of it; beyond the last end the last one has its end.
            WHEN usage.is_bulk THEN CASE
                WHEN (tier.ordinal = 1 OR usage.quantity > tier.range_start)
                    AND (tier.range_end IS NULL OR usage.quantity <= tier.range_end OR tier.is_last)
                THEN least(usage.quantity, coalesce(tier.range_end, usage.quantity))
            END
            WHEN usage.quantity > tier.range_start OR tier.ordinal = 1
            THEN greatest(least(usage.quantity, coalesce(tier.range_end, usage.quantity)) - tier.range_start, 0)
        END AS part
    FROM usage
    CROSS JOIN LATERAL (
        -- A tier begins where the one before it ends, however that was spelt.
        SELECT ordinal, entry -> 'price' AS price,
            coalesce(lag((entry ->> 'range_end')::numeric) OVER (ORDER BY ordinal), 0) AS range_start,
            (entry ->> 'range_end')::numeric AS range_end,
            ordinal = jsonb_array_length(usage.tiers) AS is_last
        FROM jsonb_array_elements(usage.tiers) WITH ORDINALITY AS list (entry, ordinal)
    ) tier
),
batches AS (
    SELECT step.*, greatest(part, 0) * 1.0000000000000000000000000000000000000000
        / nullif((price ->> 'metric_units_per_batch')::numeric, 0) AS batches
    FROM step
    WHERE part IS NOT NULL
),
rated AS (
    SELECT number, position, base, given_before, forgiven, currency_decimals, prepaid_amount, sum(CASE price ->> 'type'
        WHEN 'free' THEN 0
        WHEN 'flat' THEN (price ->> 'cost')::numeric
        WHEN 'per_unit' THEN (price ->> 'cost_per_batch')::numeric * CASE coalesce(price ->> 'batch_rounding', 'no_rounding')
            WHEN 'round_up' THEN ceil(batches)
            WHEN 'round_down' THEN floor(batches)
            WHEN 'round_nearest' THEN floor(batches + 0.5)
            WHEN 'no_rounding' THEN batches
            ELSE format('an unknown rounding of batches: %s', price ->> 'batch_rounding')::numeric
        END
        ELSE format('a tier of an unknown kind: %s', price ->> 'type')::numeric
    END) AS price
    FROM batches
    GROUP BY number, position, base, given_before, forgiven, currency_decimals, prepaid_amount
)
SELECT number AS subject,
    format('line %s: %s is charged, %s - %s prepaid - %s given before is due', position, base, price, prepaid_amount, given_before) AS problem
FROM rated
WHERE base <> greatest(round(round(greatest(price - prepaid_amount, 0), 30), currency_decimals), forgiven) - given_before
