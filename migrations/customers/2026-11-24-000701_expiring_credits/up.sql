-- What is about to expire is watched over all customers.

CREATE INDEX credits_expiring_idx ON credits (expires_at) WHERE remaining > 0 AND expires_at IS NOT NULL;
