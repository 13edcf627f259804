-- The tables of pgbench -i -s 5 --foreign-keys for MySQL and MariaDB. mtime is an instant with microseconds.
CREATE TABLE pgbench_branches (bid int NOT NULL PRIMARY KEY, bbalance int, filler char(88));
CREATE TABLE pgbench_tellers (tid int NOT NULL PRIMARY KEY, bid int, tbalance int, filler char(84),
    FOREIGN KEY (bid) REFERENCES pgbench_branches (bid));
CREATE TABLE pgbench_accounts (aid int NOT NULL PRIMARY KEY, bid int, abalance int, filler char(84),
    FOREIGN KEY (bid) REFERENCES pgbench_branches (bid));
CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp(6) NULL, filler char(22),
    FOREIGN KEY (bid) REFERENCES pgbench_branches (bid), FOREIGN KEY (tid) REFERENCES pgbench_tellers (tid),
    FOREIGN KEY (aid) REFERENCES pgbench_accounts (aid));

INSERT INTO pgbench_branches VALUES (1, 0, NULL), (2, 0, NULL), (3, 0, NULL), (4, 0, NULL), (5, 0, NULL);
INSERT INTO pgbench_tellers
    WITH digit AS (SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5
        UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)
    SELECT a.d + 10 * b.d + 1, b.d + 1, 0, NULL FROM digit a, digit b WHERE b.d < 5;
INSERT INTO pgbench_accounts
    WITH digit AS (SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5
        UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)
    SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d + 100000 * g.d + 1, g.d + 1, 0, ''
    FROM digit g, digit f, digit e, digit c, digit b, digit a WHERE g.d < 5;
