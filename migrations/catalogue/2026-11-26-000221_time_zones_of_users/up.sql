ALTER TABLE users ADD COLUMN timezone text;
COMMENT ON COLUMN users.timezone IS 'The zone in which the user reads instants; null: that of the organization that is looked at';
