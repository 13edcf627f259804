-- The row filters that tables of a stream had when they came to it (JSON), where the source does not keep them.
ALTER TABLE stream ADD COLUMN filters TEXT NOT NULL DEFAULT '';
