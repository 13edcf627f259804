package pgtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A Stream is what tests need of a stream.Stream, which this package must not import.
type Stream interface {
	Run(ctx context.Context, give func(*change.Tx) error) error
	Release(end uint64)
	Close()
}

var errEnough = errors.New("enough")

// Take follows a slot of a database until a transaction writes the word "end" into some column.
// With release it confirms to the server what it received.
func Take(t testing.TB, url, slot string, release bool, follow func(context.Context) (Stream, error)) []*change.Tx {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		out, err := takeOnce(ctx, t, url, slot, release, follow)
		switch {
		case err == errEnough:
			return out
		case tidemark.KindOf(err) != tidemark.Transient: // the server has not noticed yet that the last reader is gone
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func takeOnce(ctx context.Context, t testing.TB, url, slot string, release bool, follow func(context.Context) (Stream, error)) (out []*change.Tx, err error) {
	t.Helper()
	s, err := follow(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Run(ctx, func(tx *change.Tx) error {
		out = append(out, tx)
		if release && !tx.More {
			s.Release(tx.End)
		}
		if strings.Contains(strings.Join(Lines(t, tx, nil), "\n"), "'end'") {
			for try := 0; release && try < 1000; try++ { // until the server has the report
				if testdb.Query(t, url, fmt.Sprintf("SELECT confirmed_flush_lsn - '0/0' >= %d FROM pg_replication_slots WHERE slot_name = '%s'", tx.End, slot)) == "t" {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			return errEnough
		}
		return nil
	})
	return out, err
}

// DropSlot drops a slot when the test ends. A broken session may hold it for a moment.
func DropSlot(t testing.TB, drop func(context.Context) error) {
	t.Cleanup(func() {
		for try := 0; ; try++ {
			err := drop(context.Background()) // t.Context() is cancelled by now
			if err == nil {
				return
			}
			if try == 1000 {
				t.Error(err)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// Lines prints a transaction, one line per change.
func Lines(t testing.TB, tx *change.Tx, relations map[uint32]change.Relation) []string {
	t.Helper()
	if relations == nil {
		relations = map[uint32]change.Relation{}
	}
	var out []string
	for rest := tx.Changes; len(rest) > 0; {
		var c change.Change
		var err error
		if c, rest, err = change.Next(rest); err != nil {
			t.Fatal(err)
		}
		line := string(c.Kind)
		switch c.Kind {
		case tidemark.RelationChange:
			r, err := change.ParseRelation(c.Body)
			if err != nil {
				t.Fatal(err)
			}
			relations[r.ID] = r
			continue
		case tidemark.TruncateChange:
			x, err := change.ParseTruncation(c.Body)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range x.Tables {
				line += " " + relations[id].Table.Name
			}
			line += fmt.Sprint(" cascade=", x.Cascade, " restart=", x.RestartIdentity)
		case tidemark.MessageChange:
			m, err := change.ParseLogicalMessage(c.Body)
			if err != nil {
				t.Fatal(err)
			}
			line += fmt.Sprintf(" %s %q", m.Prefix, m.Data)
		default:
			line += " " + relations[c.Table].Table.Name
			if c.Old != nil {
				line += fmt.Sprintf(" old(key=%v)%s", c.OldKey, words(c.Old))
			}
			if c.New != nil {
				line += " new" + words(c.New)
			}
		}
		out = append(out, line)
	}
	return out
}

func words(t change.Tuple) string {
	var out []string
	for _, v := range t.Values(nil) {
		switch v.Kind {
		case change.NullValue:
			out = append(out, "NULL")
		case change.UnchangedValue:
			out = append(out, "same")
		default:
			out = append(out, "'"+string(v.Data[:min(len(v.Data), 20)])+"'")
		}
	}
	return "(" + strings.Join(out, ",") + ")"
}
