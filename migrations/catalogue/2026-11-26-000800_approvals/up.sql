-- A second person for what is above a limit.

ALTER TABLE organizations ADD COLUMN approval_limit numeric
    CONSTRAINT organizations_approval_limit_check CHECK (approval_limit >= 0);
COMMENT ON COLUMN organizations.approval_limit IS
    'What one person may give away or take without another, in each currency; null: everything';

CREATE TABLE approvals (
    organization_id uuid NOT NULL CONSTRAINT approvals_organization_id_fkey REFERENCES organizations,
    id uuid NOT NULL,
    operation text NOT NULL,
    method text NOT NULL,
    path text NOT NULL,
    body text,
    amount numeric,
    currency_code text,
    requester_kind text NOT NULL CHECK (requester_kind IN ('api_key', 'user')),
    requester_id text NOT NULL,
    requester_name text NOT NULL,
    requested_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    state text NOT NULL CHECK (state IN ('waiting', 'approved', 'done', 'failed', 'declined', 'withdrawn')),
    decider_kind text CHECK (decider_kind IN ('api_key', 'user')),
    decider_id text,
    decider_name text,
    decided_at timestamptz,
    reason text,
    outcome_status integer,
    outcome_code text,
    PRIMARY KEY (organization_id, id),
    CONSTRAINT approvals_decided_check CHECK (
        (decided_at IS NULL) = (state = 'waiting') AND (decider_kind IS NULL) = (decided_at IS NULL)
        AND (decider_id IS NULL) = (decided_at IS NULL) AND (decider_name IS NULL) = (decided_at IS NULL)
    ),
    CONSTRAINT approvals_reason_check CHECK ((reason IS NULL) = (state <> 'declined')),
    CONSTRAINT approvals_outcome_check CHECK (
        (outcome_status IS NULL) = (state NOT IN ('done', 'failed')) AND (outcome_code IS NULL) = (state <> 'failed')
    ),
    -- Nobody decides alone about what they have asked for; a request is withdrawn by nobody else.
    CONSTRAINT approvals_second_person_check CHECK (
        state = 'waiting'
        OR (state = 'withdrawn') = (decider_kind = requester_kind AND decider_id = requester_id)
    ),
    CONSTRAINT approvals_person_check CHECK (state IN ('waiting', 'withdrawn') OR decider_kind = 'user')
);
-- Few rows that are written again.
ALTER TABLE approvals SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX approvals_waiting_idx ON approvals (organization_id, expires_at) WHERE state = 'waiting';
COMMENT ON TABLE approvals IS 'Calls that wait until a second person approves, and what became of them';
COMMENT ON COLUMN approvals.operation IS 'The call, by the name that the interface gives it';
COMMENT ON COLUMN approvals.body IS 'The body of the call as it came; null: it had none';
COMMENT ON COLUMN approvals.amount IS 'What the call gives away or takes; of a change of the limit the new one, null where it is off';
COMMENT ON COLUMN approvals.currency_code IS 'What the amount is in; null: it is a limit';
COMMENT ON COLUMN approvals.state IS 'Where it stands; what waits beyond expires_at has expired';
COMMENT ON COLUMN approvals.outcome_status IS 'The status that the call was answered with when it was made';
COMMENT ON COLUMN approvals.outcome_code IS 'Why the call was refused then';
