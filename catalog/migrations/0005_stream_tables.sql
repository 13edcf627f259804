CREATE TABLE stream_table (
    stream TEXT NOT NULL REFERENCES stream ON DELETE CASCADE,
    schema TEXT NOT NULL, -- on the source
    name   TEXT NOT NULL,
    state  TEXT NOT NULL CHECK (state IN ('active', 'loading', 'stopped')),
    reason TEXT NOT NULL,
    hint   TEXT NOT NULL,
    since  TEXT NOT NULL,
    shape  TEXT NOT NULL, -- JSON: the relation that the stream told last; '' none
    load   TEXT NOT NULL, -- JSON: how far it is loaded; '' it is not
    PRIMARY KEY (stream, schema, name)
) STRICT, WITHOUT ROWID;
