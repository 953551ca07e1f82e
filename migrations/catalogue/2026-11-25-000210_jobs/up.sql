-- Long work in the background.

CREATE TABLE jobs (
    organization_id uuid NOT NULL CONSTRAINT jobs_organization_id_fkey REFERENCES organizations,
    id uuid NOT NULL,
    work jsonb NOT NULL,
    state text NOT NULL CHECK (state IN ('running', 'done', 'cancelled', 'failed')),
    created_at timestamptz NOT NULL,
    finished_at timestamptz,
    customers_done bigint NOT NULL DEFAULT 0 CHECK (customers_done >= 0),
    customers_after text,
    events_after text,
    failure text,
    leased_until timestamptz,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT jobs_finished_at_check CHECK ((finished_at IS NULL) = (state = 'running')),
    CONSTRAINT jobs_failure_check CHECK ((failure IS NULL) = (state <> 'failed'))
);
-- Few rows that are written again and again.
ALTER TABLE jobs SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX jobs_running_idx ON jobs (leased_until) WHERE state = 'running';
COMMENT ON TABLE jobs IS 'Long work that is done in the background, a little at a time';
COMMENT ON COLUMN jobs.work IS 'What is to be done: which events are corrected, and how';
COMMENT ON COLUMN jobs.customers_after IS 'Behind which customer it goes on, as the list of customers says it';
COMMENT ON COLUMN jobs.events_after IS 'Behind which event of the customer who is next there it goes on';
COMMENT ON COLUMN jobs.leased_until IS 'Until when a worker is at it: whoever dies over it leaves it to the next';
