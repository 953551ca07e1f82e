//! The tables of the service itself, as Diesel sees them.

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
    approvals (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        operation -> Text,
        method -> Text,
        path -> Text,
        body -> Nullable<Text>,
        amount -> Nullable<Numeric>,
        currency_code -> Nullable<Text>,
        requester_kind -> Text,
        requester_id -> Text,
        requester_name -> Text,
        requested_at -> Timestamptz,
        expires_at -> Timestamptz,
        state -> Text,
        decider_kind -> Nullable<Text>,
        decider_id -> Nullable<Text>,
        decider_name -> Nullable<Text>,
        decided_at -> Nullable<Timestamptz>,
        reason -> Nullable<Text>,
        outcome_status -> Nullable<Int4>,
        outcome_code -> Nullable<Text>,
    }
}

diesel::table! {
    books_audits (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        state -> Text,
        requested_at -> Timestamptz,
        finished_at -> Nullable<Timestamptz>,
        attempts -> Int8,
        checks_done -> Int8,
        breaches_found -> Int8,
        breaches -> Jsonb,
        failure -> Nullable<Text>,
        leased_until -> Nullable<Timestamptz>,
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
    key_pepper (is_only) {
        is_only -> Bool,
        fingerprint -> Bytea,
        noted_at -> Timestamptz,
    }
}

diesel::table! {
    jobs (organization_id, id) {
        organization_id -> Uuid,
        id -> Uuid,
        work -> Jsonb,
        state -> Text,
        created_at -> Timestamptz,
        finished_at -> Nullable<Timestamptz>,
        customers_done -> Int8,
        customers_after -> Nullable<Text>,
        events_after -> Nullable<Text>,
        failure -> Nullable<Text>,
        leased_until -> Nullable<Timestamptz>,
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
        node_name -> Nullable<Text>,
    }
}

diesel::table! {
    nodes (name) {
        name -> Text,
        host -> Text,
        port -> Int4,
        database_name -> Text,
        system_identifier -> Int8,
        database_number -> Int8,
    }
}

diesel::table! {
    catalogue_position (is_only) {
        is_only -> Bool,
        position -> Int8,
    }
}

diesel::table! {
    lane_reservations (token, kind, name) {
        token -> Uuid,
        kind -> Text,
        name -> Text,
        lane_number -> Int2,
        organization_id -> Uuid,
        customer_key -> Nullable<Uuid>,
        sequence -> Nullable<Int8>,
        reserved_at -> Timestamptz,
    }
}

diesel::table! {
    returned_numbers (organization_id, kind, sequence) {
        organization_id -> Uuid,
        kind -> Text,
        sequence -> Int8,
    }
}

diesel::table! {
    lane_tokens (token) {
        token -> Uuid,
        is_given_up -> Bool,
        status -> Nullable<Int2>,
        answer -> Nullable<Text>,
        noted_at -> Timestamptz,
    }
}

diesel::joinable!(lanes -> nodes (node_name));
diesel::allow_tables_to_appear_in_same_query!(lanes, nodes);
