package stream

import (
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestChunkOfAlteredTable reads a chunk while a table is written anew, which makes it empty for
// older snapshots.
func TestChunkOfAlteredTable(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "chunk")
	testdb.Query(t, url, "CREATE TABLE item (id int PRIMARY KEY, n int); INSERT INTO item SELECT i, i FROM generate_series(1, 50) i")
	e := open(t, url)
	m := &tidemark.Move{From: &tidemark.Table{TableID: tidemark.TableID{Schema: "public", Name: "item"}, Columns: []tidemark.Column{{Name: "id", Type: tidemark.Type{Kind: tidemark.Int}}, {Name: "n"}}}}
	slot := slotOf(t, e, url, "chunk")
	if err := e.AddToSlot(t.Context(), slot, m); err != nil {
		t.Fatal(err)
	}
	alters := testdb.NewSession(url)
	defer alters.Close()
	if _, err := alters.Try("BEGIN; ALTER TABLE item ALTER n TYPE numeric"); err != nil {
		t.Fatal(err)
	}
	type read struct {
		chunk *change.Chunk
		err   error
	}
	done := make(chan read, 1)
	go func() {
		c, err := e.ReadChunk(t.Context(), slot, m, nil, 100, 1<<20)
		done <- read{c, err}
	}()
	for end := time.Now().Add(time.Minute); testdb.Query(t, url, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'item'::regclass") == "0"; {
		if time.Now().After(end) {
			t.Fatal("nothing waits for the table")
		}
	}
	if _, err := alters.Try("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if r := testdb.From(t, "the chunk", done); r.err != nil || len(r.chunk.Rows) != 50 || r.chunk.Relation.Columns[1].Type != 1700 {
		t.Errorf("read %+v, %v", r.chunk, r.err)
	}
}
