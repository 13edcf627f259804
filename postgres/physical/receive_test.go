package physical

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// A shelf stores what a Receiver emits, and reports faults in its order.
type shelf struct {
	mu    sync.Mutex
	files map[string][]byte
	names []string // of whole files, in order
	last  int64    // the latest commit
	wrong []string
}

func (s *shelf) take(_ context.Context, f *tidemark.LogFile) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[string][]byte{}
	}
	before := s.files[f.Name]
	switch {
	case f.Damage != "":
		s.wrong = append(s.wrong, f.Name+": "+f.Damage)
	case slices.Contains(s.names, f.Name):
		s.wrong = append(s.wrong, f.Name+" comes twice")
	case len(before) > len(f.Bytes) && !bytes.HasPrefix(before, f.Bytes) || len(before) <= len(f.Bytes) && !bytes.HasPrefix(f.Bytes, before):
		s.wrong = append(s.wrong, f.Name+" was another before")
	}
	s.last = max(s.last, f.LastCommit)
	if len(f.Bytes) >= len(before) {
		s.files[f.Name] = bytes.Clone(f.Bytes)
	}
	if f.Whole() {
		s.names = append(s.names, f.Name)
	}
	return nil
}

// receiving runs a Receiver until it has to end.
func receiving(t *testing.T, e *Cluster, opt ReceiveOptions, take taker) (r *Receiver, end func() error) {
	t.Helper()
	opt.Event = func(what string, err error) { t.Log(what, err) }
	r, err := e.Receive(opt)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, take) }()
	end = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = end() })
	return r, end
}

func (s *shelf) compare(t *testing.T, srv *testdb.Server, least int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.wrong {
		t.Error(w)
	}
	if len(s.names) < least || !slices.IsSorted(s.names) {
		t.Errorf("the whole segments are %v", s.names)
	}
	for name, b := range s.files {
		have, err := os.ReadFile(filepath.Join(srv.Dir, "pg_wal", name))
		if err != nil {
			t.Error(err)
		} else if !bytes.HasPrefix(have, b) {
			t.Errorf("%s is not what the server has", name)
		}
	}
}

// What is received equals what the server has, nothing missing and nothing twice, whatever happens
// to the connection; and the server keeps what was not taken.
func TestReceiveIsTheFiles(t *testing.T) {
	for _, c := range []struct{ major, megabytes int }{{13, 16}, {15, 1}, {18, 16}} {
		t.Run(fmt.Sprint(c.major), func(t *testing.T) {
			t.Parallel()
			srv := testdb.OwnPostgresSegments(t, c.major, c.megabytes, "-c", "wal_keep_size=1GB", "-c", "autovacuum=off", "-c", "checkpoint_timeout=1h")
			url := srv.URL("postgres")
			testdb.Query(t, url, "CREATE TABLE item (id int, t text)")
			e := openURL(t, url)
			s := &shelf{}
			r, end := receiving(t, e, ReceiveOptions{Slot: "arch", SlotUse: MakeSlot, Partial: 20 * time.Millisecond, Reconnect: true}, s.take)
			for i := range 6 {
				testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 5000) g; SELECT pg_switch_wal()")
				if i%2 == 1 {
					testdb.Query(t, url, "SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
				}
			}
			testdb.Query(t, url, "INSERT INTO item VALUES (1)")
			last, err := e.LogEnd(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			testdb.Within(t, "the end of the log", func() bool { return r.Status().Taken >= last })
			if st := r.Status(); !st.Connected || st.Timeline != 1 || st.Received < last || st.ServerEnd < last || st.Lag != 0 && st.Taken == st.ServerEnd {
				t.Errorf("%+v", st)
			}
			testdb.Within(t, "the slot", func() bool {
				kept, err := wal.ParseLSN(testdb.Query(t, url, "SELECT coalesce(restart_lsn, '0/0') FROM pg_replication_slots WHERE slot_name = 'arch'"))
				return err == nil && kept >= last
			})
			if err := end(); tidemark.KindOf(err) != tidemark.Cancelled {
				t.Error(err)
			}
			s.compare(t, srv, 6)
			if since := time.Since(time.UnixMicro(s.last)); since < 0 || since > time.Hour {
				t.Errorf("the last commit was %s ago", since)
			}
			testdb.Within(t, "the end of the server's session", func() bool {
				return testdb.Query(t, url, "SELECT count(*) FROM pg_replication_slots WHERE active") == "0"
			})
			if err := e.DropLogSlot(context.Background(), "arch"); err != nil {
				t.Error(err)
			}
			if n := testdb.Query(t, url, "SELECT count(*) FROM pg_replication_slots"); n != "0" {
				t.Errorf("%s slots", n)
			}
		})
	}
}

// A slot is created a moment after the end of the log was asked for, perhaps in a later segment.
func TestReceiveBesideSwitches(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "wal_keep_size=1GB")
	url := srv.URL("postgres")
	wire := testdb.NewWire(t, fmt.Sprint(srv.Port), 20*time.Millisecond)
	e := openURL(t, strings.Replace(url, fmt.Sprintf(":%d", srv.Port), ":"+wire.Port, 1))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_, _ = testdb.TryQuery(url, fmt.Sprintf("CREATE TABLE x%d (); SELECT pg_switch_wal()", i))
				_, _ = testdb.TryQuery(url, "CHECKPOINT")
			}
		}
	}()
	defer func() { close(stop); <-done }()
	for i := range 10 {
		s := &shelf{}
		_, end := receiving(t, e, ReceiveOptions{Slot: fmt.Sprintf("arch%d", i), SlotUse: MakeSlot}, s.take)
		testdb.Within(t, "a segment", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.names) > 0
		})
		if err := end(); tidemark.KindOf(err) != tidemark.Cancelled {
			t.Fatal(err)
		}
		s.compare(t, srv, 1)
	}
}

