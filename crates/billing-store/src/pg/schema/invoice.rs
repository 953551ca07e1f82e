//! The tables of invoices and payments, as Diesel sees them.

diesel::table! {
    invoice_counters (organization_id) {
        organization_id -> Uuid,
        last_sequence -> Int8,
        last_credit_note -> Int8,
    }
}

diesel::table! {
    invoice_lines (customer_key, invoice_id, position) {
        customer_key -> Uuid,
        invoice_id -> Uuid,
        position -> Int8,
        organization_id -> Uuid,
        name -> Text,
        start_at -> Timestamptz,
        end_at -> Timestamptz,
        quantity -> Nullable<Numeric>,
        billing_type -> Text,
        subscription_id -> Nullable<Uuid>,
        record_id -> Nullable<Uuid>,
        plan -> Nullable<Jsonb>,
        filters -> Text,
        base -> Numeric,
        adjustments -> Jsonb,
        amount -> Numeric,
        trace -> Jsonb,
    }
}

diesel::table! {
    invoice_numbers (organization_id, number) {
        organization_id -> Uuid,
        number -> Text,
        customer_key -> Uuid,
        invoice_id -> Uuid,
    }
}

diesel::table! {
    invoiced_hours (organization_id, hour, currency_code, writer) {
        organization_id -> Uuid,
        hour -> Timestamptz,
        currency_code -> Text,
        writer -> Int4,
        amount -> Numeric,
    }
}

diesel::table! {
    invoices (customer_key, id) {
        customer_key -> Uuid,
        id -> Uuid,
        organization_id -> Uuid,
        number -> Text,
        billed_to -> Jsonb,
        seller -> Jsonb,
        currency_code -> Text,
        currency_name -> Text,
        currency_symbol -> Text,
        currency_decimals -> Int2,
        issued_at -> Timestamptz,
        due_at -> Nullable<Timestamptz>,
        payment_status -> Text,
        line_count -> Int8,
        amount -> Numeric,
        past_due_at -> Nullable<Timestamptz>,
        amount_paid -> Numeric,
        voided_at -> Nullable<Timestamptz>,
        amount_past_due -> Nullable<Numeric>,
        replaces -> Nullable<Uuid>,
        replaced_by -> Nullable<Uuid>,
    }
}

diesel::table! {
    payments (customer_key, id) {
        customer_key -> Uuid,
        id -> Uuid,
        organization_id -> Uuid,
        position -> Int8,
        invoice_id -> Uuid,
        kind -> Text,
        reverses -> Nullable<Uuid>,
        amount -> Numeric,
        credited -> Numeric,
        credit_id -> Nullable<Uuid>,
        at -> Timestamptz,
        method -> Nullable<Text>,
        reference -> Nullable<Text>,
        reason -> Nullable<Text>,
        noted_at -> Timestamptz,
        credit_note_id -> Nullable<Uuid>,
    }
}
