-- What PostgreSQL 14 and 15 brought.
SET search_path = app, ext, public;
CREATE TABLE compressed (b text COMPRESSION pglz, c text);
CREATE TYPE floats AS RANGE (subtype = float8, subtype_diff = float8mi, multirange_type_name = float_sets);
CREATE FUNCTION atomic(a int) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT count(*)::int + a FROM orders; END;
CREATE TABLE atomic_default (a int DEFAULT atomic(1), b floats, c float_sets);
CREATE FUNCTION own_rows() RETURNS bigint LANGUAGE sql RETURN (SELECT count(*) FROM atomic_default); ALTER TABLE atomic_default ADD n bigint DEFAULT own_rows();
CREATE STATISTICS expr_stat_obj ON (num * 2), (lower(txt)) FROM everything;
CREATE PROCEDURE with_out(IN a int, OUT b int) LANGUAGE plpgsql AS 'BEGIN b := a; END'; COMMENT ON PROCEDURE with_out(int) IS 'out';
CREATE TABLE nnd (a int, b int, CONSTRAINT nnd_uq UNIQUE NULLS NOT DISTINCT (a), UNIQUE NULLS NOT DISTINCT (b, a) INCLUDE (b)); CREATE UNIQUE INDEX nnd_idx ON nnd (b) NULLS NOT DISTINCT;
CREATE VIEW invoker WITH (security_invoker = true, security_barrier) AS SELECT * FROM orders;
CREATE PUBLICATION pub_filter FOR TABLE orders WHERE (id > 5), TABLES IN SCHEMA ext WITH (publish = 'insert');
CREATE TABLE fk_cols (a int, b int, FOREIGN KEY (a, b) REFERENCES fk_target (a, b) ON DELETE SET NULL (b));
CREATE UNLOGGED SEQUENCE unlogged_seq; ALTER SEQUENCE unlogged_a_seq SET LOGGED;
CREATE FUNCTION subscripted(j jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN j['a'];
CREATE PUBLICATION pub_cols FOR TABLE orders (id, who) WHERE (id > 5), TABLE ONLY par1;
