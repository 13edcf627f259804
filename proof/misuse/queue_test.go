package misuse

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// relaying starts a relay, and gives the --queue for it.
func relaying(t *testing.T) string {
	t.Helper()
	dir, addr := t.TempDir(), testdb.FreeAddress(t)
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("a9c1e0b7d3f24658"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := testdb.Start(t, "relay", "--listen", addr, "--dir", filepath.Join(dir, "queues"), "--secret-file", secret)
	soon(t, "the relay listens", func() bool { return strings.Contains(p.Text(), "listening on") })
	return "relay:" + addr + "?secret-file=" + secret
}

// queues are those that two streams can have in common.
func queues(t *testing.T) map[string]func(t *testing.T) string {
	t.Helper()
	all := map[string]func(t *testing.T) string{"relay": relaying}
	if testdb.Long() {
		all["kafka"] = func(t *testing.T) string {
			b := testdb.Kafka(t)
			return fmt.Sprintf("kafka://%s:%s@%s:%d?sasl=scram-sha-256", b.User, b.Password, b.Host, b.SASLPort)
		}
	}
	return all
}

// refused runs a command that must end with a code, and whose hint has a text.
func refused(t *testing.T, code int, hint string, args ...string) {
	t.Helper()
	o := run(t, args...)
	if _, got, _ := strings.Cut(o.ErrOut, "hint: "); o.Code != code || !strings.Contains(got, hint) {
		t.Errorf("%s: exit %d, want %d and a hint with %q\n%s", strings.Join(args, " "), o.Code, code, hint, o.ErrOut)
	}
}

// hasOrders compares a target with what the source has.
func hasOrders(t *testing.T, src, dst string) {
	t.Helper()
	if got, want := testdb.Query(t, dst, allOrders), testdb.Query(t, src, allOrders); got != want {
		t.Errorf("the target has %q, want %q", got, want)
	}
}

// slotsOf lists the slots of streams in a database.
func slotsOf(t *testing.T, db string) string {
	t.Helper()
	return testdb.Query(t, db, "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE 'tidemark_%' AND database = current_database()")
}

// TestOneQueueForTwoStreams begins a second stream with the name and the queue of another one, in
// each way. It is refused, and takes nothing from the queue; with another name, as the hint says,
// it works.
func TestOneQueueForTwoStreams(t *testing.T) {
	t.Parallel()
	for kind, queue := range queues(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, other, name := testdb.Postgres(t, 15), testdb.Postgres(t, 16), streamName()
			a, b := full(t, s), full(t, other)
			toA, toB := s.NewDatabase(t, "dsta"), other.NewDatabase(t, "dstb")
			in := []string{"--name", name, "--queue", queue(t), "--until", "now"}
			of := func(verb, src, dst string, more ...string) []string {
				return append(append([]string{verb, src, dst}, in...), more...)
			}
			waits := testdb.Start(t, of("apply", b, toB)...) // before there is a queue
			soon(t, "it waits", func() bool { return strings.Contains(waits.Text(), "waits for tidemark capture") })
			testdb.Must(t, of("capture", a, toA)...)
			if code := waits.Wait(); code != 8 || !strings.Contains(waits.Text(), "another --name") {
				t.Errorf("an apply that waited: exit %d, want 8\n%s", code, waits.Text())
			}
			testdb.Query(t, a, "INSERT INTO orders VALUES (4, 'of a')")
			testdb.Must(t, of("capture", a, toA)...)

			refused(t, 8, "another --name", of("apply", b, toB)...)
			refused(t, 8, "another --name", otherState(t, of("apply", b, toB)...)...)
			refused(t, 8, "another --name", of("apply", b, toB, "--no-copy")...)
			refused(t, 8, "another --name", otherState(t, of("capture", b, toB)...)...)
			refused(t, 8, "another --name", otherState(t, of("replicate", b, toB)...)...)
			refused(t, 17, "another --name", "replicate", b, toB, "--name", name)
			if got := slotsOf(t, b) + tables(t, toB); got != "" {
				t.Errorf("the second stream has left %s", got)
			}
			if o := run(t, otherState(t, of("capture", b, toB, "--remove")...)...); o.Code != 6 {
				t.Errorf("removed, which is not there: exit %d, want 6\n%s", o.Code, o.ErrOut)
			}
			testdb.Must(t, of("apply", a, toA)...)
			hasOrders(t, a, toA)

			in[1] = streamName()
			testdb.Must(t, of("capture", b, toB)...)
			testdb.Must(t, of("apply", b, toB)...)
			hasOrders(t, b, toB)
			testdb.Must(t, of("capture", b, toB, "--remove")...)
		})
	}
}

