-- Unit amount x quantity x the part of the full interval, or all of it less what full fees came to before a switch, or nothing;
-- half away from zero, and not less than what voided invoices forgave. The quotient has 40 decimals, because its dividend is
-- multiplied by a 1 that has them, and then 30 are looked at: as in usage_is_priced_right.
SELECT fee.number AS subject, format('line %s: %s is charged, %s - %s is due', fee.position, fee.base, fee.exact, fee.given_before) AS problem
FROM (
    SELECT invoice.number, line.position, line.base, invoice.currency_decimals,
        (line.trace -> 'rounding' ->> 'given_before')::numeric AS given_before,
        charge.amount AS listed, (line.trace ->> 'unit_amount')::numeric AS unit_amount,
        coalesce((line.trace -> 'rounding' ->> 'forgiven')::numeric, 0) AS forgiven,
        CASE
            WHEN line.trace ->> 'flat_fee_behavior' = 'refund' THEN 0
            WHEN line.trace -> 'window' ->> 'start' = line.trace -> 'window' ->> 'end' THEN 0
            WHEN line.trace ->> 'charge_behavior' = 'full' AND line.trace ->> 'flat_fee_behavior' IS DISTINCT FROM 'charge_prorated'
            THEN greatest((line.trace ->> 'unit_amount')::numeric * (line.trace ->> 'quantity')::numeric
                - coalesce((line.trace ->> 'charged_before_switch')::numeric, 0), 0)
            ELSE (line.trace ->> 'unit_amount')::numeric * (line.trace ->> 'quantity')::numeric
                * (line.trace -> 'fraction' ->> 'numerator')::numeric * 1.0000000000000000000000000000000000000000
                / (line.trace -> 'fraction' ->> 'denominator')::numeric
        END AS exact
    FROM invoice_lines line
    JOIN invoices invoice ON invoice.customer_key = line.customer_key AND invoice.id = line.invoice_id
    JOIN billing_records record ON record.customer_key = line.customer_key AND record.id = line.record_id
    LEFT JOIN recurring_charges charge
        ON charge.organization_id = line.organization_id AND charge.id = record.recurring_charge_id
    WHERE line.trace ->> 'kind' = 'recurring_charge'
) fee
WHERE fee.base <> CASE
        WHEN fee.forgiven = 0 THEN round(round(fee.exact, 30), fee.currency_decimals)
        ELSE greatest(round(round(fee.exact, 30), fee.currency_decimals), fee.forgiven)
    END - fee.given_before
    OR fee.listed IS DISTINCT FROM fee.unit_amount
