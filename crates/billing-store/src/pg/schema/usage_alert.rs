//! The tables of usage alerts, as Diesel sees them.

diesel::table! {
    usage_alert_firings (customer_key, usage_alert_id, interval_start) {
        customer_key -> Uuid,
        usage_alert_id -> Uuid,
        interval_start -> Timestamptz,
        organization_id -> Uuid,
        fired_at -> Timestamptz,
        written_at -> Timestamptz,
    }
}

diesel::table! {
    usage_alert_headroom (customer_key) {
        customer_key -> Uuid,
        organization_id -> Uuid,
        changes -> Int8,
        ingest_version -> Int8,
        until_arrivals -> Jsonb,
        holds_from -> Timestamptz,
        holds_until -> Timestamptz,
    }
}

diesel::table! {
    usage_alert_looks (customer_key) {
        customer_key -> Uuid,
        organization_id -> Uuid,
        is_on_clock -> Bool,
        due_at -> Timestamptz,
    }
}

diesel::table! {
    usage_alert_marks (customer_key, id) {
        customer_key -> Uuid,
        id -> Int8,
        organization_id -> Uuid,
        at -> Nullable<Timestamptz>,
        written_at -> Nullable<Timestamptz>,
        may_lie_ahead -> Bool,
    }
}

diesel::table! {
    usage_alerts (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        kind -> Text,
        metric_id -> Nullable<Uuid>,
        threshold -> Numeric,
        unit -> Text,
        currency_code -> Nullable<Text>,
        customer_key -> Nullable<Uuid>,
        customer_id -> Nullable<Text>,
        plan_version_id -> Nullable<Uuid>,
        created_at -> Timestamptz,
        is_introduced -> Bool,
    }
}
