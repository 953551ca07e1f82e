-- With which pepper the API keys of this database are digested, so that a lost one is noticed before every key is refused.
CREATE TABLE key_pepper (
    is_only boolean CONSTRAINT key_pepper_pkey PRIMARY KEY DEFAULT true CHECK (is_only),
    fingerprint bytea NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE key_pepper IS 'The fingerprint of the pepper that API keys are digested with: at most one row';
COMMENT ON COLUMN key_pepper.is_only IS 'Always true: there is one row';
COMMENT ON COLUMN key_pepper.fingerprint IS 'A keyed digest of a fixed text; it tells nothing about the pepper';
COMMENT ON COLUMN key_pepper.noted_at IS 'When it was first used';
