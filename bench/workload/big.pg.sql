-- One table with 20 million rows at scale 1, with a single-column key: pgcopydb splits by nothing else. {N} is N times the scale.
SET timezone = 'UTC';
CREATE TABLE movement(id bigint PRIMARY KEY, account int NOT NULL, booked timestamptz NOT NULL, kind char(2), amount numeric(12,2), balance double precision, memo text);
INSERT INTO movement SELECT i, (i::bigint*7919%1000000)::int, '2020-01-01'::timestamptz + i*interval '1 s', substr('PIPOTICH',1+(i%4)::int*2,2), (i%99999)/7.0, i/3.0, CASE WHEN i%3=0 THEN NULL ELSE 'movement '||i END FROM generate_series(1,{20000000}) i;
CREATE INDEX ON movement(account);
