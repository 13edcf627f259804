-- repl.pg.sql for MySQL and MariaDB. What makes the rows is in a database of its own, which nobody replicates.
CREATE TABLE account (
    id bigint PRIMARY KEY, branch int NOT NULL, kind smallint NOT NULL, state char(1) NOT NULL, holder varchar(40) NOT NULL,
    street varchar(40), city varchar(30), zip char(8), country char(2), phone varchar(20),
    mail varchar(40), balance decimal(14,2) NOT NULL, credit decimal(14,2), rate decimal(6,4), fee decimal(10,2),
    opened date, closed date, changed datetime, visited timestamp NULL, moves int NOT NULL,
    c1 int, c2 int, c3 int, c4 bigint, c5 bigint,
    f1 boolean, f2 boolean, score double, tag varchar(12), note text);
CREATE TABLE finish (id int PRIMARY KEY);
CREATE TABLE country (code char(2) PRIMARY KEY);
INSERT INTO country VALUES ('DE');

SET sql_log_bin = 0;
CREATE DATABASE maker;
CREATE TABLE maker.digit (d int PRIMARY KEY);
INSERT INTO maker.digit VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);
CREATE TABLE maker.number (n bigint PRIMARY KEY);
INSERT INTO maker.number SELECT n FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * g.d AS n
    FROM maker.digit a, maker.digit b, maker.digit c, maker.digit e, maker.digit f, maker.digit g) all_of_them WHERE n BETWEEN 1 AND {400000} + 100;
CREATE VIEW maker.made AS SELECT n AS id, n * 7919 % 1000 AS branch, n % 9 AS kind, 'A' AS state, concat('Holder of account number ', n) AS holder,
    concat('Street number ', n % 5000) AS street, concat('City of ', n % 700) AS city, lpad(n % 100000, 8, '0') AS zip, 'DE' AS country, concat('+49 30 ', 1000000 + n % 9000000) AS phone,
    concat('holder', n, '@example.org') AS mail, round((n % 100000) / 7, 2) AS balance, 1000.00 AS credit, 0.0125 AS rate, 3.50 AS fee,
    date '2020-01-01' + INTERVAL n % 1000 DAY AS opened, NULL AS closed, timestamp '2024-01-01 00:00:00' + INTERVAL n % 100000 SECOND AS changed,
    timestamp '2024-01-01 00:00:00' + INTERVAL n % 100000 SECOND AS visited, 0 AS moves,
    n % 11 AS c1, n % 101 AS c2, n % 1009 AS c3, n * 3 AS c4, n * 5 AS c5,
    n % 2 = 0 AS f1, n % 3 = 0 AS f2, n / 3e0 AS score, concat('tag', n % 97) AS tag, concat('a note of some length about account ', n) AS note FROM maker.number;
SET sql_log_bin = 1;

INSERT INTO account SELECT * FROM maker.made WHERE id <= {200000};
