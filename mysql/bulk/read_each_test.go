package bulk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// TestReadEach reads several tables that are requested at once, in one round trip; wherever one of
// them fails, the lane keeps its view, and reads them again.
func TestReadEach(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		from := srv.NewDatabase(t, "ahead")
		var rs []tidemark.Read
		for i := range 6 {
			tab := fill(t, srv, from, fmt.Sprint("t", i), "id int PRIMARY KEY, d date", "n, if(n=3, '0000-00-00', '2024-01-01')")
			testdb.Query(t, from, fmt.Sprintf("DELETE FROM t%d WHERE id >= %d", i, i*4))
			rs = append(rs, tidemark.Read{Move: mysqltest.MoveTo(tab, "elsewhere"), Range: &tidemark.Range{ID: i}, Format: tidemark.LoadData})
		}
		wire := testdb.NewWire(t, fmt.Sprint(srv.Port), 0)
		e := open(t, strings.Replace(from, fmt.Sprint(":", srv.Port), ":"+wire.Port, 1), server.Options{})
		if _, err := e.Freeze(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		testdb.Query(t, from, "DELETE FROM t5")
		enough := errors.New("enough")
		read := func(rs []tidemark.Read, until int) (rows []int, err error) {
			rows = make([]int, len(rs))
			err = e.ReadEach(t.Context(), 0, rs, func(b *tidemark.Batch) error {
				defer b.Release()
				if b.Range.ID == until {
					return enough
				}
				rows[b.Range.ID] += b.Rows
				return nil
			})
			return rows, err
		}
		all := []int{0, 4, 8, 12, 16, 20}
		for pass := range 2 * len(rs) {
			at, some := pass%len(rs), slices.Clone(rs)
			done := make(chan struct{})
			go func() {
				select {
				case <-done:
				case <-time.After(time.Minute):
					panic("reading does not end")
				}
			}()
			if pass < len(rs) { // the receiver fails
				if rows, err := read(rs, at); err != enough || !slices.Equal(rows[:at], all[:at]) {
					t.Errorf("%d: %v, %v", at, rows, err)
				}
			} else { // the server
				m := *some[at].Move
				m.Filter = []tidemark.Filter{{SQL: "(SELECT 1 UNION SELECT 2)"}}
				some[at].Move = &m
				if rows, err := read(some, -1); err == nil && at > 0 || !slices.Equal(rows[:at], all[:at]) {
					t.Errorf("%d: %v, %v", at, rows, err)
				}
			}
			wire.Turns()
			if rows, err := read(rs, -1); err != nil || !slices.Equal(rows, all) {
				t.Errorf("behind a failure at %d: %v, %v", at, rows, err)
			}
			if n := wire.Turns(); n > 1 {
				t.Errorf("%d round trips", n)
			}
			close(done)
		}

		// A value that cannot be read, and two formats.
		for i := range rs {
			rs[i].Format = tidemark.CopyText
		}
		rows, err := read(rs, -1)
		if tidemark.KindOf(err) != tidemark.BadRow || !strings.Contains(err.Error(), "t1") || rows[2] != 0 {
			t.Errorf("%v, %v", rows, err)
		}
		for i := range rs {
			rs[i].Format = tidemark.LoadData
			if i%2 == 0 {
				m := *rs[i].Move
				m.Filter = []tidemark.Filter{{SQL: "id <> 3"}}
				rs[i].Move, rs[i].Format = &m, tidemark.CopyText
			}
		}
		if rows, err := read(rs, -1); err != nil || !slices.Equal(rows, []int{0, 4, 7, 12, 15, 20}) {
			t.Errorf("%v, %v", rows, err)
		}
	})
}
