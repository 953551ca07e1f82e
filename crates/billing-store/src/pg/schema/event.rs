//! The tables of usage events and of what is counted of them, as Diesel sees them.

diesel::table! {
    event_arrivals (organization_id, key_range) {
        organization_id -> Uuid,
        key_range -> Int4,
        last_arrival -> Int8,
        last_correction -> Int8,
    }
}

diesel::table! {
    event_corrections (customer_key, id) {
        customer_key -> Uuid,
        id -> Uuid,
        organization_id -> Uuid,
        id_hash -> Uuid,
        idempotency_id -> Text,
        customer_id -> Text,
        event_name -> Text,
        time_created -> Timestamptz,
        properties -> Json,
        arrived -> Int8,
        arrival -> Int8,
        amended_time -> Nullable<Timestamptz>,
        amended_properties -> Nullable<Json>,
        corrected_at -> Timestamptz,
        corrected_by -> Nullable<Text>,
        reason -> Nullable<Text>,
        job_id -> Nullable<Uuid>,
    }
}

diesel::table! {
    event_names (organization_id, name) {
        organization_id -> Uuid,
        name -> Text,
        latest_before -> Timestamptz,
    }
}

diesel::table! {
    events (customer_key, id_hash) {
        organization_id -> Uuid,
        customer_key -> Uuid,
        customer_id -> Text,
        id_hash -> Uuid,
        idempotency_id -> Text,
        event_name -> Text,
        time_created -> Timestamptz,
        properties -> Json,
        received_at -> Timestamptz,
        arrival -> Int8,
        correction -> Int2,
    }
}

diesel::table! {
    hot_buckets (customer_key, event_name, dimensions) {
        customer_key -> Uuid,
        organization_id -> Uuid,
        event_name -> Text,
        dimensions -> Text,
        hour -> Timestamptz,
        deltas -> Json,
    }
}

diesel::table! {
    ingest_key_ranges (is_only) {
        is_only -> Bool,
        range_bits -> Int2,
    }
}

diesel::table! {
    ingest_versions (organization_id) {
        organization_id -> Uuid,
        version -> Int8,
    }
}

diesel::table! {
    metric_rollups (organization_id, metric_id, filter_keys) {
        organization_id -> Uuid,
        metric_id -> Uuid,
        filter_keys -> Array<Text>,
        rolled_up_from -> Timestamptz,
        filled_to -> Nullable<Uuid>,
    }
}

diesel::table! {
    rollup_versions (customer_key) {
        customer_key -> Uuid,
        organization_id -> Uuid,
        version -> Uuid,
    }
}

diesel::table! {
    usage_rollup (customer_key, metric_id, dimensions, bucket_hours, bucket) {
        customer_key -> Uuid,
        organization_id -> Uuid,
        metric_id -> Uuid,
        dimensions -> Text,
        bucket_hours -> Int2,
        bucket -> Timestamptz,
        event_count -> Int8,
        sum -> Numeric,
        max -> Nullable<Numeric>,
        min -> Nullable<Numeric>,
        latest -> Nullable<Numeric>,
        latest_at -> Nullable<Timestamptz>,
        latest_id -> Nullable<Text>,
    }
}

diesel::table! {
    event_minutes (organization_id, minute) {
        organization_id -> Uuid,
        minute -> Timestamptz,
        stored -> Int8,
        of_unknown_customers -> Int8,
        of_unknown_names -> Int8,
    }
}

diesel::table! {
    uncounted_events (organization_id, reason, subject) {
        organization_id -> Uuid,
        reason -> Text,
        subject -> Text,
        event_name -> Text,
        customer_id -> Text,
        event_count -> Int8,
        first_at -> Timestamptz,
        last_at -> Timestamptz,
    }
}

diesel::table! {
    event_watches (process, organization_id, customer_id, metric_id) {
        process -> Uuid,
        organization_id -> Uuid,
        customer_id -> Text,
        metric_id -> Uuid,
        watched_at -> Timestamptz,
    }
}

diesel::table! {
    passed_events (position) {
        position -> Int8,
        watcher -> Uuid,
        organization_id -> Uuid,
        watched_customer_id -> Text,
        watched_metric_id -> Uuid,
        passed_at -> Timestamptz,
        skipped -> Int8,
        customer_id -> Text,
        event_name -> Text,
        idempotency_id -> Text,
        time_created -> Timestamptz,
        properties -> Json,
    }
}
