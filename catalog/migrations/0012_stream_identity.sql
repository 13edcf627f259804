-- What messages of its queue belong to a stream: a random number, the same in the records of its two halves; 0: not known.
ALTER TABLE stream ADD COLUMN identity INTEGER NOT NULL DEFAULT 0;
