-- What a plain dump of the server's own does not load again, in an order that it does not find. PostgreSQL 15 and later.
CREATE SCHEMA app; SET search_path = app;
CREATE FUNCTION ping(n int) RETURNS int LANGUAGE sql RETURN n; CREATE FUNCTION pong(n int) RETURNS int LANGUAGE sql RETURN ping(n - 1); CREATE OR REPLACE FUNCTION ping(n int) RETURNS int LANGUAGE sql RETURN CASE WHEN n > 0 THEN pong(n) END;
CREATE FUNCTION three(n int DEFAULT 1) RETURNS int LANGUAGE sql RETURN n; CREATE VIEW of_three AS SELECT three() AS x; CREATE OR REPLACE FUNCTION three(n int DEFAULT 1) RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT max(x) + n FROM of_three; END;
CREATE TRUSTED LANGUAGE plself HANDLER plpgsql_call_handler INLINE plpgsql_inline_handler VALIDATOR plpgsql_validator;
-- A child without its parent's default, and a grandchild that has none either.
CREATE TABLE par (b text, d date DEFAULT '2020-01-01'); CREATE TABLE kid () INHERITS (par); ALTER TABLE kid ALTER d DROP DEFAULT; CREATE TABLE grandkid () INHERITS (kid);
