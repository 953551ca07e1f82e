-- What instants are counted by where days may begin at any quarter of an hour.
CREATE FUNCTION quarter_of_hour_before(instant timestamptz) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN date_bin('15 minutes', instant, '2000-01-01 00:00:00+00');
COMMENT ON FUNCTION quarter_of_hour_before IS 'Where the quarter of an hour begins that an instant is in';
