//! The tables of customers, what they hold and what is billed of it, as Diesel sees them.

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
        one_off_lines -> Jsonb,
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
    subscription_counts (organization_id, at, plan_version_id, writer) {
        organization_id -> Uuid,
        at -> Timestamptz,
        plan_version_id -> Uuid,
        writer -> Int4,
        starts -> Int8,
        ends -> Int8,
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
