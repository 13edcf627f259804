-- The first and the last epoch in which a stream was applied, by which its target is known under another URL; 0: none.
ALTER TABLE stream ADD COLUMN first_epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE stream ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
