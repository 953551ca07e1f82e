DROP TABLE lane_tokens;
