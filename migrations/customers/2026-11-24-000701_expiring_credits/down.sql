DROP INDEX credits_expiring_idx;