// What was not taken is not reported as safe, and is sent again; an end set later ends the run
// after everything before it.
func TestReceiveIsSafeOnlyWhenTaken(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "autovacuum=off", "-c", "wal_keep_size=64MB", "-c", "max_wal_size=64MB")
	url := srv.URL("postgres")
	testdb.Query(t, url, "CREATE TABLE item (id int, t text); SELECT pg_create_physical_replication_slot('arch', true)")
	kept := testdb.Query(t, url, "SELECT restart_lsn FROM pg_replication_slots WHERE slot_name = 'arch'")
	e := openURL(t, url)
	own := errors.New("no room")
	came := make(chan string, 1)
	release := make(chan struct{})
	s := &shelf{}
	r, _ := receiving(t, e, ReceiveOptions{Slot: "arch", Partial: time.Hour}, func(ctx context.Context, f *tidemark.LogFile) error {
		came <- f.Name
		select {
		case <-release:
		case <-ctx.Done():
		}
		return own
	})
	testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 20000) g")
	first := testdb.From(t, "the first file", came)
	testdb.Query(t, url, "SELECT pg_sleep(1.2)") // the server sends it a message once a second
	if now := testdb.Query(t, url, "SELECT restart_lsn FROM pg_replication_slots WHERE slot_name = 'arch'"); now != kept {
		t.Errorf("the slot went from %s to %s though nothing was taken", kept, now)
	}
	if st := r.Status(); st.Lag <= 0 || st.Taken >= st.Received {
		t.Errorf("%+v", st)
	}
	close(release)

	// take's error is returned unchanged.
	again, err := e.Receive(ReceiveOptions{Slot: "arch", Reconnect: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Run(context.Background(), func(_ context.Context, f *tidemark.LogFile) error {
		if f.Name != first {
			t.Errorf("after %s was not taken, %s comes first", first, f.Name)
		}
		return own
	}); err != own {
		t.Errorf("%v", err)
	}

	done := make(chan error, 1)
	last, err := e.Receive(ReceiveOptions{Slot: "arch", Reconnect: true})
	if err != nil {
		t.Fatal(err)
	}
	go func() { done <- last.Run(context.Background(), s.take) }()
	testdb.Within(t, "the second run", func() bool { return last.Status().Received > 0 })
	until, err := e.LogEnd(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	last.End(until)
	if err := testdb.From(t, "the end of the last run", done); err != nil || last.Status().Taken < until {
		t.Errorf("%v, %+v", err, last.Status())
	}
	s.compare(t, srv, 3)

	// A temporary slot lasts as long as the session, and a name in use is refused.
	temporary, end := receiving(t, e, ReceiveOptions{SlotUse: TemporarySlot}, s.take)
	testdb.Within(t, "a temporary slot", func() bool { return temporary.Status().Connected })
	if n := testdb.Query(t, url, "SELECT count(*) FROM pg_replication_slots WHERE temporary AND active AND restart_lsn IS NOT NULL"); n != "1" {
		t.Errorf("%s temporary slots", n)
	}
	_ = end()
	testdb.Within(t, "its end", func() bool {
		return testdb.Query(t, url, "SELECT count(*) FROM pg_replication_slots WHERE temporary") == "0"
	})
}

// What cannot be received is reported in one sentence, and what is missing is never skipped.
func TestReceiveRefusals(t *testing.T) {
	t.Parallel()
	srv := testdb.OwnPostgresSegments(t, 15, 1, "-c", "autovacuum=off", "-c", "max_wal_size=4MB", "-c", "min_wal_size=2MB", "-c", "max_slot_wal_keep_size=1MB")
	url := srv.URL("postgres")
	testdb.Query(t, url, "SELECT pg_create_physical_replication_slot('behind', true), pg_create_physical_replication_slot('behind2', true)")
	for range 6 { // the server removes segments that it does not need
		testdb.Load(t, url, strings.NewReader("CREATE TABLE item AS SELECT g FROM generate_series(1, 20000) g; DROP TABLE item; SELECT pg_switch_wal(); CHECKPOINT;"))
	}
	testdb.Query(t, url, "SELECT pg_create_logical_replication_slot('rows', 'pgoutput'); CREATE ROLE plain LOGIN PASSWORD '"+srv.Password+"'")
	for what, c := range map[string]struct {
		role string
		opt  ReceiveOptions
		kind tidemark.Kind
		says string
	}{
		"gone":           {"", ReceiveOptions{Ends: []tidemark.LogPlace{{Timeline: 1, Place: 0x200000}}}, tidemark.Lost, "has already been removed: there is a gap from 0/200000 on"},
		"ahead":          {"", ReceiveOptions{Ends: []tidemark.LogPlace{{Timeline: 1, Place: 1 << 40}}}, tidemark.Lost, "but it was already received up to 100/0"},
		"other server":   {"", ReceiveOptions{System: "77"}, tidemark.Invalid, "it is another server, not a copy of that one"},
		"old timeline":   {"", ReceiveOptions{Ends: []tidemark.LogPlace{{Timeline: 3, Place: 0x200000}}}, tidemark.Invalid, "it is on timeline 1, and the archive already has WAL of timeline 3"},
		"no slot":        {"", ReceiveOptions{Slot: "none"}, tidemark.NotFound, "there is no such slot"},
		"logical slot":   {"", ReceiveOptions{Slot: "rows"}, tidemark.Invalid, "it is a logical slot"},
		"given up":       {"", ReceiveOptions{Slot: "behind"}, tidemark.Lost, "the server has invalidated the slot (max_slot_wal_keep_size)"},
		"made anew":      {"", ReceiveOptions{Slot: "behind2", SlotUse: MakeSlot, Ends: []tidemark.LogPlace{{Timeline: 1, Place: 0x200000}}}, tidemark.Lost, "there is a gap from 0/200000 on"},
		"name taken":     {"", ReceiveOptions{Slot: "rows", SlotUse: TemporarySlot}, tidemark.Exists, "already exists"},
		"bad name":       {"", ReceiveOptions{Slot: "A B", SlotUse: MakeSlot}, tidemark.Invalid, "invalid character"},
		"no replication": {"plain", ReceiveOptions{}, tidemark.Forbidden, "replication"},
	} {
		u := url
		if c.role != "" {
			u = strings.Replace(url, srv.User+":", c.role+":", 1)
		}
		r, err := openURL(t, u).Receive(c.opt)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		err = r.Run(ctx, func(context.Context, *tidemark.LogFile) error { return errors.New("something came") })
		cancel()
		if err == nil || tidemark.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || tidemark.HintOf(err) == "" {
			t.Errorf("%s: %v (%v, hint %q)", what, err, tidemark.KindOf(err), tidemark.HintOf(err))
		}
	}
	if _, err := openURL(t, url).Receive(ReceiveOptions{SlotUse: MakeSlot}); tidemark.KindOf(err) != tidemark.Invalid {
		t.Errorf("a slot without a name: %v", err)
	}
}

// A standby that is promoted while it sends ends the old timeline and continues with the new one;
// so does one that replaces a lost primary. The old primary is refused then.
func TestReceiveOverAPromotion(t *testing.T) {
	t.Parallel()
	primary := testdb.OwnPostgresSegments(t, 17, 1, "-c", "autovacuum=off", "-c", "wal_keep_size=64MB", "-c", "max_wal_size=64MB")
	url := primary.URL("postgres")
	testdb.Query(t, url, "CREATE TABLE item (id int, t text); INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 5000) g")
	standby := primary.Standby(t, "postgres")
	e, other := openURL(t, url), openURL(t, standby.URL("postgres"))
	from, err := e.LogEnd(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	before, beside := &shelf{}, &shelf{}
	b, endBefore := receiving(t, e, ReceiveOptions{From: from, Slot: "arch", SlotUse: MakeSlot}, before.take)
	r, _ := receiving(t, other, ReceiveOptions{From: from, Partial: 20 * time.Millisecond, Reconnect: true}, beside.take)
	testdb.Query(t, url, "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 20000) g")
	left, err := e.LogEnd(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	testdb.Within(t, "the primary's log", func() bool { return b.Status().Received >= left })
	_ = endBefore()
	testdb.Within(t, "the standby's log", func() bool { return r.Status().Taken >= left })
	primary.Kill(t)
	testdb.Query(t, standby.URL("postgres"), "SELECT pg_promote(true, 280)")
	testdb.Query(t, standby.URL("postgres"), "INSERT INTO item SELECT g, repeat(md5(g::text), 10) FROM generate_series(1, 10000) g")
	last, err := other.LogEnd(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	testdb.Within(t, "the new timeline", func() bool { st := r.Status(); return st.Timeline == 2 && st.Taken >= last })

	// The first archive continues with the new server.
	newest, ok := wal.ParseName(before.names[len(before.names)-1], 1<<20)
	if !ok {
		t.Fatal(before.names)
	}
	ends := []tidemark.LogPlace{{Timeline: 1, Place: newest.Place + 1<<20}}
	after, err := other.Receive(ReceiveOptions{Ends: ends, System: b.system, Until: last})
	if err != nil {
		t.Fatal(err)
	}
	if err := after.Run(context.Background(), before.take); err != nil {
		t.Fatal(err)
	}
	beside.mu.Lock()
	for name, want := range beside.files {
		if got := before.files[name]; !bytes.HasPrefix(want, got) && !bytes.HasPrefix(got, want) || len(got) == 0 {
			t.Errorf("%s: %d bytes there, %d here, and not the same", name, len(want), len(got))
		}
	}
	beside.mu.Unlock()
	for _, s := range []*shelf{before, beside} {
		s.compare(t, standby, 10)
		if !slices.Contains(s.names, "00000002.history") || strings.Contains(s.names[len(s.names)-1], "history") {
			t.Errorf("no history, or nothing behind it: %v", s.names)
		}
	}
	primary.Restart(t)
	stale, err := openURL(t, url).Receive(ReceiveOptions{Ends: []tidemark.LogPlace{{Timeline: 2, Place: last &^ (1<<20 - 1)}}, Reconnect: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := stale.Run(context.Background(), before.take); tidemark.KindOf(err) != tidemark.Invalid {
		t.Errorf("the old primary: %v", err)
	}
}

// The server's history and what is already there decide where to continue.
func TestReceiveBegins(t *testing.T) {
	const mb = 1 << 20
	at := func(n uint32, place uint64) tidemark.LogPlace { return tidemark.LogPlace{Timeline: n, Place: place} }
	server := &line{timeline: 4, left: []tidemark.LogPlace{at(1, 5*mb+100), at(3, 9*mb)}}
	for what, c := range map[string]struct {
		ends map[uint32]uint64
		from uint64
		want tidemark.LogPlace
		note bool
		err  string
	}{
		"nothing yet":               {nil, 9*mb + 7, at(4, 9*mb), false, ""},
		"nothing yet, of old":       {nil, 5*mb + 7, at(1, 5*mb), false, ""},
		"nothing yet, in between":   {nil, 5*mb + 100, at(3, 5*mb), false, ""},
		"of the same timeline":      {map[uint32]uint64{1: 5 * mb, 3: 9 * mb, 4: 12 * mb}, 0, at(4, 12*mb), false, ""},
		"before it was left":        {map[uint32]uint64{1: 3 * mb}, 0, at(1, 3*mb), false, ""},
		"in the segment of leaving": {map[uint32]uint64{1: 5 * mb}, 0, at(1, 5*mb), false, ""},
		"all before it was left":    {map[uint32]uint64{1: 6 * mb}, 0, at(3, 5*mb), false, ""},
		"left at a segment's end":   {map[uint32]uint64{1: 5 * mb, 3: 9 * mb}, 0, at(4, 9*mb), false, ""},
		"more than the server has":  {map[uint32]uint64{3: 11 * mb}, 0, at(4, 9*mb), true, ""},
		"another branch beside":     {map[uint32]uint64{1: 6 * mb, 2: 8 * mb}, 0, at(3, 5*mb), false, ""},
		"another branch only":       {map[uint32]uint64{2: 8 * mb}, 0, at(0, 0), false, "the history of its timeline 4 has no timeline of the archive"},
		"behind what is there":      {map[uint32]uint64{1: 6 * mb, 5: 8 * mb}, 0, at(0, 0), false, "it is on timeline 4, and the archive already has WAL of timeline 5: it is not the server that was promoted last"},
	} {
		got, note, err := server.begin(c.ends, c.from, mb)
		if (err != nil) != (c.err != "") || err != nil && err.Error() != c.err || err == nil && (got != c.want || (note != "") != c.note) {
			t.Errorf("%s: %+v, %q, %v", what, got, note, err)
		}
	}
	empty := &line{timeline: 3, left: []tidemark.LogPlace{at(1, 5*mb), at(2, 5*mb)}}
	if got, _, err := empty.begin(map[uint32]uint64{1: 5 * mb}, 0, mb); err != nil || got != at(3, 5*mb) {
		t.Errorf("over a timeline in which nothing was written: %+v, %v", got, err)
	}
	if _, err := wal.ParseHistory("1\tnowhere\n"); err == nil {
		t.Error("an invalid place")
	}
	if left, err := wal.ParseHistory("# a remark\n\n1\t0/3000000\tno reason\n\n2\t1/B0\tbefore 2000-01-01\n"); err != nil || !slices.Equal(left, []tidemark.LogPlace{at(1, 0x3000000), at(2, 1<<32|0xB0)}) {
		t.Errorf("%v, %v", left, err)
	}
}

// The row at the end of a timeline is read, and nothing else is mistaken for it.
func TestReceiveTurn(t *testing.T) {
	row := []byte("\x00\x02\x00\x00\x00\x012\x00\x00\x00\x090/30000A8")
	if next, err := parseTurn(row); err != nil || next != (tidemark.LogPlace{Timeline: 2, Place: 0x30000A8}) {
		t.Errorf("%+v, %v", next, err)
	}
	for n := range row {
		if _, err := parseTurn(row[:n]); err == nil {
			t.Errorf("%d bytes of it are taken", n)
		}
	}
	if _, err := parseTurn([]byte("\x00\x02\xff\xff\xff\xff\xff\xff\xff\xff")); err == nil {
		t.Error("nulls are taken")
	}
}
