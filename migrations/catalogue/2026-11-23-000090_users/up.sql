-- People who sign in, what they are in each organization, and the browsers that they are signed in with.
CREATE TABLE users (
    id uuid PRIMARY KEY,
    email text NOT NULL CONSTRAINT users_email_key UNIQUE CHECK (email = lower(email)),
    password_hash text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE users IS 'People who sign in; of one person with several organizations there is one row';
COMMENT ON COLUMN users.password_hash IS 'Argon2id, with its parameters and its salt';

CREATE TABLE memberships (
    user_id uuid NOT NULL CONSTRAINT memberships_user_id_fkey REFERENCES users ON DELETE CASCADE,
    organization_id uuid NOT NULL CONSTRAINT memberships_organization_id_fkey REFERENCES organizations,
    role text NOT NULL CHECK (role IN ('owner', 'finance', 'support', 'developer', 'reader')),
    PRIMARY KEY (user_id, organization_id)
);
CREATE INDEX memberships_organization_id_idx ON memberships (organization_id);
COMMENT ON TABLE memberships IS 'What users are in organizations';

CREATE TABLE user_sessions (
    prefix text PRIMARY KEY,
    digest bytea NOT NULL,
    user_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    browser text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT user_sessions_member_fkey
        FOREIGN KEY (user_id, organization_id) REFERENCES memberships ON DELETE CASCADE
);
CREATE INDEX user_sessions_member_idx ON user_sessions (user_id, organization_id);
COMMENT ON TABLE user_sessions IS 'Who is signed in: at most as long as a session lasts, and gone with its membership';
COMMENT ON COLUMN user_sessions.prefix IS 'The part of the cookie that may be shown';
COMMENT ON COLUMN user_sessions.digest IS 'A keyed digest of the cookie, which is kept nowhere';
COMMENT ON COLUMN user_sessions.browser IS 'As the browser calls itself';
