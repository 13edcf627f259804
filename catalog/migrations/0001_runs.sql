-- Times are text, UTC, microseconds, so that they sort and can be read; '' is none.
CREATE TABLE run (
    id       TEXT PRIMARY KEY,
    verb     TEXT NOT NULL,
    source   TEXT NOT NULL,
    target   TEXT NOT NULL,
    started  TEXT NOT NULL,
    ended    TEXT NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'incomplete', 'cancelled')),
    error    TEXT NOT NULL,
    hint     TEXT NOT NULL,
    position TEXT NOT NULL,
    options  TEXT,
    plan     TEXT,
    report   TEXT,
    pid      INTEGER NOT NULL,
    host     TEXT NOT NULL
) STRICT; -- with rowid: whoever refers to a run would else read its plan, of megabytes, to find it

CREATE INDEX run_started ON run (started);

CREATE TABLE table_stat (
    run                  TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    seq                  INTEGER NOT NULL, -- order in which the run named its tables
    schema               TEXT NOT NULL,
    name                 TEXT NOT NULL,
    target_schema        TEXT NOT NULL,
    target_name          TEXT NOT NULL,
    state                TEXT NOT NULL,
    full_load_rows       INTEGER NOT NULL,
    full_load_bytes      INTEGER NOT NULL,
    full_load_error_rows INTEGER NOT NULL,
    ranges_done          INTEGER NOT NULL,
    ranges               INTEGER NOT NULL,
    started              TEXT NOT NULL,
    ended                TEXT NOT NULL,
    error                TEXT NOT NULL,
    method               TEXT NOT NULL,
    PRIMARY KEY (run, schema, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE range (
    run  TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    id   INTEGER NOT NULL,
    body TEXT NOT NULL,    -- tidemark.Range as JSON
    done INTEGER,          -- rows written; NULL: not done
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE object (
    run     TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    seq     INTEGER NOT NULL, -- order in which the run named its objects
    id      TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('pending', 'done', 'failed')),
    error   TEXT NOT NULL,
    seconds REAL NOT NULL,
    sql     TEXT NOT NULL, -- JSON array of statements
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- The next number of a run's tables and objects is asked for at every insert.
CREATE INDEX table_stat_seq ON table_stat (run, seq);
CREATE INDEX object_seq ON object (run, seq);
