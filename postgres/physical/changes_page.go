package physical

import (
	"context"
	"encoding/binary"
	"path"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// databaseSlack is how far the clock may have been set back while the earlier backup was made: a
// database's folder created less than this before the backup's start may have been created during
// it.
const databaseSlack = time.Minute

// byPages prepares to find changed pages by their LSNs.
func (b *Backup) byPages(ctx context.Context) error {
	b.logged = nil
	b.databases = b.sameDatabases()
	if b.hints = b.checksums; b.hints {
		return nil
	}
	err := b.conn.QueryRow(ctx, "SELECT current_setting('wal_log_hints')::boolean AND pg_postmaster_start_time() < $1", b.since.Begun).Scan(&b.hints)
	if err != nil {
		return b.e.Fail(ctx, backupOp, b.e.Object, err)
	}
	return nil
}

// sameDatabases finds the databases that existed when the earlier backup began, and whose folders
// have been the same since. A database created by copying another's files has pages that are older
// than it is. But the file with its version is written when its folder is created, and never again.
// An unfinished backup may lack that file; databases unchanged since the start of its base are also
// unchanged since its own start.
func (b *Backup) sameDatabases() map[string]bool {
	same := map[string]bool{}
	for _, v := range b.versions {
		was, there := b.since.Was(v.Path)
		name := path.Base(path.Dir(v.Path))
		same[name] = there && unmodified(&v, was) && v.Modified.Before(b.since.Begun.Add(-databaseSlack)) || b.base != nil && b.base.databases[name]
	}
	return same
}

// changedByPages returns a file's changed pages by their LSNs; all of the file if LSNs do not show
// them.
func (b *Backup) changedByPages(c *changes, f *tidemark.DataFile, r relationFile, was tidemark.DataFile) tidemark.FileChange {
	if database := path.Base(path.Dir(f.Path)); database != "global" && !c.databases[database] {
		return tidemark.FileChange{Whole: true}
	}
	pages := uint32(f.Size / int64(b.page))
	switch {
	case r.fork == "":
		return tidemark.FileChange{Newer: c.newer, Limit: min(pages, uint32(was.Size/int64(b.page)))}
	case r.fork == "fsm" && unmodified(f, was):
		return tidemark.FileChange{Limit: pages}
	}
	return tidemark.FileChange{Whole: true}
}

const (
	// oddPlace is the highest LSN of pages that were never logged: 0, or 1 while a GiST index is
	// built.
	oddPlace = 1
	// pageAllVisible is the flag of a table's page that the visibility map has a bit for it. If
	// hints are not logged, it is set without a new LSN for the page.
	pageAllVisible = 0x0004
)

// newer reports whether a page may have changed since the earlier backup began. A page without an
// LSN counts as changed: the file may have been truncated, and then extended with it.
func (c *changes) newer(page []byte) bool {
	le := binary.LittleEndian
	place := uint64(le.Uint32(page))<<32 | uint64(le.Uint32(page[4:]))
	return place >= c.after || place <= oddPlace || !c.hints && le.Uint16(page[10:])&pageAllVisible != 0
}
