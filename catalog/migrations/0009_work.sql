-- How far a run is that is under way, written at most once a second. What a killed one has left, says where it was.
CREATE TABLE work (
    run  TEXT PRIMARY KEY REFERENCES run ON DELETE CASCADE,
    at   TEXT NOT NULL,
    body TEXT NOT NULL -- Work as JSON
) STRICT, WITHOUT ROWID;
