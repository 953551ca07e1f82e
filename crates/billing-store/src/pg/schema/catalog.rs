//! The tables of the catalogue, as Diesel sees them.

diesel::table! {
    catalog_versions (organization_id) {
        organization_id -> Uuid,
        version -> Uuid,
    }
}

diesel::table! {
    components (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        plan_version_id -> Uuid,
        position -> Int4,
        metric_id -> Uuid,
        tiers -> Jsonb,
        is_bulk -> Bool,
        invoicing_interval_unit -> Nullable<Text>,
        invoicing_interval_count -> Nullable<Int8>,
        reset_interval_unit -> Nullable<Text>,
        reset_interval_count -> Nullable<Int8>,
        prepaid_units -> Nullable<Numeric>,
        prepaid_charge_behavior -> Nullable<Text>,
    }
}

diesel::table! {
    currencies (organization_id, code) {
        organization_id -> Uuid,
        code -> Text,
        name -> Text,
        symbol -> Text,
        decimals -> Int2,
    }
}

diesel::table! {
    features (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        name -> Text,
        description -> Nullable<Text>,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    metrics (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        name -> Text,
        event_name -> Text,
        aggregation_type -> Text,
        property_name -> Nullable<Text>,
        filters -> Nullable<Jsonb>,
        is_cost_metric -> Bool,
        created_at -> Timestamptz,
        archived_at -> Nullable<Timestamptz>,
        metric_type -> Text,
        event_type -> Nullable<Text>,
        granularity -> Nullable<Text>,
        proration -> Nullable<Text>,
        custom_sql -> Nullable<Text>,
    }
}

diesel::table! {
    organizations (id) {
        id -> Uuid,
        name -> Text,
        default_currency_code -> Text,
        timezone -> Text,
        tax_rate -> Nullable<Numeric>,
        payment_grace_period_days -> Nullable<Int4>,
        invoice_grace_minutes -> Int8,
        subscription_filter_keys -> Array<Text>,
        access_policy -> Text,
        event_window_days -> Int4,
        address -> Nullable<Jsonb>,
        created_at -> Timestamptz,
        tax_providers -> Array<Text>,
        tax_hook -> Nullable<Jsonb>,
        on_tax_failure -> Text,
        approval_limit -> Nullable<Numeric>,
    }
}

diesel::table! {
    plan_version_features (organization_id, plan_version_id, feature_id) {
        organization_id -> Uuid,
        plan_version_id -> Uuid,
        feature_id -> Uuid,
        position -> Int4,
    }
}

diesel::table! {
    plan_version_targets (organization_id, plan_version_id, customer_key) {
        organization_id -> Uuid,
        plan_version_id -> Uuid,
        customer_key -> Uuid,
        customer_id -> Text,
        position -> Int4,
    }
}

diesel::table! {
    plan_versions (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        plan_id -> Uuid,
        number -> Int8,
        localized_name -> Nullable<Text>,
        description -> Nullable<Text>,
        currency_code -> Text,
        price_adjustment_name -> Nullable<Text>,
        price_adjustment_description -> Nullable<Text>,
        price_adjustment_kind -> Nullable<Text>,
        price_adjustment_amount -> Nullable<Numeric>,
        day_anchor -> Nullable<Int2>,
        month_anchor -> Nullable<Int2>,
        active_from -> Nullable<Timestamptz>,
        active_to -> Nullable<Timestamptz>,
        replace_with -> Nullable<Uuid>,
        created_at -> Timestamptz,
        transition_to -> Nullable<Uuid>,
        deleted_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    plans (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        name -> Text,
        description -> Nullable<Text>,
        duration -> Nullable<Text>,
        tags -> Array<Text>,
        external_links -> Jsonb,
        created_at -> Timestamptz,
        billing_frequency -> Nullable<Text>,
        invoice_when -> Nullable<Text>,
        deleted_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    recurring_charges (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        plan_version_id -> Uuid,
        position -> Int4,
        name -> Text,
        amount -> Numeric,
        charge_timing -> Text,
        charge_behavior -> Text,
        invoicing_interval_unit -> Nullable<Text>,
        invoicing_interval_count -> Nullable<Int8>,
        reset_interval_unit -> Nullable<Text>,
        reset_interval_count -> Nullable<Int8>,
    }
}

diesel::table! {
    test_clocks (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        name -> Text,
        frozen_time -> Timestamptz,
        status -> Text,
        created_at -> Timestamptz,
    }
}
