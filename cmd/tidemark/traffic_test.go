package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// goesOn returns false once stop is closed; otherwise it waits a moment, so that a test's traffic
// leaves the processors to its stream.
func goesOn(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return false
	case <-time.After(10 * time.Millisecond):
		return true
	}
}

// traffic runs the transactions that next returns until stop is closed. Some may be refused, as
// defined by refused; any other error, or not a single commit among many, means that a test's load
// is not what the test assumes. It ends with the test, too: one that has failed drops the database.
func traffic(t *testing.T, url string, stop <-chan struct{}, next func() string, also ...any) {
	s := testdb.NewSession(url)
	defer s.Close()
	tried, done := 0, 0
	var last error
	for ; goesOn(stop); tried++ {
		sql := next()
		_, err := s.Try("BEGIN; " + sql + "; COMMIT")
		if t.Context().Err() != nil {
			return
		}
		if err == nil {
			done++
		} else if last = err; !refused(err, also...) {
			t.Errorf("the test's own traffic: %v\nin %s", err, sql)
			return
		}
	}
	if tried >= 50 && done == 0 {
		t.Errorf("of %d transactions of the test's own traffic none was committed; the last one: %v", tried, last)
	}
}

// refused reports whether a statement failed because of concurrent ones (a lock, a key that another
// took), or because its server went away, was fenced, or ended the session; or with one of the
// codes in also.
func refused(err error, also ...any) bool {
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		const constraint, rollback, connection, resources, ended = "23", "40", "08", "53", "57"
		return slices.Contains([]string{constraint, rollback, connection, resources, ended}, pg.Code[:2]) ||
			pg.Code == "25006" /* read_only_sql_transaction */ || slices.Contains(also, any(pg.Code))
	}
	if my := (*mysql.MyError)(nil); errors.As(err, &my) {
		return slices.Contains([]uint16{mysql.ER_DUP_ENTRY, mysql.ER_LOCK_DEADLOCK, mysql.ER_LOCK_WAIT_TIMEOUT,
			mysql.ER_NO_REFERENCED_ROW_2, mysql.ER_ROW_IS_REFERENCED_2, mysql.ER_CHECKREAD, mysql.ER_SERVER_SHUTDOWN,
			mysql.ER_CON_COUNT_ERROR, mysql.ER_QUERY_INTERRUPTED, mysql.ER_OPTION_PREVENTS_STATEMENT,
			mysql.ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, 1927 /* MariaDB: the connection was killed */}, my.Code) || slices.Contains(also, any(my.Code))
	}
	return true // no answer: the connection is cut
}

// patience is how long tests wait for events that usually take a second or two: other suites run in
// parallel, and a process may stall for many seconds.
const patience = 2 * time.Minute

// soon waits until a condition holds, and logs from time to time that it is waiting.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for w := (waiting{t: t, what: what}); !ok(); time.Sleep(50 * time.Millisecond) {
		if w.over() {
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// waiting is a wait of a test for something.
type waiting struct {
	t           *testing.T
	what        string
	begun, said time.Time
}

// over logs from time to time what the test waits for, and reports whether that takes too long.
func (w *waiting) over() bool {
	w.t.Helper()
	now := time.Now()
	switch {
	case w.begun.IsZero():
		w.begun, w.said = now, now
	case now.Sub(w.said) > 15*time.Second:
		w.said = now
		w.t.Logf("waits for %s since %v", w.what, now.Sub(w.begun).Round(time.Second))
	}
	if now.Sub(w.begun) <= patience {
		return false
	}
	testdb.OnClock(w.t)
	return true
}
