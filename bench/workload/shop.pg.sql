-- The mixed schema: 0.9 GB with its indexes and 6.4 million rows at scale 1. {N} is N times the scale.
SET timezone = 'UTC';
CREATE TABLE customer(id bigint PRIMARY KEY, name varchar(60) NOT NULL, email text UNIQUE, balance numeric(12,2), created timestamptz, active boolean, note text);
CREATE TABLE orders(id bigint PRIMARY KEY, customer_id bigint NOT NULL, placed date NOT NULL, total numeric(12,2), status char(1), ship_to varchar(80), qty int, weight double precision);
CREATE TABLE order_line(o_id bigint, n int, item int NOT NULL, qty smallint, amount numeric(10,2), dist char(24), delivered timestamp, PRIMARY KEY(o_id,n));
CREATE TABLE document(id bigint PRIMARY KEY, title text, body text, meta jsonb, blob bytea);
CREATE TABLE event(at timestamptz, kind text, who bigint, payload jsonb);
INSERT INTO customer SELECT i, 'Customer '||i, 'c'||i||'@example.com', (i*37%100000)/100.0, '2020-01-01'::timestamptz + i*interval '1 min', i%7<>0, CASE WHEN i%3=0 THEN NULL ELSE repeat('note ',(i%9)::int) END FROM generate_series(1,{300000}) i;
INSERT INTO orders SELECT i, 1+(i::bigint*7919)%{300000}, '2021-01-01'::date+(i%1000)::int, (i%99999)/7.0, substr('NPSDX',1+(i%5)::int,1), 'Street '||i%5000||', City', i%50, i/3.0 FROM generate_series(1,{1500000}) i;
INSERT INTO order_line SELECT i/4, (i%4)::int, (i::bigint*31%100000)::int, (i%10)::smallint, (i%77777)/9.0, md5(i::text)::char(24), CASE WHEN i%5=0 THEN NULL ELSE '2022-01-01'::timestamp+i*interval '1 s' END FROM generate_series(4,{4000000}) i;
INSERT INTO document SELECT i, 'Doc '||i, repeat(md5(i::text)||E'\n\t\\\\',20+(i%60)::int), jsonb_build_object('a',i,'b',md5(i::text),'c',ARRAY[i,i+1]), decode(repeat(md5((i*3)::text),10+(i%30)::int),'hex') FROM generate_series(1,{60000}) i;
INSERT INTO event SELECT '2026-01-01'::timestamptz+i*interval '1 s', 'k'||i%20, i%1000, jsonb_build_object('n',i,'t',md5(i::text)) FROM generate_series(1,{500000}) i;
CREATE INDEX ON orders(customer_id);
CREATE INDEX ON orders(placed,status);
CREATE INDEX ON order_line(item);
CREATE INDEX ON event(at);
ALTER TABLE orders ADD FOREIGN KEY (customer_id) REFERENCES customer;
