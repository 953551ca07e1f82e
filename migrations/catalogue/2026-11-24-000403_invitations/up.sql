-- Who was invited to be a user, and what opens the invitation.
CREATE TABLE user_invitations (
    prefix text PRIMARY KEY,
    digest bytea NOT NULL,
    organization_id uuid NOT NULL CONSTRAINT user_invitations_organization_id_fkey REFERENCES organizations,
    email text NOT NULL CHECK (email = lower(email)),
    role text NOT NULL CHECK (role IN ('owner', 'finance', 'support', 'developer', 'reader')),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    CONSTRAINT user_invitations_email_key UNIQUE (organization_id, email)
);
COMMENT ON TABLE user_invitations IS 'Invitations that nobody has taken yet; one for an address in an organization';
COMMENT ON COLUMN user_invitations.prefix IS 'The part of the link that may be shown';
COMMENT ON COLUMN user_invitations.digest IS 'A keyed digest of the link, which is kept nowhere';
