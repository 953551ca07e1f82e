//! The tables of credit notes, as Diesel sees them.

diesel::table! {
    credit_note_lines (customer_key, credit_note_id, position) {
        customer_key -> Uuid,
        credit_note_id -> Uuid,
        position -> Int8,
        organization_id -> Uuid,
        invoice_id -> Uuid,
        amount -> Numeric,
        base -> Numeric,
        tax -> Numeric,
    }
}

diesel::table! {
    credit_notes (customer_key, id) {
        customer_key -> Uuid,
        id -> Uuid,
        organization_id -> Uuid,
        number -> Text,
        invoice_id -> Uuid,
        currency_code -> Text,
        issued_at -> Timestamptz,
        amount -> Numeric,
        credited -> Numeric,
        settlement -> Text,
        credit_id -> Nullable<Uuid>,
        reason -> Text,
        reference -> Nullable<Text>,
        voided_at -> Nullable<Timestamptz>,
        is_correction -> Bool,
    }
}

diesel::allow_tables_to_appear_in_same_query!(credit_note_lines, credit_notes);
