package stream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/binlog"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A logLine is the comparable part of two scans of the same log.
type logLine struct {
	place       uint64
	size        uint32
	kind, table string
	ended       tidemark.LogEnd
	time        int64
	group       bool
}

// logLines collects records without the events that a server does not send.
func logLines(all []tidemark.LogRecord, scan tidemark.LogScan) []logLine {
	var out []logLine
	for _, r := range all {
		out = append(out, logLine{r.Place, r.Size, scan.Classes[r.Class], scan.Tables[r.Table], r.Ended, r.Time, r.Group != 0})
	}
	return out
}

// A server sends what is in its files.
func TestScanLog(t *testing.T) {
	keyring := filepath.Join(keyDir(t), "keyring")
	for _, s := range []*testdb.Server{testdb.OwnMySQL(t, "--early-plugin-load=keyring_file.so", "--keyring-file-data="+keyring), testdb.OwnMariaDB(t)} {
		t.Run(s.Engine, func(t *testing.T) {
			ctx := context.Background()
			url := s.NewDatabase(t, "scan")
			testdb.Query(t, url, "RESET MASTER; SET GLOBAL sync_binlog = 1; CREATE TABLE t (id int PRIMARY KEY, v longtext); INSERT INTO t VALUES (1, 'a'), (2, REPEAT('b', 3000000)); FLUSH BINARY LOGS;"+
				"INSERT INTO t VALUES (3, 'c'); UPDATE t SET v = 'd'; DELETE FROM t WHERE id = 3; FLUSH BINARY LOGS; INSERT INTO t VALUES (4, 'last')")
			e, err := Open(ctx, url, server.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			gather := func(into *[]tidemark.LogRecord) func(*tidemark.LogRecord) error {
				return func(r *tidemark.LogRecord) error {
					*into = append(*into, *r)
					return nil
				}
			}
			var sent, lie []tidemark.LogRecord
			var out, want tidemark.LogScan
			// MariaDB writes a checkpoint to a new file when it gets to it, perhaps between the
			// two.
			for end := time.Now().Add(time.Minute); out.To == 0 || out.To != want.To && time.Now().Before(end); {
				sent, lie = nil, nil
				if out, err = e.ScanLog(tidemark.LogRange{}).Scan(ctx, gather(&sent)); err != nil {
					t.Fatal(err)
				}
				files, err := binlog.Open([]string{filepath.Join(s.Dir, "binlog.index")}, binlog.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if want, err = files.Scan(ctx, gather(&lie)); err != nil {
					t.Fatal(err)
				}
			}
			a, b := logLines(sent, out), logLines(lie, want)
			if !slices.Equal(a, b) {
				t.Errorf("%d records were sent, and the files have %d:\n%v\n%v", len(a), len(b), a, b)
			}
			if out.Files != 3 || out.Engine != s.Engine || out.End != "" || out.From != want.From || out.To != want.To || out.Bytes != want.Bytes || out.Syncs != 0 {
				t.Errorf("%+v", out)
			}

			// Part of the log.
			third := sent[slices.IndexFunc(sent, func(r tidemark.LogRecord) bool { return r.Ended == tidemark.Committed && r.Place>>32 == 2 })]
			from := third.Place + uint64(third.Size)
			var part []tidemark.LogRecord
			if out, err = e.ScanLog(tidemark.LogRange{From: from, Until: 3<<32 | 4}).Scan(ctx, gather(&part)); err != nil {
				t.Fatal(err)
			}
			if n := len(part); n == 0 || part[0].Place != from || part[n-1].Place>>32 != 2 || out.To < 3<<32 || out.From != from {
				t.Errorf("part: %d records, %+v", len(part), out)
			}

			testScanFor(t, e)
			testScanErrors(t, e)
			testScanRights(t, s, url)
			if s.Engine == "mysql" {
				testdb.Query(t, url, "SET GLOBAL binlog_encryption = ON")
				testScanEncrypted(t, s, "it is encrypted from offset 0 on (MySQL, binlog_encryption)")
			}
		})
	}
}

// A scan for a duration receives what the server commits meanwhile, and counts its syncs.
func testScanFor(t *testing.T, e *Engine) {
	ctx := context.Background()
	s, back, err := e.Lend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer back()
	var out tidemark.LogScan
	next := int64(100)
	for try := 0; ; try++ { // a busy machine may have committed nothing during a try
		done := make(chan error, 1)
		var ends []uint64
		go func() {
			var err error
			out, err = e.ScanLog(tidemark.LogRange{For: 2 * time.Second}).Scan(ctx, func(r *tidemark.LogRecord) error {
				if r.Ended == tidemark.Committed {
					ends = append(ends, r.Place)
				}
				return nil
			})
			done <- err
		}()
		made := int64(0)
		for over := false; !over; made++ {
			if err := s.Exec(ctx, fmt.Sprintf("INSERT INTO t VALUES (%d, 'x')", next)); err != nil {
				t.Fatal(err)
			}
			next++
			select {
			case err := <-done:
				if over = true; err != nil {
					t.Fatal(err)
				}
			case <-time.After(time.Millisecond):
			}
		}
		within := int64(0)
		for _, place := range ends {
			if place >= out.SyncsFrom && place < out.SyncsTo {
				within++
			}
		}
		if (within == 0 || out.Syncs == 0) && try < 5 {
			continue
		}
		// The place and the count are read one after the other: the number of commits in between is
		// random.
		if within == 0 || out.Syncs == 0 || out.Syncs > made+10 || out.To < out.SyncsTo || out.From > out.SyncsFrom {
			t.Errorf("%d of %d commits and %d syncs from %x to %x: %x to %x, %d commits", within, made, out.Syncs, out.SyncsFrom, out.SyncsTo, out.From, out.To, len(ends))
		}
		break
	}
	if err := s.Exec(ctx, "SET GLOBAL sync_binlog = 0"); err != nil {
		t.Fatal(err)
	}
	out, err = e.ScanLog(tidemark.LogRange{For: time.Millisecond}).Scan(ctx, func(r *tidemark.LogRecord) error { return nil })
	if err != nil || out.Syncs != 0 || len(out.Findings) != 1 || !strings.Contains(out.Findings[0], "sync_binlog = 0") {
		t.Errorf("%v %+v", err, out)
	}
}

// testScanRights scans as a user with only the needed privileges.
func testScanRights(t *testing.T, s *testdb.Server, url string) {
	grants := map[string]string{"mysql": "REPLICATION CLIENT, REPLICATION SLAVE", "mariadb": "BINLOG MONITOR, REPLICATION SLAVE"}[s.Engine]
	testdb.Query(t, url, "CREATE USER scanner@'%' IDENTIFIED BY 'pw'")
	own := fmt.Sprintf("%s://scanner:pw@%s:%d", s.Engine, s.Host, s.Port)
	scan := func() (tidemark.LogScan, error) {
		return open(t, own, server.Options{}).ScanLog(tidemark.LogRange{}).Scan(context.Background(), func(*tidemark.LogRecord) error { return nil })
	}
	if _, err := scan(); tidemark.KindOf(err) != tidemark.Forbidden || tidemark.HintOf(err) == "" {
		t.Errorf("without rights: %v (%q)", err, tidemark.HintOf(err))
	}
	testdb.Query(t, url, "GRANT "+grants+" ON *.* TO scanner@'%'")
	if out, err := scan(); err != nil || out.Bytes == 0 {
		t.Errorf("with rights: %v %d bytes", err, out.Bytes)
	}
}

func testScanErrors(t *testing.T, e *Engine) {
	ctx := context.Background()
	none := func(*tidemark.LogRecord) error { return nil }
	for _, c := range []struct {
		r    tidemark.LogRange
		kind tidemark.Kind
		want string
	}{
		{tidemark.LogRange{From: 9<<32 | 4}, tidemark.Lost, "the server has no file of the number 9: it has binlog.000001 to binlog.000003"},
		{tidemark.LogRange{From: 2<<32 | 4, Until: 1<<32 | 4}, tidemark.Invalid, "the log range from file 2:4 to file 1:4 is empty"},
		{tidemark.LogRange{From: 1<<32 | 0x7fffffff}, tidemark.Invalid, "to start replication from "},
	} {
		_, err := e.ScanLog(c.r).Scan(ctx, none)
		if tidemark.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.want) || tidemark.HintOf(err) == "" {
			t.Errorf("%+v: %v (%v)", c.r, err, tidemark.KindOf(err))
		}
	}
	mine := errors.New("mine")
	if _, err := e.ScanLog(tidemark.LogRange{}).Scan(ctx, func(*tidemark.LogRecord) error { return mine }); err != mine {
		t.Errorf("error of emit: %v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	_, err := e.ScanLog(tidemark.LogRange{From: 1<<32 | 4, For: time.Hour}).Scan(ctx, func(*tidemark.LogRecord) error { cancel(); return nil })
	if tidemark.KindOf(err) != tidemark.Cancelled {
		t.Errorf("cancelled: %v", err)
	}
}

// Logs that a server has encrypted are refused as files; the server sends them decrypted.
func testScanEncrypted(t *testing.T, s *testdb.Server, want string) {
	t.Helper()
	url := s.NewDatabase(t, "scan")
	testdb.Query(t, url, "FLUSH BINARY LOGS; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
	_, err := binlog.Open([]string{s.Dir}, binlog.Options{})
	if tidemark.KindOf(err) != tidemark.BadInput || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%s: %v", s.Engine, err)
	}
	e := open(t, url, server.Options{})
	rows := 0
	out, err := e.ScanLog(tidemark.LogRange{}).Scan(context.Background(), func(r *tidemark.LogRecord) error {
		if r.Table != 0 {
			rows++
		}
		return nil
	})
	if err != nil || rows < 2 || out.End != "" || !slices.ContainsFunc(out.Tables, func(s string) bool { return strings.HasSuffix(s, ".t") }) {
		t.Errorf("%s: %v, %d rows, %q %q", s.Engine, err, rows, out.Tables, out.End)
	}
}

// keyDir is a folder that the servers' users can enter.
func keyDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tidemark-keys-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestScanEncryptedMariaDB(t *testing.T) {
	keys := filepath.Join(keyDir(t), "keys.txt")
	if err := os.WriteFile(keys, []byte("1;"+strings.Repeat("a7", 32)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := testdb.OwnMariaDB(t, "--plugin-load-add=file_key_management", "--file-key-management-filename="+keys, "--encrypt-binlog=ON")
	testScanEncrypted(t, s, "it is encrypted from offset 256 on (MariaDB, encrypt_binlog)")
}
