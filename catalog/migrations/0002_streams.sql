CREATE TABLE stream (
    name    TEXT PRIMARY KEY,
    source  TEXT NOT NULL,
    target  TEXT NOT NULL,
    state   TEXT NOT NULL CHECK (state IN ('copying', 'following')),
    place   TEXT NOT NULL, -- uint64: from here on the stream has what the copy has not
    queue   TEXT NOT NULL, -- direct, durable, or a server's masked URL
    copy    TEXT NOT NULL, -- the run that filled the target; '' none
    run     TEXT NOT NULL, -- the last run that followed; '' none
    started TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sample (
    stream TEXT NOT NULL REFERENCES stream ON DELETE CASCADE,
    at     TEXT NOT NULL,
    body   TEXT NOT NULL,
    PRIMARY KEY (stream, at)
) STRICT, WITHOUT ROWID;
