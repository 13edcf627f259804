-- Runs of a hundred thousand tables: a plan's lists are kept in parts, beside what else it has in
-- run.plan (of older runs, run.plan has all of it), and what a run has created in groups. Ranges
-- were never read: the marker rows on the target say which are done.
CREATE TABLE plan_part (
    run  TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    seq  INTEGER NOT NULL,
    body BLOB NOT NULL, -- JSON, compressed by zstd
    PRIMARY KEY (run, seq)
) STRICT;

CREATE TABLE built (
    run TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    ids TEXT NOT NULL, -- JSON array
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

INSERT INTO built SELECT run, 1, json_group_array(id) FROM object WHERE state = 'done' GROUP BY run;
DROP TABLE object;
DROP TABLE range;
