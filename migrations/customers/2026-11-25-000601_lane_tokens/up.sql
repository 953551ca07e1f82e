-- How the transactions of this lane have ended that have reserved something with the catalogue, where the lane is not in the
-- catalogue's database. With a token that is in it already no transaction can commit.
CREATE TABLE lane_tokens (
    token uuid CONSTRAINT lane_tokens_pkey PRIMARY KEY,
    is_given_up boolean NOT NULL,
    status smallint,
    answer text,
    noted_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    CONSTRAINT lane_tokens_answer_check CHECK ((status IS NULL) = (answer IS NULL))
);
CREATE INDEX lane_tokens_noted_at_idx ON lane_tokens (noted_at);
COMMENT ON TABLE lane_tokens IS 'How transactions have ended that have reserved something with a catalogue in another database';
COMMENT ON COLUMN lane_tokens.is_given_up IS 'Whether it was not committed, and never will be';
COMMENT ON COLUMN lane_tokens.answer IS 'What was answered under the idempotency key that was reserved, with its status';
-- A row for each transaction that reserves something, until it is forgotten.
ALTER TABLE lane_tokens SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0
);
