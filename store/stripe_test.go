package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// byHash spreads names over n places.
func byHash(n int) func(string) int {
	return func(name string) int { return int(crc32.ChecksumIEEE([]byte(name)) % uint32(n)) }
}

// A stripe does what every Store does, with all names spread, with some, and with those of one
// place.
func TestStripe(t *testing.T) {
	for _, spread := range [][]string{{""}, {"a/", "packs/"}, {"b/c/d"}} {
		dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
		conform(t, func(t *testing.T) Store {
			return NewStripe([]Store{opened(t, dirs[0]), opened(t, dirs[1]), opened(t, dirs[2])}, spread, byHash(3))
		})
	}
}

// last returns the place that is the last digit of a name.
func last(name string) int { return int(name[len(name)-1] - '0') }

// CreateReady gives each place as much as it can handle: here one place accepts nothing until the
// other has received all the rest.
func TestStripeGivesToWhoIsReady(t *testing.T) {
	held := &holding{Store: opened(t, t.TempDir()), let: make(chan struct{})}
	s := NewStripe([]Store{held, opened(t, t.TempDir())}, []string{"packs/"}, last)
	var mu sync.Mutex
	n := 0
	put := func() (place int, err error) {
		o, err := s.CreateReady(t.Context(), func(p int) string {
			mu.Lock()
			defer mu.Unlock()
			n++
			place = p
			return fmt.Sprintf("packs/%d-%d", n, p)
		})
		if err != nil {
			return place, err
		}
		defer o.Abort()
		if _, err := o.Write(make([]byte, 1000)); err != nil {
			return place, err
		}
		return place, o.Commit()
	}
	slow := make(chan error, 1)
	go func() {
		place, err := put()
		if place != 0 {
			err = errors.Join(err, errors.New("the first pack is not in the first place"))
		}
		slow <- err
	}()
	for begun := time.Now(); held.waiting() == 0; time.Sleep(time.Millisecond) {
		if time.Since(begun) > 5*time.Minute {
			t.Fatal("nobody writes to the first place")
		}
	}
	for range 20 {
		if place, err := put(); err != nil || place != 1 {
			t.Fatalf("a pack went to place %d, which is busy: %v", place, err)
		}
	}
	close(held.let)
	if err := testdb.From(t, "the pack in the first place", slow); err != nil {
		t.Fatal(err)
	}
	shares := s.Shares()
	if shares[0].Written != 1000 || shares[1].Written != 20_000 {
		t.Errorf("%d and %d bytes were written", shares[0].Written, shares[1].Written)
	}
	for _, x := range shares {
		if x.IO <= 0 || x.Life < x.IO || x.Life != x.IO+x.Wait {
			t.Errorf("its times do not add up: %+v", x)
		}
	}
	if shares[0].IO < shares[1].IO {
		t.Errorf("the place that stood still has worked for %s, and the other for %s", shares[0].IO, shares[1].IO)
	}
}

// holding blocks all objects' bytes until let is closed.
type holding struct {
	Store
	let chan struct{}

	mu   sync.Mutex
	wait int
}

func (s *holding) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wait
}

func (s *holding) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	o, err := s.Store.Create(ctx, name, mode)
	return &heldObject{o, s}, err
}

type heldObject struct {
	Object
	s *holding
}

func (o *heldObject) Write(b []byte) (int, error) {
	o.s.mu.Lock()
	o.s.wait++
	o.s.mu.Unlock()
	<-o.s.let
	return o.Object.Write(b)
}

// An object in another place than its name tells does not exist, and Strays returns it. An error
// names its place.
func TestStripeOfStrays(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	s := NewStripe([]Store{opened(t, dirs[0]), opened(t, dirs[1])}, []string{"packs/"}, last)
	ctx, nothing := t.Context(), func(int) {}
	for _, name := range []string{"packs/0", "packs/1", "locks/1"} {
		if err := putAll(ctx, s, name, New, 1, nothing); err != nil {
			t.Fatal(err)
		}
	}
	for dir, names := range map[string]string{dirs[0]: "locks/1 packs/0", dirs[1]: "packs/1"} {
		var got []string
		for i := range opened(t, dir).List(ctx, "") {
			got = append(got, i.Name)
		}
		if strings.Join(got, " ") != names {
			t.Errorf("%s has %v", dir, got)
		}
	}
	if err := putAll(ctx, opened(t, dirs[0]), "packs/3-1", New, 1, nothing); err != nil {
		t.Fatal(err)
	}
	for i := range s.List(ctx, "packs/3") {
		t.Errorf("%s is listed", i.Name)
	}
	strays, err := s.Strays(ctx)
	if err != nil || len(strays) != 1 || strays[0].Name != "packs/3-1" || strays[0].In != s.Places()[0] || strays[0].Belongs != s.Places()[1] {
		t.Errorf("%+v: %v", strays, err)
	}

	if err := os.RemoveAll(dirs[1]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dirs[1], nil, 0o600); err != nil { // the folder is gone
		t.Fatal(err)
	}
	err = putAll(ctx, s, "packs/5-1", New, 1, nothing)
	if want := "place 2 of 2, file://" + filepath.ToSlash(dirs[1]) + ": "; err == nil || !strings.HasPrefix(err.Error(), want) || tidemark.KindOf(err) != tidemark.Invalid || tidemark.HintOf(err) == "" {
		t.Errorf("%v does not begin with %q", err, want)
	}
}
