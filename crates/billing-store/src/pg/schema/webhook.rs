//! The tables of webhook endpoints, as Diesel sees them.

diesel::table! {
    webhook_attempts (organization_id, endpoint_id, id) {
        organization_id -> Uuid,
        endpoint_id -> Uuid,
        id -> Int8,
        message_id -> Uuid,
        attempt -> Int8,
        at -> Timestamptz,
        status -> Nullable<Int8>,
        duration_ms -> Int8,
        answer -> Text,
    }
}

diesel::table! {
    webhook_endpoints (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        url -> Text,
        event_types -> Array<Text>,
        description -> Nullable<Text>,
        public_key -> Text,
        secret -> Bytea,
        old_secret -> Nullable<Bytea>,
        old_secret_until -> Nullable<Timestamptz>,
        status -> Text,
        disabled_reason -> Nullable<Text>,
        failing_since -> Nullable<Timestamptz>,
        position -> Int8,
        created_at -> Timestamptz,
        leased_to -> Nullable<Uuid>,
        leased_until -> Nullable<Timestamptz>,
        served_at -> Nullable<Timestamptz>,
        replays -> Int8,
    }
}

diesel::table! {
    webhook_pending (organization_id, endpoint_id, message_id) {
        organization_id -> Uuid,
        endpoint_id -> Uuid,
        message_id -> Uuid,
        position -> Int8,
        attempts -> Int8,
        next_at -> Timestamptz,
        first_at -> Nullable<Timestamptz>,
    }
}
