package stream

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// replicaOf makes b a replica of a, by GTID.
func replicaOf(t *testing.T, b, a *testdb.Server) {
	t.Helper()
	sql := "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='%s', MASTER_PASSWORD='%s', MASTER_USE_GTID=slave_pos; START SLAVE"
	if a.Engine == "mysql" {
		sql = "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=%d, SOURCE_USER='%s', SOURCE_PASSWORD='%s', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA"
	}
	testdb.Query(t, b.URL(""), fmt.Sprintf(sql, a.Port, a.User, a.Password))
}

// A placed is the compared part of a transaction.
type placed struct {
	place, end uint64
	gtid       string
}

func placesOf(txs []*change.Tx) (out []placed) {
	for _, tx := range txs {
		out = append(out, placed{tx.Place, tx.End, tx.GTID})
	}
	return out
}

// TestServerReplaced follows a server that is then replaced by a replica that had all but the last
// transaction.
func TestServerReplaced(t *testing.T) {
	for _, own := range []func(testing.TB, ...string) *testdb.Server{testdb.OwnMySQL, testdb.OwnMariaDB} {
		a, b := own(t), own(t, "--log-slave-updates=ON", "--binlog-row-image=FULL")
		t.Run(a.Engine, func(t *testing.T) {
			url, path := a.NewDatabase(t, "moved"), filepath.Join(t.TempDir(), "s.log")
			there := b.URL(mysqltest.DatabaseOf(url))
			testdb.Query(t, url, "CREATE TABLE item (id int PRIMARY KEY); CREATE TABLE other (id int PRIMARY KEY)")
			replicaOf(t, b, a)
			if _, err := journaled(t, url, path, true).Freeze(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			place := endOf(t, open(t, url, server.Options{}))
			for i := range 4 {
				testdb.Query(t, url, fmt.Sprintf("INSERT INTO item VALUES (%d); FLUSH BINARY LOGS", i+1))
			}
			mysqltest.Await(t, there, "SELECT max(id) FROM item", "4")
			testdb.Query(t, there, "STOP SLAVE; RESET SLAVE ALL")
			testdb.Query(t, url, "INSERT INTO item VALUES (5)")
			var was []*change.Tx
			s := stream(t, journaled(t, url, path, false), place)
			if err := s.Run(t.Context(), func(tx *change.Tx) error {
				if was = append(was, tx); len(was) == 2 {
					s.Release(was[0].End)
					s.journal.limit = 1
				}
				if len(was) == 5 {
					return errEnough
				}
				return nil
			}); err != errEnough {
				t.Fatal(err)
			}
			s.Close()
			if j, err := readJournal(path); err != nil || len(j.txs) != 4 || j.txs[0].place != was[1].Place {
				t.Errorf("what was released is in the journal still: %+v, %v", j.txs, err)
			}
			lost := func(want string, after uint64, applied ...uint64) {
				t.Helper()
				e := journaled(t, there, path, false)
				e.HasApplied(applied)
				if _, err := e.Follow(t.Context(), "x", after); tidemark.KindOf(err) != tidemark.Lost || !strings.Contains(err.Error(), want) {
					t.Error(err)
				}
			}
			lost("lacks transactions that the target, or the queue, has", was[4].End)
			lost("lacks the transaction "+was[4].GTID+", which the target has", was[1].End, was[3].Place, was[4].Place)

			// A crash of this machine has lost the last lines.
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			at := bytes.Index(whole, fmt.Appendf(nil, "T %d ", was[3].Place))
			if err := os.WriteFile(path, whole[:at+3], 0o600); err != nil {
				t.Fatal(err)
			}
			lost("are not known: this machine went down", was[3].End)
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}

			testdb.Query(t, there, "FLUSH BINARY LOGS; INSERT INTO item VALUES (6); FLUSH BINARY LOGS; INSERT INTO item VALUES (7)")
			after := was[1].End
			e := journaled(t, there, path, false)
			e.HasApplied([]uint64{was[3].Place})
			first := follow(t, e, after)
			got := placesOf(first)
			if len(got) != 4 || got[0].gtid != was[2].GTID || got[0].place != was[2].Place || got[1].gtid != was[3].GTID || got[1].place != was[3].Place ||
				got[2].place <= was[4].End || got[3].place <= got[2].end {
				t.Fatalf("%+v after %+v", got, placesOf(was))
			}
			// The same again after a crash, with the same names; and from the place it has reached.
			if again := placesOf(follow(t, journaled(t, there, path, false), after)); fmt.Sprint(again) != fmt.Sprint(got) {
				t.Errorf("%+v, and again %+v", got, again)
			}
			if rest := placesOf(follow(t, journaled(t, there, path, false), got[2].end)); len(rest) != 1 || rest[0] != got[3] {
				t.Errorf("%+v, and then %+v", got, rest)
			}
			r := newReplica(t)
			for _, tx := range append(was[:2:2], first...) {
				r.take(tx)
			}
			r.sameRows(open(t, there, server.Options{}), mysqltest.MoveTo(mysqltest.TableFrom(t, there, "item"), "x"))
		})
	}
}
