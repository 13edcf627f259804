-- What tidemark set has changed of a stream that runs. It is of no meaning to a later run.
CREATE TABLE setting (
    stream TEXT NOT NULL REFERENCES stream ON DELETE CASCADE,
    option TEXT NOT NULL,
    value  TEXT NOT NULL,
    at     TEXT NOT NULL,
    PRIMARY KEY (stream, option)
) STRICT, WITHOUT ROWID;
