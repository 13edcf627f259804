-- Where in the log a stream begins that leaves out what is before: a time, or a GTID; '' once it is there.
ALTER TABLE stream ADD COLUMN begins TEXT NOT NULL DEFAULT '';
