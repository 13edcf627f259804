-- As many features of the catalogue as one schema can hold, most of them in the ways that break the order
-- of creation. Runs on PostgreSQL 13 and later; what later versions brought is in nasty-15.sql and so on.
SET client_min_messages = warning;
CREATE SCHEMA app; CREATE SCHEMA "Odd "" Schema"; CREATE SCHEMA ext;
COMMENT ON SCHEMA app IS 'it''s the app''s';
CREATE EXTENSION hstore WITH SCHEMA ext; CREATE EXTENSION pg_trgm WITH SCHEMA ext; CREATE EXTENSION postgres_fdw; CREATE EXTENSION "uuid-ossp" WITH SCHEMA ext;
COMMENT ON EXTENSION hstore IS 'changed by us';
SET search_path = app, ext, public;

-- Types
CREATE TYPE color AS ENUM ('red', 'green'); COMMENT ON TYPE color IS 'a color';
CREATE TYPE empty_enum AS ENUM ();
CREATE TYPE pair AS (a int, b text COLLATE "C"); COMMENT ON COLUMN pair.b IS 'second';
CREATE TYPE nested AS (p pair, ps pair[], c color);
CREATE DOMAIN positive AS int DEFAULT 7 NOT NULL CONSTRAINT is_positive CHECK (VALUE > 0) CONSTRAINT is_small CHECK (VALUE < 1000000);
COMMENT ON DOMAIN positive IS 'more than nothing'; COMMENT ON CONSTRAINT is_positive ON DOMAIN positive IS 'no zero';
CREATE DOMAIN upper_text AS text COLLATE "C" CHECK (VALUE = upper(VALUE));
CREATE DOMAIN dom_over_dom AS positive CHECK (VALUE % 2 = 0);
CREATE DOMAIN late AS text; ALTER DOMAIN late ADD CONSTRAINT not_checked CHECK (VALUE <> '') NOT VALID;
CREATE TYPE textrange AS RANGE (subtype = text, collation = "C");
CREATE TYPE shell_only;
CREATE TYPE myint; -- a base type, whose functions take it
CREATE FUNCTION myint_in(cstring) RETURNS myint LANGUAGE internal IMMUTABLE STRICT AS 'int4in';
CREATE FUNCTION myint_out(myint) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'int4out';
CREATE FUNCTION myint_recv(internal) RETURNS myint LANGUAGE internal IMMUTABLE STRICT AS 'int4recv';
CREATE FUNCTION myint_send(myint) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'int4send';
CREATE TYPE myint (INPUT = myint_in, OUTPUT = myint_out, RECEIVE = myint_recv, SEND = myint_send, INTERNALLENGTH = 4, PASSEDBYVALUE, ALIGNMENT = int4, STORAGE = plain, CATEGORY = 'N', DEFAULT = '42');
COMMENT ON TYPE myint IS 'base';
CREATE FUNCTION myint_lt(myint, myint) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'int4lt';
CREATE FUNCTION myint_le(myint, myint) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'int4le';
CREATE FUNCTION myint_eq(myint, myint) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'int4eq';
CREATE FUNCTION myint_ge(myint, myint) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'int4ge';
CREATE FUNCTION myint_gt(myint, myint) RETURNS boolean LANGUAGE internal IMMUTABLE STRICT AS 'int4gt';
CREATE FUNCTION myint_cmp(myint, myint) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
CREATE FUNCTION myint_hash(myint) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'hashint4';
CREATE OPERATOR < (FUNCTION = myint_lt, LEFTARG = myint, RIGHTARG = myint, COMMUTATOR = >, NEGATOR = >=, RESTRICT = scalarltsel, JOIN = scalarltjoinsel);
CREATE OPERATOR <= (FUNCTION = myint_le, LEFTARG = myint, RIGHTARG = myint, COMMUTATOR = >=, NEGATOR = >, RESTRICT = scalarlesel, JOIN = scalarlejoinsel);
CREATE OPERATOR = (FUNCTION = myint_eq, LEFTARG = myint, RIGHTARG = myint, COMMUTATOR = =, RESTRICT = eqsel, JOIN = eqjoinsel, HASHES, MERGES);
CREATE OPERATOR >= (FUNCTION = myint_ge, LEFTARG = myint, RIGHTARG = myint, COMMUTATOR = <=, NEGATOR = <);
CREATE OPERATOR > (FUNCTION = myint_gt, LEFTARG = myint, RIGHTARG = myint, COMMUTATOR = <, NEGATOR = <=);
COMMENT ON OPERATOR = (myint, myint) IS 'equal';
CREATE OPERATOR FAMILY int_family USING btree;
CREATE OPERATOR CLASS myint_ops DEFAULT FOR TYPE myint USING btree FAMILY int_family AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 myint_cmp(myint, myint);
CREATE OPERATOR CLASS myint_hash_ops DEFAULT FOR TYPE myint USING hash AS OPERATOR 1 =, FUNCTION 1 myint_hash(myint);
CREATE FUNCTION myint_int_cmp(myint, int) RETURNS int LANGUAGE internal IMMUTABLE STRICT AS 'btint4cmp';
ALTER OPERATOR FAMILY int_family USING btree ADD FUNCTION 1 (myint, int) myint_int_cmp(myint, int);
COMMENT ON OPERATOR CLASS myint_ops USING btree IS 'class'; COMMENT ON OPERATOR FAMILY int_family USING btree IS 'family';
CREATE CAST (myint AS int) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (pair AS text) WITH INOUT;
CREATE FUNCTION color_to_int(color) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT CASE $1 WHEN ''red'' THEN 1 ELSE 2 END';
CREATE CAST (color AS int) WITH FUNCTION color_to_int(color) AS IMPLICIT; COMMENT ON CAST (color AS int) IS 'cast';
CREATE COLLATION german (locale = 'de-u-co-phonebk', provider = icu); CREATE COLLATION insensitive (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE COLLATION libc_c (provider = libc, locale = 'C'); COMMENT ON COLLATION german IS 'coll';
CREATE CONVERSION my_conv FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8;

-- Functions, and what goes in circles
CREATE FUNCTION add1(x int) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT x + 1'; COMMENT ON FUNCTION add1(int) IS 'adds';
CREATE FUNCTION "Weird Name"("In Arg" text, INOUT b int DEFAULT 3, OUT c text, VARIADIC d int[] DEFAULT '{}') LANGUAGE plpgsql SECURITY DEFINER COST 7 SET search_path = 'app', 'pg_temp' SET work_mem = '8MB' AS $f$ BEGIN c := 'x'; END $f$;
CREATE FUNCTION returns_table(a int) RETURNS TABLE (x int, y text) LANGUAGE sql ROWS 5 LEAKPROOF AS $$ SELECT a, 'x' $$;
CREATE PROCEDURE proc(IN a int, INOUT b text DEFAULT NULL) LANGUAGE plpgsql AS $$ BEGIN b := a::text; END $$; COMMENT ON PROCEDURE proc(int, text) IS 'procedure';
CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE FUNCTION evt() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
CREATE AGGREGATE my_sum (int) (SFUNC = int4pl, STYPE = int, INITCOND = '0', COMBINEFUNC = int4pl, PARALLEL = SAFE, MSFUNC = int4pl, MINVFUNC = int4mi, MSTYPE = int, MINITCOND = '0');
CREATE AGGREGATE my_percentile (float8 ORDER BY anyelement) (SFUNC = ordered_set_transition, STYPE = internal, FINALFUNC = percentile_disc_final, FINALFUNC_EXTRA);
CREATE AGGREGATE my_count (*) (SFUNC = int8inc, STYPE = int8, INITCOND = '0'); COMMENT ON AGGREGATE my_count(*) IS 'counts'; COMMENT ON AGGREGATE my_sum(int) IS 'sums';
CREATE AGGREGATE my_max (int) (SFUNC = int4larger, STYPE = int, SORTOP = >);
CREATE TABLE ring (id int, v text);
CREATE FUNCTION ring_default(c ring) RETURNS text LANGUAGE sql AS 'SELECT ($1).v';
CREATE FUNCTION ring_count() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM app.ring); END';
ALTER TABLE ring ALTER v SET DEFAULT ring_default(NULL::ring), ADD n bigint DEFAULT ring_count();
ALTER TABLE ring ADD CONSTRAINT ring_check CHECK (ring_default(ring) IS DISTINCT FROM 'x');
CREATE DOMAIN circular AS text; CREATE FUNCTION circular_ok(circular) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 <> ''no'''; ALTER DOMAIN circular ADD CONSTRAINT circular_check CHECK (circular_ok(VALUE::circular));
CREATE VIEW cv AS SELECT 1 AS a, 'x'::text AS b;
CREATE FUNCTION takes_cv(cv) RETURNS int LANGUAGE sql AS 'SELECT ($1).a';
CREATE OR REPLACE VIEW cv AS SELECT 1 AS a, 'x'::text AS b WHERE takes_cv(NULL::cv) IS NULL;
COMMENT ON VIEW cv IS 'circular';

-- Sequences
CREATE SEQUENCE plain; CREATE SEQUENCE odd AS int INCREMENT 5 MINVALUE 3 MAXVALUE 900 START 8 CACHE 3 CYCLE; SELECT nextval('odd'), nextval('odd');
CREATE SEQUENCE placed; SELECT setval('placed', 77, false); COMMENT ON SEQUENCE odd IS 'odd one'; CREATE SEQUENCE down INCREMENT -1; SELECT nextval('down');

-- Tables
CREATE TABLE everything (
  id bigint GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME app.everything_seq START 10 INCREMENT 10 CACHE 2), s smallserial, num numeric(10,2) NOT NULL DEFAULT 1.50, neg int DEFAULT -1,
  txt text COLLATE german DEFAULT 'it''s', e color DEFAULT 'green', es color[] DEFAULT '{red}', d positive, ts timestamptz DEFAULT now(), day date DEFAULT CURRENT_DATE,
  uid uuid DEFAULT ext.uuid_generate_v4(), iv interval DEFAULT '1 day 02:00', b bytea DEFAULT '\x00ff', j jsonb DEFAULT '{"a": 1}', h ext.hstore DEFAULT 'a=>1',
  gen int GENERATED ALWAYS AS (add1(neg)) STORED, my myint, t_late late, p pair, arr int[][] DEFAULT ARRAY[1,2], bool boolean DEFAULT true, q int DEFAULT nextval('plain'), tm time(3) DEFAULT '12:00', 
  CONSTRAINT everything_pk PRIMARY KEY (id) INCLUDE (num) WITH (fillfactor = 70), CONSTRAINT num_check CHECK (num > 0), CONSTRAINT no_inh CHECK (neg < 10) NO INHERIT,
  CONSTRAINT uq UNIQUE (txt, num) DEFERRABLE INITIALLY DEFERRED, UNIQUE (day) DEFERRABLE, CONSTRAINT "excl con" EXCLUDE USING gist (int4range(neg, neg + 1) WITH &&) WHERE (neg > 0) DEFERRABLE
) WITH (fillfactor = 80, autovacuum_enabled = false, toast.autovacuum_enabled = false);
COMMENT ON TABLE everything IS E'tab\tand \\ and ''quote'''; COMMENT ON COLUMN everything.num IS 'number'; COMMENT ON CONSTRAINT num_check ON everything IS 'check'; COMMENT ON CONSTRAINT everything_pk ON everything IS 'pk'; COMMENT ON INDEX everything_pk IS 'pk index'; COMMENT ON CONSTRAINT uq ON everything IS 'uq';
ALTER TABLE everything ALTER txt SET STORAGE EXTERNAL, ALTER txt SET STATISTICS 500, ALTER num SET (n_distinct = -0.5, n_distinct_inherited = 100);
ALTER TABLE everything ADD CONSTRAINT not_valid_yet CHECK (txt <> 'bad') NOT VALID; COMMENT ON CONSTRAINT not_valid_yet ON everything IS 'nv';
ALTER TABLE everything DROP COLUMN p; ALTER TABLE everything REPLICA IDENTITY USING INDEX everything_pk; ALTER TABLE everything CLUSTER ON everything_pk;
CREATE INDEX "Idx ""q""" ON everything USING btree (lower(txt) COLLATE "C" text_pattern_ops DESC NULLS LAST, num) INCLUDE (e) WHERE num > 5;
CREATE INDEX trgm ON everything USING gin (txt ext.gin_trgm_ops) WITH (fastupdate = off); CREATE INDEX expr_stat ON everything ((neg + 1), (num * 2)); ALTER INDEX expr_stat ALTER COLUMN 2 SET STATISTICS 300; COMMENT ON INDEX trgm IS 'trigrams';
CREATE INDEX my_idx ON everything (my); CREATE INDEX brin_idx ON everything USING brin (ts) WITH (pages_per_range = 16); CREATE UNIQUE INDEX uq_idx ON everything (s) WHERE s > 3;
CREATE STATISTICS ext_stat (ndistinct, mcv) ON num, neg FROM everything; ALTER STATISTICS ext_stat SET STATISTICS 250; COMMENT ON STATISTICS ext_stat IS 'stat';
CREATE TABLE repl_full (a int); ALTER TABLE repl_full REPLICA IDENTITY FULL; CREATE TABLE repl_nothing (a int); ALTER TABLE repl_nothing REPLICA IDENTITY NOTHING;
CREATE UNLOGGED TABLE unlogged (a int GENERATED BY DEFAULT AS IDENTITY, b serial PRIMARY KEY);
CREATE TABLE serial_renamed (id serial); ALTER SEQUENCE serial_renamed_id_seq RENAME TO "Other Seq"; CREATE SEQUENCE owned_unused OWNED BY serial_renamed.id;
CREATE TYPE row_t AS (a int, b text, c date); CREATE TABLE typed OF row_t (a WITH OPTIONS PRIMARY KEY, b WITH OPTIONS DEFAULT 'z' NOT NULL, CHECK (b <> 'q')); CREATE TABLE typed_plain OF row_t;
CREATE TABLE no_columns (); CREATE TABLE "select" ("from" int, "Two Words" int, "quote""d" int, "dollar$x" int, "été" int);
-- Inheritance
CREATE TABLE par1 (a int NOT NULL DEFAULT 1, b text, c int CHECK (c > 0)); CREATE TABLE par2 (b text, d date DEFAULT '2020-01-01', e int);
CREATE TABLE kid () INHERITS (par1, par2); ALTER TABLE kid ALTER a SET DEFAULT 2, ALTER b SET NOT NULL, ALTER b SET DEFAULT 'kid'; ALTER TABLE ONLY kid ADD CONSTRAINT kid_check CHECK (a < 100);
CREATE TABLE kid2 (a int, z int) INHERITS (par1); CREATE TABLE grandkid () INHERITS (kid);
-- Partitions
CREATE TABLE parts (id int, k text NOT NULL, day date NOT NULL, v int DEFAULT 5, CONSTRAINT parts_check CHECK (v > 0)) PARTITION BY RANGE (day);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (MINVALUE) TO ('2020-01-01') WITH (fillfactor = 50);
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2020-01-01') TO ('2021-01-01') PARTITION BY LIST (lower(k)); CREATE TABLE parts_2_a PARTITION OF parts_2 FOR VALUES IN ('a', 'it''s', NULL); CREATE TABLE parts_2_d PARTITION OF parts_2 DEFAULT;
CREATE TABLE parts_3 (extra_first int, day date NOT NULL, v int, k text NOT NULL, id int, CONSTRAINT parts_check CHECK (v > 0)); ALTER TABLE parts_3 DROP extra_first; ALTER TABLE parts_3 ALTER v SET DEFAULT 99; ALTER TABLE parts ATTACH PARTITION parts_3 FOR VALUES FROM ('2021-01-01') TO (MAXVALUE);
-- No key of the whole is possible: parts_2 is cut by an expression.
CREATE INDEX parts_v ON parts (v); COMMENT ON INDEX parts_v IS 'partitioned'; CREATE INDEX parts_1_own ON parts_1 (k); ALTER INDEX parts_2_a_v_idx RENAME TO renamed_leaf_index; CREATE INDEX only_root ON ONLY parts (k); CREATE INDEX parts_3_k ON parts_3 (k); ALTER INDEX only_root ATTACH PARTITION parts_3_k;
CREATE TABLE hashed (id int PRIMARY KEY, v text, CONSTRAINT hashed_uq UNIQUE (id, v)) PARTITION BY HASH (id);
CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE hashed_1 (v text, id int NOT NULL, CONSTRAINT own_pk PRIMARY KEY (id)); ALTER TABLE hashed ATTACH PARTITION hashed_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1); ALTER TABLE hashed_1 REPLICA IDENTITY USING INDEX own_pk;
CREATE TABLE empty_parts (a int PRIMARY KEY) PARTITION BY LIST (a);
CREATE TABLE same_name (a int, b int) PARTITION BY RANGE (a, b); CREATE TABLE "Odd "" Schema".same_name PARTITION OF same_name FOR VALUES FROM (1, MINVALUE) TO (2, MAXVALUE);
-- Foreign keys
CREATE TABLE fk_target (a int, b int, PRIMARY KEY (a, b)); CREATE UNIQUE INDEX fk_target_b ON fk_target (b);
CREATE TABLE fk_from (x int, y int, z int, self int UNIQUE REFERENCES fk_from (self), CONSTRAINT "FK" FOREIGN KEY (x, y) REFERENCES fk_target MATCH FULL ON UPDATE CASCADE ON DELETE SET DEFAULT DEFERRABLE, FOREIGN KEY (z) REFERENCES fk_target (b) ON DELETE RESTRICT);
ALTER TABLE fk_from ADD CONSTRAINT fk_nv FOREIGN KEY (z) REFERENCES fk_target (b) NOT VALID; COMMENT ON CONSTRAINT "FK" ON fk_from IS 'fk';
ALTER TABLE hashed ADD CONSTRAINT hashed_fk FOREIGN KEY (id) REFERENCES fk_target (b); CREATE TABLE fk_to_parts (h int REFERENCES hashed (id), "from" int REFERENCES empty_parts);
CREATE TABLE fk_ring_a (id int PRIMARY KEY, b int); CREATE TABLE fk_ring_b (id int PRIMARY KEY, a int REFERENCES fk_ring_a); ALTER TABLE fk_ring_a ADD FOREIGN KEY (b) REFERENCES fk_ring_b;
-- Views: one that needs a primary key, and what stands on it
CREATE TABLE orders (id int PRIMARY KEY, who text, at timestamptz); CREATE TABLE lines (order_id int REFERENCES orders, amount numeric);
CREATE VIEW by_order AS SELECT o.id, o.who, o.at, sum(l.amount) AS total FROM orders o JOIN lines l ON l.order_id = o.id GROUP BY o.id; COMMENT ON COLUMN by_order.total IS 'sum';
CREATE VIEW on_by_order WITH (security_barrier = true) AS SELECT * FROM by_order WHERE total > 0; CREATE FUNCTION by_order_fn(v by_order) RETURNS numeric LANGUAGE sql AS 'SELECT ($1).total';
CREATE VIEW upd AS SELECT id, who FROM orders WHERE id > 0 WITH CASCADED CHECK OPTION; ALTER VIEW upd ALTER who SET DEFAULT 'nobody'; CREATE TRIGGER upd_trg INSTEAD OF UPDATE ON upd FOR EACH ROW EXECUTE FUNCTION trg();
CREATE VIEW needs_pk_for_default AS SELECT id, who FROM ring JOIN orders USING (id) GROUP BY orders.id, ring.id; CREATE VIEW "View ""q""" ("Col", "from") AS SELECT 1, 'x'::text;
CREATE TABLE pk_forced (id int PRIMARY KEY, v text); CREATE VIEW pk_view AS SELECT id, v FROM pk_forced GROUP BY id; CREATE FUNCTION from_pk_view(pk_view) RETURNS text LANGUAGE sql AS 'SELECT ($1).v'; CREATE TABLE needs_pk_view (t text DEFAULT from_pk_view(NULL));
CREATE MATERIALIZED VIEW mv1 WITH (fillfactor = 60) AS SELECT who, count(*) AS n FROM orders GROUP BY who; CREATE UNIQUE INDEX mv1_who ON mv1 (who); CREATE MATERIALIZED VIEW a_mv2 AS SELECT m.who, b.total FROM mv1 m LEFT JOIN by_order b USING (who) WITH DATA; CREATE INDEX ON a_mv2 ((total + 1)); CREATE MATERIALIZED VIEW mv_empty AS SELECT * FROM orders WITH NO DATA; CREATE INDEX ON mv_empty (id); COMMENT ON MATERIALIZED VIEW mv1 IS 'mv'; ALTER MATERIALIZED VIEW mv1 ALTER who SET STATISTICS 7; ALTER MATERIALIZED VIEW mv1 CLUSTER ON mv1_who;
CREATE RULE log_upd AS ON UPDATE TO orders WHERE NEW.id <> OLD.id DO ALSO INSERT INTO lines VALUES (NEW.id, 0); CREATE RULE "r 2" AS ON DELETE TO upd DO INSTEAD (DELETE FROM orders WHERE id = OLD.id; NOTIFY x); ALTER TABLE orders DISABLE RULE log_upd; COMMENT ON RULE log_upd ON orders IS 'rule';
CREATE TRIGGER t1 AFTER INSERT ON orders REFERENCING NEW TABLE AS newt FOR EACH STATEMENT EXECUTE FUNCTION trg('a', 'it''s');
CREATE TRIGGER t2 BEFORE UPDATE OF who, at ON orders FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION trg(); CREATE CONSTRAINT TRIGGER t3 AFTER DELETE ON orders FROM lines DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION trg(); ALTER TABLE orders DISABLE TRIGGER t2; ALTER TABLE orders ENABLE ALWAYS TRIGGER t3; ALTER TABLE orders ENABLE REPLICA TRIGGER t1; COMMENT ON TRIGGER t2 ON orders IS 'trigger';
CREATE TRIGGER pt AFTER INSERT ON parts FOR EACH ROW EXECUTE FUNCTION trg(); ALTER TABLE parts_1 DISABLE TRIGGER pt;
ALTER TABLE orders ENABLE ROW LEVEL SECURITY; ALTER TABLE orders FORCE ROW LEVEL SECURITY; ALTER TABLE lines ENABLE ROW LEVEL SECURITY; CREATE POLICY p1 ON orders USING (who = CURRENT_USER) WITH CHECK (id > 0); CREATE POLICY p2 ON orders AS RESTRICTIVE FOR INSERT TO CURRENT_USER WITH CHECK (EXISTS (SELECT FROM lines)); COMMENT ON POLICY p1 ON orders IS 'policy';
CREATE EVENT TRIGGER ev ON ddl_command_end WHEN TAG IN ('CREATE TABLE', 'DROP TABLE') EXECUTE FUNCTION evt(); CREATE EVENT TRIGGER ev_off ON sql_drop EXECUTE FUNCTION evt(); ALTER EVENT TRIGGER ev_off DISABLE; COMMENT ON EVENT TRIGGER ev IS 'event';
-- Text search, foreign data, publications
CREATE TEXT SEARCH DICTIONARY dict (TEMPLATE = simple, STOPWORDS = english, ACCEPT = false); CREATE TEXT SEARCH CONFIGURATION conf (COPY = english); ALTER TEXT SEARCH CONFIGURATION conf ALTER MAPPING FOR asciiword, word WITH dict, english_stem; ALTER TEXT SEARCH CONFIGURATION conf DROP MAPPING FOR email; COMMENT ON TEXT SEARCH CONFIGURATION conf IS 'conf'; COMMENT ON TEXT SEARCH DICTIONARY dict IS 'dict';
CREATE TEXT SEARCH TEMPLATE tmpl (INIT = dsimple_init, LEXIZE = dsimple_lexize); CREATE TEXT SEARCH PARSER prs (START = prsd_start, GETTOKEN = prsd_nexttoken, END = prsd_end, LEXTYPES = prsd_lextype, HEADLINE = prsd_headline); CREATE TABLE searched (t text, v tsvector GENERATED ALWAYS AS (to_tsvector('app.conf', t)) STORED);
CREATE FOREIGN DATA WRAPPER fdw HANDLER postgres_fdw_handler VALIDATOR postgres_fdw_validator; CREATE FOREIGN DATA WRAPPER bare OPTIONS (debug 'true'); CREATE SERVER srv TYPE 'pg' VERSION '15' FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host 'x', dbname 'it''s'); CREATE USER MAPPING FOR CURRENT_USER SERVER srv OPTIONS (user 'u'); CREATE USER MAPPING FOR PUBLIC SERVER srv; COMMENT ON SERVER srv IS 'server';
CREATE FOREIGN TABLE ft (a int OPTIONS (column_name 'aa') NOT NULL, b text COLLATE "C" DEFAULT 'x', CHECK (a > 0)) SERVER srv OPTIONS (table_name 'tt', schema_name 's s'); COMMENT ON FOREIGN TABLE ft IS 'foreign'; CREATE TABLE with_foreign (a int) PARTITION BY LIST (a); CREATE FOREIGN TABLE foreign_part PARTITION OF with_foreign FOR VALUES IN (1) SERVER srv;
CREATE PUBLICATION pub_some FOR TABLE orders, lines WITH (publish = 'insert,delete'); CREATE PUBLICATION pub_all FOR ALL TABLES; CREATE PUBLICATION pub_root FOR TABLE parts WITH (publish_via_partition_root = true); COMMENT ON PUBLICATION pub_some IS 'pub';
CREATE FUNCTION self_call() RETURNS language_handler LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_call_handler'; CREATE FUNCTION self_inline(internal) RETURNS void LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_inline_handler'; CREATE FUNCTION self_valid(oid) RETURNS void LANGUAGE c AS '$libdir/plpgsql', 'plpgsql_validator';
CREATE TRUSTED LANGUAGE plself HANDLER self_call INLINE self_inline VALIDATOR self_valid; CREATE FUNCTION in_plself() RETURNS int LANGUAGE plself AS 'BEGIN RETURN 1; END'; COMMENT ON LANGUAGE plself IS 'lang'; CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler; COMMENT ON ACCESS METHOD heap2 IS 'am'; CREATE TABLE on_heap2 (a int) USING heap2; CREATE MATERIALIZED VIEW mv_heap2 USING heap2 AS SELECT 1 AS a;
CREATE FUNCTION jsonb_to_self(internal) RETURNS internal LANGUAGE internal AS 'textin'; CREATE FUNCTION self_to_jsonb(internal) RETURNS jsonb LANGUAGE internal AS 'jsonb_in';
-- Grants
CREATE FUNCTION granted() RETURNS int LANGUAGE sql AS 'SELECT 1';
REVOKE ALL ON FUNCTION granted() FROM PUBLIC; GRANT EXECUTE ON FUNCTION granted() TO pg_monitor WITH GRANT OPTION; GRANT SELECT, INSERT ON orders TO pg_monitor; GRANT SELECT ON orders TO PUBLIC; GRANT UPDATE (who, at) ON orders TO pg_monitor; REVOKE DELETE ON lines FROM CURRENT_USER; GRANT USAGE ON SCHEMA app TO pg_monitor; GRANT USAGE ON SEQUENCE plain TO pg_monitor; GRANT SELECT ON SEQUENCE everything_seq TO pg_monitor; REVOKE USAGE ON TYPE color FROM PUBLIC; GRANT USAGE ON DOMAIN positive TO pg_monitor; GRANT USAGE ON FOREIGN SERVER srv TO pg_monitor; GRANT USAGE ON LANGUAGE plself TO pg_monitor; GRANT SELECT ON mv1, by_order TO pg_monitor; GRANT EXECUTE ON PROCEDURE proc(int, text) TO pg_monitor; GRANT ALL ON SCHEMA public TO pg_monitor;
GRANT EXECUTE ON FUNCTION my_sum(int) TO pg_monitor; GRANT USAGE ON FOREIGN DATA WRAPPER fdw TO pg_monitor;
ALTER DEFAULT PRIVILEGES IN SCHEMA app GRANT SELECT ON TABLES TO pg_monitor; ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC; ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO PUBLIC; ALTER DEFAULT PRIVILEGES GRANT ALL ON TYPES TO pg_monitor WITH GRANT OPTION;
ALTER TABLE repl_full OWNER TO pg_monitor; ALTER FUNCTION add1(int) OWNER TO pg_monitor; ALTER SCHEMA ext OWNER TO pg_monitor; ALTER VIEW upd OWNER TO pg_monitor; ALTER TYPE color OWNER TO pg_monitor;
ALTER FUNCTION ring_count() DEPENDS ON EXTENSION hstore; ALTER INDEX trgm DEPENDS ON EXTENSION pg_trgm;
INSERT INTO everything (num, neg, txt, d, my, day) SELECT g, -g, 'x' || g, g, '5', DATE '2020-01-01' + g FROM generate_series(1, 3) g;
COMMENT ON PUBLICATION pub_all IS 'all'; GRANT SELECT (id) ON upd TO PUBLIC;
