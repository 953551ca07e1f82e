ALTER TABLE metrics ADD CONSTRAINT metrics_aggregation_type_check
    CHECK (aggregation_type IN ('count', 'sum', 'max', 'min', 'unique', 'average', 'latest'));
