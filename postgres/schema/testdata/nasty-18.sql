-- What PostgreSQL 16, 17 and 18 brought.
SET search_path = app, ext, public;
CREATE EXTENSION btree_gist WITH SCHEMA ext;
CREATE TABLE nn (a int CONSTRAINT a_named NOT NULL, b int NOT NULL NO INHERIT, c int, d int NOT NULL, CONSTRAINT table_level NOT NULL c); COMMENT ON CONSTRAINT a_named ON nn IS 'named';
CREATE TABLE nn_late (a int, b int); ALTER TABLE nn_late ADD CONSTRAINT nn_nv NOT NULL a NOT VALID;
CREATE TABLE nn_kid (e int CONSTRAINT own NOT NULL) INHERITS (nn); ALTER TABLE nn_kid ALTER b SET NOT NULL; CREATE TABLE nn_kid2 (CONSTRAINT kid_named NOT NULL b) INHERITS (nn);
CREATE TABLE virt (a int, v int GENERATED ALWAYS AS (a * 2), s int GENERATED ALWAYS AS (a * 3) STORED);
CREATE TABLE temporal (id int, during daterange, PRIMARY KEY (id, during WITHOUT OVERLAPS)); CREATE TABLE temporal_fk (id int, during daterange, FOREIGN KEY (id, PERIOD during) REFERENCES temporal (id, PERIOD during));
CREATE TABLE enforced (a int CONSTRAINT ne CHECK (a > 0) NOT ENFORCED, b int CONSTRAINT ne_fk REFERENCES orders NOT ENFORCED);
CREATE TABLE id_parts (id int GENERATED ALWAYS AS IDENTITY, k int) PARTITION BY LIST (k); CREATE TABLE id_parts_1 PARTITION OF id_parts FOR VALUES IN (1);
CREATE TABLE am_parts (a int) PARTITION BY LIST (a) USING heap2; CREATE TABLE am_parts_1 PARTITION OF am_parts FOR VALUES IN (1);
CREATE COLLATION ruled (provider = icu, locale = 'und', rules = '& V << w <<< W'); CREATE COLLATION built (provider = builtin, locale = 'C.UTF-8');
CREATE PUBLICATION pub_gen FOR TABLE virt WITH (publish_generated_columns = stored);
CREATE TABLE fk_nv_parts (id int REFERENCES orders, CONSTRAINT nvp FOREIGN KEY (id) REFERENCES fk_ring_a) PARTITION BY LIST (id); ALTER TABLE fk_nv_parts ADD CONSTRAINT nvp2 FOREIGN KEY (id) REFERENCES fk_ring_b NOT VALID;
CREATE DOMAIN named_nn AS int CONSTRAINT dnn NOT NULL; CREATE DOMAIN plain_nn AS int NOT NULL; COMMENT ON CONSTRAINT dnn ON DOMAIN named_nn IS 'dnn';
CREATE TABLE swapped_names (x int NOT NULL); ALTER TABLE swapped_names RENAME x TO y;
