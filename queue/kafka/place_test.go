package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/queue"
)

// givesUp puts records like a writer that dies in the middle of a transaction, or aborts it.
func givesUp(t *testing.T, s *Store, seq uint64, n int, abort bool) {
	t.Helper()
	opts, err := s.addr.client()
	if err != nil {
		t.Fatal(err)
	}
	c, err := kgo.NewClient(append(opts, kgo.TransactionalID(s.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		r := &kgo.Record{Topic: s.topic, Key: keyOf(seq+uint64(i), 1), Value: []byte("given up")}
		if err := c.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if abort {
		if err := c.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	}
}

// Between messages there are aborted transactions, long and short; each message is found by its
// number, wherever the search starts, and the size of the queue is counted exactly.
func TestPlaces(t *testing.T) {
	opt := Options{Queue: "places", URL: urlOf(testdb.Kafka(t))}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	var twin [][]byte // message n is twin[n-1]
	var s *Store
	for range 12 {
		s = open(t, opt)
		givesUp(t, s, uint64(len(twin)+1), 1+rnd.IntN(30), rnd.IntN(2) == 0)
		for range 1 + rnd.IntN(3) {
			var some [][]byte
			for range 1 + rnd.IntN(5) {
				some = append(some, []byte(fmt.Sprintf("%d %s", len(twin)+len(some)+1, strings.Repeat("x", rnd.IntN(2000)))))
			}
			if n, err := s.Put(t.Context(), uint64(len(twin)+1), some); err != nil || n != len(some) {
				t.Fatal(n, err)
			}
			twin = append(twin, some...)
		}
	}
	givesUp(t, s, uint64(len(twin)+1), 30, true)
	givesUp(t, s, uint64(len(twin)+1), 30, false)
	first := uint64(1)
	for range 3 {
		s := open(t, opt)
		var bytes int64
		for _, b := range twin[first-1:] {
			bytes += int64(len(b))
		}
		if st, err := s.State(t.Context()); err != nil || st.First != first || st.Last != uint64(len(twin)) || st.Bytes != bytes {
			t.Fatalf("%+v, %v; messages %d to %d are there, of %d bytes", st, err, first, len(twin), bytes)
		}
		for _, i := range rnd.Perm(len(twin) + 2) {
			b, err := s.Get(t.Context(), uint64(i))
			switch {
			case uint64(i) < first || i > len(twin):
				if err != queue.ErrMissing {
					t.Fatalf("message %d, which is not there, is %q, %v", i, b, err)
				}
			case err != nil || string(b) != string(twin[i-1]):
				t.Fatalf("message %d is %.20q, %v", i, b, err)
			}
		}
		first += uint64(rnd.IntN(len(twin) / 3))
		if err := open(t, opt).Purge(t.Context(), first); err != nil {
			t.Fatal(err)
		}
	}
}

// From its beginning a writer is the only one, even if the one before it has an unfinished
// transaction; and one that looked before another wrote has to look again.
func TestWriters(t *testing.T) {
	opt := Options{Queue: "writers", URL: urlOf(testdb.Kafka(t))}
	a, b, c := open(t, opt), open(t, opt), open(t, opt)
	put := func(s *Store, seq uint64, text string) error {
		_, err := s.Put(t.Context(), seq, [][]byte{[]byte(text)})
		return err
	}
	if err := put(a, 1, "a1"); err != nil {
		t.Fatal(err)
	}
	if err := a.producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := a.producer.ProduceSync(t.Context(), &kgo.Record{Topic: a.topic, Key: keyOf(2, 4), Value: []byte("a2")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := put(b, 2, "b2"); err != nil {
		t.Fatal(err)
	}
	if err := a.producer.EndTransaction(t.Context(), kgo.TryCommit); !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
		t.Fatalf("a writer that was fenced off has committed, or: %v", err)
	}
	if err := put(c, 2, "c2"); tidemark.KindOf(err) != tidemark.Transient || !strings.Contains(err.Error(), "message 2 was to be the next one, and 2 is the last") {
		t.Fatal(err)
	}
	if err := put(c, 3, "c3"); err != nil {
		t.Fatal(err)
	}
	if err := put(b, 3, "b3"); err != queue.ErrFenced {
		t.Fatal(err)
	}
	for seq, want := range map[uint64]string{1: "a1", 2: "b2", 3: "c3"} {
		if got, err := open(t, opt).Get(t.Context(), seq); err != nil || string(got) != want {
			t.Errorf("message %d is %q, %v", seq, got, err)
		}
	}
}

// A record that another process writes to the topic is found before anything is committed after it,
// and by readers.
func TestForeignRecord(t *testing.T) {
	opt := Options{Queue: "foreign", URL: urlOf(testdb.Kafka(t))}
	s := open(t, opt)
	if _, err := s.Put(t.Context(), 1, [][]byte{[]byte("ours")}); err != nil {
		t.Fatal(err)
	}
	if err := s.asks.ProduceSync(t.Context(), &kgo.Record{Topic: s.topic, Value: []byte("not ours")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Put(t.Context(), 2, [][]byte{[]byte("ours")})
	wantError(t, err, tidemark.Corrupt, "another process writes to the topic")
	_, err = Open(t.Context(), opt)
	wantError(t, err, tidemark.Corrupt, "the record at offset 2 is not a message of a queue: another process writes to the topic")
}

// A topic is removed, or removed and created again, while it is used.
func TestRemoved(t *testing.T) {
	opt := Options{Queue: "removed", URL: urlOf(testdb.Kafka(t))}
	for _, again := range []bool{false, true} {
		s := open(t, opt)
		if n, err := s.Put(t.Context(), 1, [][]byte{[]byte("one"), []byte("two")}); err != nil || n != 2 {
			t.Fatal(n, err)
		}
		if err := Remove(t.Context(), opt); err != nil {
			t.Fatal(err)
		}
		if again {
			if st, err := open(t, opt).State(t.Context()); err != nil || st.Last != 0 || st.First != 1 {
				t.Fatalf("%+v, %v", st, err)
			}
		}
		_, err := s.Get(t.Context(), 1)
		wantError(t, err, tidemark.Lost, "")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		_, err = s.Put(ctx, 3, [][]byte{[]byte("three")})
		cancel()
		wantError(t, err, tidemark.Lost, "")
		if !again {
			if err := Remove(t.Context(), opt); err != nil {
				t.Fatalf("what is not there cannot be removed: %v", err)
			}
		}
	}
}

func wantError(t *testing.T, err error, kind tidemark.Kind, text string) {
	t.Helper()
	if tidemark.KindOf(err) != kind || err == nil || !strings.Contains(err.Error(), text) || tidemark.HintOf(err) == "" && kind != tidemark.Denied && kind != tidemark.Unreachable {
		t.Fatalf("the error is %v (%v; %s); one of kind %v with %q was expected", err, tidemark.KindOf(err), tidemark.HintOf(err), kind, text)
	}
}
