-- 30 columns, about 315 bytes a row: the shape of IBM's Redpaper REDP-4947.
CREATE TABLE account (
    id bigint PRIMARY KEY, branch int NOT NULL, kind smallint NOT NULL, state char(1) NOT NULL, holder varchar(40) NOT NULL,
    street varchar(40), city varchar(30), zip char(8), country char(2), phone varchar(20),
    mail varchar(40), balance numeric(14,2) NOT NULL, credit numeric(14,2), rate numeric(6,4), fee numeric(10,2),
    opened date, closed date, changed timestamp, visited timestamptz, moves int NOT NULL,
    c1 int, c2 int, c3 int, c4 bigint, c5 bigint,
    f1 boolean, f2 boolean, score double precision, tag varchar(12), note text);
CREATE TABLE finish (id int PRIMARY KEY);
CREATE TABLE country (code char(2) PRIMARY KEY);
INSERT INTO country VALUES ('DE');

CREATE FUNCTION account(n bigint) RETURNS account LANGUAGE sql IMMUTABLE AS $$
    SELECT n, (n * 7919 % 1000)::int, (n % 9)::smallint, 'A'::char(1), 'Holder of account number ' || n,
        'Street number ' || n % 5000, 'City of ' || n % 700, lpad((n % 100000)::text, 8, '0')::char(8), 'DE'::char(2), '+49 30 ' || 1000000 + n % 9000000,
        'holder' || n || '@example.org', (n % 100000) / 7.0, 1000.00, 0.0125, 3.50,
        date '2020-01-01' + (n % 1000)::int, NULL::date, timestamp '2024-01-01' + n % 100000 * interval '1 second', timestamptz '2024-01-01 UTC' + n % 100000 * interval '1 second', 0,
        (n % 11)::int, (n % 101)::int, (n % 1009)::int, n * 3, n * 5,
        n % 2 = 0, n % 3 = 0, n / 3.0::double precision, 'tag' || n % 97, 'a note of some length about account ' || n $$;

INSERT INTO account SELECT (account(n)).* FROM generate_series(1, {200000}) n;
