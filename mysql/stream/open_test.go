package stream

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// TestOldestOpen names the oldest open transaction of a source: whose it is, how many others wait
// for it, and what to grant to a user who may not know.
func TestOldestOpen(t *testing.T) {
	for _, srv := range []*testdb.Server{testdb.OwnMySQL(t), testdb.OwnMariaDB(t)} {
		t.Run(srv.Engine, func(t *testing.T) {
			db := srv.NewDatabase(t, "open")
			testdb.Query(t, db, "SET GLOBAL time_zone = '+09:00'; CREATE TABLE item (id int PRIMARY KEY, n int); INSERT INTO item VALUES (1, 0)")
			// until waits for an answer that is as wanted. InnoDB looks anew only if nobody
			// has asked for 0.1 s.
			until := func(what, db string, yes func(tidemark.LogKept) bool) {
				t.Helper()
				e := open(t, db, server.Options{})
				var k tidemark.LogKept
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
					var err error
					if k, err = e.LogKept(t.Context(), "s", 0); err != nil {
						t.Fatal(err)
					}
					if yes(k) {
						return
					}
				}
				t.Errorf("no %s: %v, %q", what, k.Open, k.OpenBy)
			}
			none := func(k tidemark.LogKept) bool { return k.Open == 0 && k.OpenBy == "" }
			until("silence", db, none)
			holder, reader := testdb.NewSession(db), testdb.NewSession(db)
			defer holder.Close()
			defer reader.Close()
			id := ""
			for _, sql := range []string{"START TRANSACTION", "UPDATE item SET n = 1", "SELECT connection_id()"} {
				var err error
				if id, err = holder.Try(sql); err != nil {
					t.Fatal(err)
				}
			}
			mine := func(k tidemark.LogKept) bool {
				return k.Open > 0 && k.Open < time.Hour && strings.HasPrefix(k.OpenBy, "connection "+id+" of ") && !strings.Contains(k.OpenBy, "wait")
			}
			until("holder", db, mine)
			done := make(chan error, 1)
			go func() {
				_, err := testdb.TryQuery(db, "UPDATE item SET n = 2")
				done <- err
			}()
			until("waiter", db, func(k tidemark.LogKept) bool {
				return strings.HasPrefix(k.OpenBy, "connection "+id+" of ") && strings.HasSuffix(k.OpenBy, ", for which other transactions wait (1)")
			})
			testdb.Query(t, db, "CREATE USER poor@'%' IDENTIFIED BY 's3cret-poor'; GRANT SELECT, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO poor@'%'")
			u, err := url.Parse(db)
			if err != nil {
				t.Fatal(err)
			}
			u.User = url.UserPassword("poor", "s3cret-poor")
			until("grant", u.String(), func(k tidemark.LogKept) bool {
				return k.Open == 0 && strings.HasPrefix(k.OpenBy, "GRANT PROCESS ON *.* TO ") && strings.Contains(k.OpenBy, "poor")
			})
			if _, err := holder.Try("COMMIT"); err != nil {
				t.Fatal(err)
			}
			if err := testdb.From(t, "the end of the UPDATE", done); err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{"START TRANSACTION", "SELECT * FROM item"} { // has no locks
				if _, err := reader.Try(sql); err != nil {
					t.Fatal(err)
				}
			}
			until("silence afterwards", db, none)
			xa := testdb.NewSession(db)
			for _, sql := range []string{"XA START 'x'", "UPDATE item SET n = 3", "XA END 'x'", "XA PREPARE 'x'"} {
				if _, err := xa.Try(sql); err != nil {
					t.Fatal(err)
				}
			}
			xa.Close()
			until("prepared transaction", db, func(k tidemark.LogKept) bool { return k.Open > 0 && k.OpenBy == "a prepared XA transaction" })
			testdb.Query(t, db, "XA ROLLBACK 'x'")
		})
	}
}
