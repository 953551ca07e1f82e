DROP FUNCTION refuse_without_nodes CASCADE;
