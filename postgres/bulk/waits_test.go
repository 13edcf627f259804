package bulk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// doing waits until a lane is found doing one of these.
func doing(t *testing.T, e *Engine, lane int, kinds ...tidemark.WaitKind) tidemark.Wait {
	t.Helper()
	var found tidemark.Wait
	testdb.Within(t, fmt.Sprintf("lane %d doing %v", lane, kinds), func() bool {
		waits, err := e.Doing(t.Context(), tidemark.WriteSide)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(waits, func(w tidemark.Wait) bool { return w.Lane == lane && slices.Contains(kinds, w.Kind) })
		if i >= 0 {
			found = waits[i]
		}
		return i >= 0
	})
	return found
}

func TestWhatSessionsDo(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "waits")
	e, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	testdb.Query(t, url, "CREATE TABLE t (i int, s text); INSERT INTO t SELECT i % 1000, md5(i::text) FROM generate_series(1, 300000) i")
	exec := func(lane int, sql string) (ended chan error) {
		ended = make(chan error, 1)
		go func() { ended <- e.Exec(context.WithoutCancel(t.Context()), lane, []string{sql}) }()
		return ended
	}

	holder := testdb.NewSession(url)
	defer holder.Close()
	for _, sql := range []string{"BEGIN", "LOCK TABLE t"} {
		if _, err := holder.Try(sql); err != nil {
			t.Fatal(err)
		}
	}
	waits := exec(3, "ALTER TABLE public.t ADD k int")
	if w := doing(t, e, 3, tidemark.WaitLock); w.Event != "Lock:relation" || w.Thread == 0 {
		t.Errorf("a session that waits for a lock: %+v", w)
	}
	if _, err := holder.Try("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := testdb.From(t, "the end of the ALTER", waits); err != nil {
		t.Fatal(err)
	}

	doing(t, e, 3, tidemark.WaitNetwork)    // it is idle
	naps := exec(3, "SELECT pg_sleep(600)") // until it is found
	if w := doing(t, e, 3, tidemark.WaitThrottle); w.Event != "Timeout:PgSleep" {
		t.Errorf("a session that sleeps: %+v", w)
	}
	works := exec(4, "DO $$ BEGIN LOOP END LOOP; END $$")
	doing(t, e, 4, tidemark.WaitCPU)
	testdb.Query(t, url, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()")
	for _, ended := range []chan error{naps, works} {
		if err := testdb.From(t, "the end of a statement", ended); err == nil || !strings.Contains(err.Error(), "canceling statement") {
			t.Error(err)
		}
	}
}

// The leader of a parallel build waits for its workers: they are what its lane does.
func TestParallelWorkersCountForTheirLeader(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "waits")
	e, err := Open(t.Context(), url, Options{IndexWorkers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	testdb.Query(t, url, "CREATE TABLE t (s text); ALTER TABLE t SET (parallel_workers = 2); INSERT INTO t SELECT md5(i::text) FROM generate_series(1, 400000) i")
	ended := make(chan error, 1)
	go func() {
		ended <- e.Exec(context.WithoutCancel(t.Context()), 0, []string{"CREATE INDEX ON public.t (s)"})
	}()
	most := 0
	for done := false; !done; {
		waits, err := e.Doing(t.Context(), tidemark.WriteSide)
		if err != nil {
			t.Fatal(err)
		}
		threads := map[string]bool{}
		for _, w := range waits {
			threads[fmt.Sprint(w.Thread)] = true
		}
		most = max(most, len(threads))
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		case <-time.After(2 * time.Millisecond):
		}
	}
	if most < 2 {
		t.Errorf("at most %d processes were found at the index", most)
	}
}

func TestKindsOfWaits(t *testing.T) {
	for _, c := range []struct {
		state, kind, event string
		want               tidemark.WaitKind
	}{
		{"active", "", "", tidemark.WaitCPU},
		{"active", "IO", "WALSync", tidemark.WaitLogSync},
		{"active", "IO", "WalSync", tidemark.WaitLogSync}, // 18 spells it so
		{"active", "IO", "WALInitSync", tidemark.WaitLogSync},
		{"active", "IO", "WALWrite", tidemark.WaitLogWrite},
		{"active", "IO", "WALRead", tidemark.WaitDataRead},
		{"active", "IO", "DataFileRead", tidemark.WaitDataRead},
		{"active", "IO", "DataFilePrefetch", tidemark.WaitDataRead},
		{"active", "IO", "DataFileExtend", tidemark.WaitDataWrite},
		{"active", "IO", "DataFileImmediateSync", tidemark.WaitDataWrite},
		{"active", "IO", "BufFileWrite", tidemark.WaitTemp},
		{"active", "LWLock", "WALWrite", tidemark.WaitLogSync},
		{"active", "LWLock", "WALInsert", tidemark.WaitLogWrite},
		{"active", "LWLock", "BufferContent", tidemark.WaitLatch},
		{"active", "Lock", "transactionid", tidemark.WaitLock},
		{"active", "Lock", "extend", tidemark.WaitLatch},
		{"active", "Client", "ClientRead", tidemark.WaitNetwork},
		{"idle in transaction", "Client", "ClientRead", tidemark.WaitNetwork},
		{"idle", "Client", "ClientRead", tidemark.WaitNetwork},
		{"active", "IPC", "SyncRep", tidemark.WaitStandby},
		{"active", "IPC", "ParallelFinish", tidemark.WaitUnknown},
		{"active", "Timeout", "VacuumDelay", tidemark.WaitThrottle},
		{"active", "Extension", "Extension", tidemark.WaitUnknown},
		{"", "", "", tidemark.WaitUnknown}, // of another user's session
	} {
		if got, _ := kindOf(c.state, c.kind, c.event); got != c.want {
			t.Errorf("%s %s:%s is %s, want %s", c.state, c.kind, c.event, got, c.want)
		}
	}
}
