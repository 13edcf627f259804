-- Events of its source's log that a stream leaves out, as the source's server names them.
CREATE TABLE stream_skip (
    stream TEXT NOT NULL REFERENCES stream ON DELETE CASCADE,
    place  TEXT NOT NULL,
    PRIMARY KEY (stream, place)
) STRICT, WITHOUT ROWID;
