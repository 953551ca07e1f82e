//! The tables as Diesel sees them. A test compares this with what the migrations make.

pub(crate) use super::audit_schema::{audit_entries, organization_audit_entries};
pub(crate) use super::credit_note_schema::{credit_note_lines, credit_notes};
pub(crate) use super::event_schema::{
    event_arrivals, event_corrections, event_names, events, hot_buckets, ingest_key_ranges, ingest_versions,
    metric_rollups, rollup_versions, usage_rollup,
};
pub(crate) use super::message_schema::{feed_entries, message_counters, messages, organization_messages};
#[cfg(feature = "testing")]
pub(crate) use super::usage_alert_schema::usage_alert_marks;
pub(crate) use super::usage_alert_schema::{usage_alert_firings, usage_alerts};
pub(crate) use super::user_schema::{memberships, user_invitations, user_sessions, users};
pub(crate) use super::webhook_schema::{webhook_attempts, webhook_endpoints, webhook_pending};

diesel::table! {
    api_keys (prefix) {
        prefix -> Text,
        organization_id -> Uuid,
        name -> Text,
        digest -> Bytea,
        created_at -> Timestamptz,
        expires_at -> Nullable<Timestamptz>,
        kind -> Text,
        scopes -> Nullable<Array<Nullable<Text>>>,
        last_used_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    billing_due (customer_key) {
        customer_key -> Uuid,
        organization_id -> Uuid,
        due_at -> Timestamptz,
        claimed_until -> Nullable<Timestamptz>,
        failures -> Int8,
        failure -> Nullable<Text>,
        failed_at -> Nullable<Timestamptz>,
        is_parked -> Bool,
        waits_for_tax_until -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    billing_records (customer_key, id) {
        customer_key -> Uuid,
        id -> Uuid,
        organization_id -> Uuid,
        position -> Int8,
        revision -> Int8,
        subscription_id -> Uuid,
        plan_version_id -> Uuid,
        recurring_charge_id -> Nullable<Uuid>,
        component_id -> Nullable<Uuid>,
        start_at -> Timestamptz,
        end_at -> Timestamptz,
        full_start_at -> Timestamptz,
        full_end_at -> Timestamptz,
        invoicing_instants -> Array<Timestamptz>,
        next_invoicing_at -> Nullable<Timestamptz>,
        billed_quantity -> Numeric,
        billed_exact -> Numeric,
        billed_given -> Numeric,
        prepaid -> Nullable<Jsonb>,
        late_until -> Nullable<Timestamptz>,
        tax_rate -> Nullable<Numeric>,
        billed_forgiven -> Numeric,
        billed_taxed -> Jsonb,
        charged_before_switch -> Numeric,
        usage_billing -> Text,
    }
}

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
    credit_entries (customer_key, credit_id, position) {
        customer_key -> Uuid,
        credit_id -> Uuid,
        position -> Int8,
        organization_id -> Uuid,
        id -> Uuid,
        kind -> Text,
        amount -> Numeric,
        invoice_id -> Nullable<Uuid>,
        at -> Timestamptz,
    }
}

diesel::table! {
    credits (customer_key, id) {
        customer_key -> Uuid,
        id -> Uuid,
        organization_id -> Uuid,
        currency_code -> Text,
        amount -> Numeric,
        amount_paid -> Numeric,
        amount_paid_currency_code -> Nullable<Text>,
        description -> Nullable<Text>,
        effective_at -> Timestamptz,
        expires_at -> Nullable<Timestamptz>,
        created_at -> Timestamptz,
        drawn -> Numeric,
        restored -> Numeric,
        voided -> Numeric,
        expired -> Numeric,
        remaining -> Nullable<Numeric>,
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
    customer_emails (organization_id, email) {
        organization_id -> Uuid,
        email -> Text,
        customer_key -> Uuid,
    }
}

diesel::table! {
    customers (customer_key) {
        customer_key -> Uuid,
        organization_id -> Uuid,
        customer_id -> Text,
        name -> Nullable<Text>,
        email -> Nullable<Text>,
        default_currency_code -> Text,
        billing_address -> Nullable<Jsonb>,
        shipping_address -> Nullable<Jsonb>,
        tax_rate -> Nullable<Numeric>,
        timezone -> Text,
        payment_provider -> Nullable<Text>,
        payment_provider_id -> Nullable<Text>,
        has_payment_method -> Bool,
        properties -> Json,
        test_clock_id -> Nullable<Uuid>,
        created_at -> Timestamptz,
        last_instant -> Timestamptz,
        deleted_at -> Nullable<Timestamptz>,
        catching_up -> Bool,
        tax_providers -> Array<Text>,
        tax_quotes -> Jsonb,
        list_key -> Uuid,
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
    idempotency_keys (organization_id, key) {
        organization_id -> Uuid,
        key -> Text,
        fingerprint -> Bytea,
        status -> Nullable<Int2>,
        answer -> Nullable<Text>,
        created_at -> Timestamptz,
    }
}

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
    }
}

diesel::table! {
    invoicing_counts (customer_key, subscription_id) {
        customer_key -> Uuid,
        subscription_id -> Uuid,
        organization_id -> Uuid,
        invoiced_on -> Date,
        invoices -> Int8,
    }
}

diesel::table! {
    key_pepper (is_only) {
        is_only -> Bool,
        fingerprint -> Bytea,
        noted_at -> Timestamptz,
    }
}

diesel::table! {
    lanes (number) {
        number -> Int2,
        schema_name -> Text,
        role_name -> Nullable<Text>,
        host -> Nullable<Text>,
        port -> Nullable<Int4>,
        database_name -> Nullable<Text>,
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
    subscription_versions (customer_key) {
        customer_key -> Uuid,
        organization_id -> Uuid,
        version -> Uuid,
    }
}

diesel::table! {
    subscriptions (customer_key, id) {
        customer_key -> Uuid,
        id -> Uuid,
        organization_id -> Uuid,
        plan_id -> Uuid,
        plan_version_id -> Uuid,
        start_at -> Timestamptz,
        end_at -> Timestamptz,
        full_start_at -> Timestamptz,
        full_end_at -> Timestamptz,
        anchor_at -> Timestamptz,
        auto_renew -> Bool,
        is_renewed -> Bool,
        is_new -> Bool,
        quantity -> Int8,
        filters -> Text,
        metadata -> Json,
        prepaid_units -> Jsonb,
        carried_usage -> Jsonb,
        replaced_by -> Nullable<Uuid>,
        flat_fee_behavior -> Nullable<Text>,
        usage_behavior -> Nullable<Text>,
        settled_charges -> Numeric,
        settled_adjustments -> Numeric,
        settled_tax_exact -> Numeric,
        settled_tax -> Numeric,
        created_at -> Timestamptz,
        parent_id -> Nullable<Uuid>,
        calendar -> Jsonb,
        chain_began_at -> Timestamptz,
        uncancelled_end_at -> Nullable<Timestamptz>,
        settled_taxed -> Jsonb,
        settled_forgiven -> Jsonb,
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

diesel::allow_tables_to_appear_in_same_query!(memberships, organizations, user_invitations, user_sessions, users);
diesel::allow_tables_to_appear_in_same_query!(
    api_keys,
    billing_due,
    billing_records,
    components,
    credit_entries,
    credits,
    currencies,
    customer_emails,
    customers,
    event_arrivals,
    event_corrections,
    event_names,
    events,
    features,
    hot_buckets,
    idempotency_keys,
    ingest_key_ranges,
    ingest_versions,
    invoice_counters,
    invoice_lines,
    invoice_numbers,
    invoices,
    invoicing_counts,
    lanes,
    metric_rollups,
    metrics,
    organizations,
    payments,
    plan_version_features,
    plan_version_targets,
    plan_versions,
    plans,
    recurring_charges,
    rollup_versions,
    subscription_versions,
    subscriptions,
    test_clocks,
    usage_rollup,
);
