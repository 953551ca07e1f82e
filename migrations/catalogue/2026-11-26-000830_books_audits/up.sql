-- Audits of organizations' books, which somebody has asked for.

CREATE TABLE books_audits (
    organization_id uuid NOT NULL CONSTRAINT books_audits_organization_id_fkey REFERENCES organizations,
    id uuid NOT NULL,
    state text NOT NULL CHECK (state IN ('running', 'clean', 'breached', 'failed')),
    requested_at timestamptz NOT NULL,
    finished_at timestamptz,
    attempts bigint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    checks_done bigint NOT NULL DEFAULT 0 CHECK (checks_done >= 0),
    breaches_found bigint NOT NULL DEFAULT 0 CHECK (breaches_found >= 0),
    breaches jsonb NOT NULL DEFAULT '[]',
    failure text,
    leased_until timestamptz,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT books_audits_finished_at_check CHECK ((finished_at IS NULL) = (state = 'running')),
    CONSTRAINT books_audits_breached_check CHECK (state NOT IN ('clean', 'breached') OR (breaches_found = 0) = (state = 'clean')),
    CONSTRAINT books_audits_failure_check CHECK ((failure IS NULL) = (state <> 'failed'))
);
-- Few rows that are written again and again.
ALTER TABLE books_audits SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX books_audits_running_idx ON books_audits (requested_at, id) WHERE state = 'running';
COMMENT ON TABLE books_audits IS 'Audits of organizations'' books: what is stored is computed again and held against it';
COMMENT ON COLUMN books_audits.attempts IS 'How often it was begun: whoever dies over it leaves it to the next';
COMMENT ON COLUMN books_audits.breaches IS 'What was found wrong, as check, subject and problem; many are only counted';
COMMENT ON COLUMN books_audits.leased_until IS 'Until when a worker is at it';
