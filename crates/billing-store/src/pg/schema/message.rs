//! The tables of messages, as Diesel sees them.

diesel::table! {
    feed_entries (organization_id, position) {
        organization_id -> Uuid,
        position -> Int8,
        customer_key -> Nullable<Uuid>,
        message_id -> Uuid,
        message_type -> Text,
        written_at -> Timestamptz,
    }
}

diesel::table! {
    message_counters (organization_id) {
        organization_id -> Uuid,
        last_position -> Int8,
        first_kept -> Int8,
    }
}

diesel::table! {
    messages (customer_key, id) {
        customer_key -> Uuid,
        id -> Uuid,
        organization_id -> Uuid,
        message_type -> Text,
        at -> Timestamptz,
        is_live -> Bool,
        invoice_id -> Nullable<Uuid>,
        data -> Nullable<Text>,
        is_placed -> Bool,
        written_at -> Timestamptz,
    }
}

diesel::table! {
    organization_messages (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        message_type -> Text,
        at -> Timestamptz,
        data -> Text,
        is_placed -> Bool,
        written_at -> Timestamptz,
    }
}
