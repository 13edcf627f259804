package job

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/load"
)

// A witness keeps events.
type witness struct {
	Watcher
	events []Event
}

func (w *witness) Event(e Event) { w.events = append(w.events, e) }

// What the catalogue cannot take is reported, and written once it can.
func TestProgressIsWrittenLater(t *testing.T) {
	ctx, path := context.Background(), filepath.Join(t.TempDir(), "catalog.db")
	cat, err := catalog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	if err := cat.Begin(ctx, catalog.Run{ID: "r", Verb: "copy", State: catalog.Running, Started: time.Now()}); err != nil {
		t.Fatal(err)
	}
	table := &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: "t"}}
	p := &load.Plan{Moves: []tidemark.Move{{From: table, To: table}}, Formats: make([]tidemark.Format, 1), Fresh: make([]bool, 1), Ranges: []tidemark.Range{{ID: 1}}}
	w := &witness{}
	c := &copying{env: Env{Catalog: cat, Watch: w}, run: catalog.Run{ID: "r"}, p: p}
	c.load = load.NewRun(nil, nil, p, c, load.Options{}, map[int]int64{1: 5}, nil)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rename := func(suffix, to string) {
		t.Helper()
		for _, table := range []string{"built", "table_stat"} {
			if _, err := db.ExecContext(ctx, "ALTER TABLE "+table+suffix+" RENAME TO "+table+to); err != nil {
				t.Fatal(err)
			}
		}
	}
	rename("", "_away")
	c.marked, c.made.new = true, []string{"index a"}
	c.flush(ctx, true)
	if len(w.events) != 1 || w.events[0].Error == "" {
		t.Errorf("events: %+v", w.events)
	}
	rename("_away", "")
	c.flush(ctx, true)
	built, err := cat.Built(ctx, "r")
	if err != nil || !built["index a"] {
		t.Errorf("built: %v, %v", built, err)
	}
	stats, err := cat.Tables(ctx, "r")
	if err != nil || len(stats) != 1 || stats[0].FullLoadRows != 5 {
		t.Errorf("tables: %+v, %v", stats, err)
	}
}
