-- What a capture elsewhere said of its tables (JSON), for an apply that does not see the source.
ALTER TABLE stream ADD COLUMN tables TEXT NOT NULL DEFAULT '';
