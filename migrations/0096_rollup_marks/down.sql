DROP TRIGGER usage_rollup_mark_deleted ON usage_rollup;
DROP TRIGGER usage_rollup_mark_updated ON usage_rollup;
DROP TRIGGER usage_rollup_mark_inserted ON usage_rollup;
DROP FUNCTION mark_rollups;
DROP TABLE rollup_marks;
