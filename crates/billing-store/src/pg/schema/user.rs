//! The tables of people, as Diesel sees them.

diesel::table! {
    memberships (user_id, organization_id) {
        user_id -> Uuid,
        organization_id -> Uuid,
        role -> Text,
        issuer -> Nullable<Text>,
    }
}

diesel::table! {
    sign_in_attempts (prefix) {
        prefix -> Text,
        digest -> Bytea,
        linking -> Nullable<Uuid>,
        destination -> Text,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    user_identities (issuer, subject) {
        issuer -> Text,
        subject -> Text,
        user_id -> Uuid,
        created_at -> Timestamptz,
    }
}

diesel::table! {
    user_invitations (prefix) {
        prefix -> Text,
        digest -> Bytea,
        organization_id -> Uuid,
        email -> Text,
        role -> Text,
        created_at -> Timestamptz,
        expires_at -> Timestamptz,
    }
}

diesel::table! {
    user_sessions (prefix) {
        prefix -> Text,
        digest -> Bytea,
        user_id -> Uuid,
        organization_id -> Uuid,
        browser -> Text,
        created_at -> Timestamptz,
        seen_at -> Timestamptz,
    }
}

diesel::table! {
    users (id) {
        id -> Uuid,
        email -> Text,
        password_hash -> Text,
        created_at -> Timestamptz,
        timezone -> Nullable<Text>,
    }
}
