-- Accounts of OpenID providers that users sign in with, what their groups make of users, and who was sent to a provider.
CREATE TABLE user_identities (
    issuer text NOT NULL,
    subject text NOT NULL,
    user_id uuid NOT NULL CONSTRAINT user_identities_user_id_fkey REFERENCES users ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (issuer, subject),
    CONSTRAINT user_identities_issuer_key UNIQUE (user_id, issuer)
);
COMMENT ON TABLE user_identities IS 'Accounts of OpenID providers and the users they open; of each issuer one at most for a user';
COMMENT ON COLUMN user_identities.issuer IS 'The provider, as it calls itself';
COMMENT ON COLUMN user_identities.subject IS 'The account, as the provider calls it; it names it for ever, which an address does not';

-- A role by groups needs the account that is in them.
ALTER TABLE memberships ADD COLUMN issuer text,
    ADD CONSTRAINT memberships_issuer_fkey FOREIGN KEY (user_id, issuer) REFERENCES user_identities (user_id, issuer);
CREATE INDEX memberships_issuer_idx ON memberships (user_id, issuer);
COMMENT ON COLUMN memberships.issuer IS 'The OpenID provider by whose groups the role was given; null: a person gave it';

CREATE TABLE sign_in_attempts (
    prefix text PRIMARY KEY,
    digest bytea NOT NULL,
    linking uuid CONSTRAINT sign_in_attempts_linking_fkey REFERENCES users ON DELETE CASCADE,
    destination text NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE INDEX sign_in_attempts_linking_idx ON sign_in_attempts (linking);
CREATE INDEX sign_in_attempts_created_at_idx ON sign_in_attempts (created_at);
COMMENT ON TABLE sign_in_attempts IS 'Who was sent to an OpenID provider and has not come back; gone when they do, or after ten minutes';
COMMENT ON COLUMN sign_in_attempts.prefix IS 'The part of the cookie that may be shown';
COMMENT ON COLUMN sign_in_attempts.digest IS 'A keyed digest of the cookie, which is kept nowhere; what was sent along follows from it';
COMMENT ON COLUMN sign_in_attempts.linking IS 'The user who links an account; null: whoever comes back signs in';

-- What the groups of a provider do is its doing.
ALTER TABLE organization_audit_entries DROP CONSTRAINT organization_audit_entries_actor_kind_check,
    ADD CONSTRAINT organization_audit_entries_actor_kind_check
        CHECK (actor_kind IN ('api_key', 'user', 'identity_provider')) NOT VALID;
COMMENT ON COLUMN organization_audit_entries.actor_id IS 'The prefix of the API key, the id of the user, or the issuer';
COMMENT ON COLUMN organization_audit_entries.actor_name IS 'The name of the key, the address of the user, or the subject of the issuer, as it was then';
