DROP SCHEMA custom_metric CASCADE;