// TestQueueOfAnEarlierStream begins a capture again, whose queue then has a stream that its apply
// does not know; and in another catalogue, as after the loss of the first one. What the hints say
// works.
func TestQueueOfAnEarlierStream(t *testing.T) {
	t.Parallel()
	for kind, queue := range queues(t) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := testdb.Postgres(t, 15)
			src, dst := full(t, s), s.NewDatabase(t, "dst")
			in := []string{src, dst, "--name", streamName(), "--queue", queue(t), "--until", "now"}
			capture, apply := append([]string{"capture"}, in...), append([]string{"apply"}, in...)
			testdb.Must(t, capture...)
			testdb.Must(t, apply...)
			testdb.Must(t, append(capture, "--anew")...)
			testdb.Query(t, src, "INSERT INTO orders VALUES (5, 'anew')")
			testdb.Must(t, capture...)
			refused(t, 8, "begin apply again with --anew", apply...)
			testdb.Must(t, append(apply, "--anew", "--prep", "truncate")...)
			hasOrders(t, src, dst)

			other := otherState(t, capture...)
			refused(t, 8, "--anew", other...)
			testdb.Must(t, append(other, "--anew")...)
			refused(t, 8, "begin apply again with --anew", apply...)
			refused(t, 8, "--anew", capture...) // by the first catalogue
			testdb.Must(t, append(apply, "--anew", "--prep", "truncate")...)
			testdb.Query(t, src, "INSERT INTO orders VALUES (6, 'other')")
			testdb.Must(t, other...)
			testdb.Must(t, apply...)
			hasOrders(t, src, dst)
			// The first catalogue removes its stream, and leaves the queue to the other one.
			testdb.Query(t, src, "INSERT INTO orders VALUES (7, 'still')")
			testdb.Must(t, other...)
			testdb.Must(t, append(capture, "--remove")...)
			testdb.Must(t, apply...)
			hasOrders(t, src, dst)
		})
	}
}

// TestOneFolderForTwoStreams gives two catalogues' streams of one name the same folder for their
// queue.
func TestOneFolderForTwoStreams(t *testing.T) {
	t.Parallel()
	s, other := testdb.Postgres(t, 15), testdb.Postgres(t, 16)
	a, b := full(t, s), full(t, other)
	toA, toB := s.NewDatabase(t, "dsta"), other.NewDatabase(t, "dstb")
	in := []string{"--name", streamName(), "--queue", "durable", "--queue-dir", filepath.Join(t.TempDir(), "queue"), "--until", "now"}
	first := append([]string{"replicate", a, toA}, in...)
	second := otherState(t, append([]string{"replicate", b, toB}, in...)...)
	testdb.Must(t, first...)
	testdb.Query(t, a, "INSERT INTO orders VALUES (4, 'of a')")
	testdb.Must(t, first...)
	refused(t, 8, "--queue-dir", second...)
	if got := slotsOf(t, b) + tables(t, toB); got != "" {
		t.Errorf("the second stream has left %s", got)
	}
	testdb.Query(t, a, "INSERT INTO orders VALUES (5, 'of a')")
	testdb.Must(t, first...)
	hasOrders(t, a, toA)

	for i := range second {
		if second[i] == "--queue-dir" {
			second[i+1] += "2"
		}
	}
	testdb.Must(t, second...)
	hasOrders(t, b, toB)
}

// TestQueueOfAnotherDatabase has apply copy from another database than the capture, of the same
// server and of another one.
func TestQueueOfAnotherDatabase(t *testing.T) {
	t.Parallel()
	s := testdb.MariaDB(t)
	src, dst := full(t, s), s.NewDatabase(t, "dst")
	in := []string{dst, "--name", streamName(), "--queue", relaying(t), "--until", "now"}
	testdb.Must(t, append([]string{"capture", src}, in...)...)
	for _, other := range []*testdb.Server{s, testdb.MySQL(t)} {
		refused(t, 8, "another --name", append([]string{"apply", full(t, other)}, in...)...)
		if got := tables(t, dst); got != "" {
			t.Errorf("it has left %s", got)
		}
	}
	testdb.Must(t, append([]string{"apply", src}, in...)...)
	hasOrders(t, src, dst)
}
