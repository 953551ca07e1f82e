//! The tables of the audit log, as Diesel sees them.

diesel::table! {
    audit_entries (customer_key, at, id) {
        customer_key -> Uuid,
        at -> Timestamptz,
        id -> Uuid,
        organization_id -> Uuid,
        actor_kind -> Text,
        actor_id -> Text,
        actor_name -> Text,
        address -> Nullable<Text>,
        request_id -> Text,
        operation -> Text,
        kind -> Text,
        subject -> Nullable<Text>,
        before -> Nullable<Text>,
        after -> Nullable<Text>,
    }
}

diesel::table! {
    organization_audit_entries (organization_id, at, id) {
        organization_id -> Uuid,
        at -> Timestamptz,
        id -> Uuid,
        actor_kind -> Text,
        actor_id -> Text,
        actor_name -> Text,
        address -> Nullable<Text>,
        request_id -> Text,
        operation -> Text,
        kind -> Text,
        subject -> Nullable<Text>,
        before -> Nullable<Text>,
        after -> Nullable<Text>,
    }
}
