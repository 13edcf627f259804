package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func noneCounts(string) bool { return false }

// A mirror does what every Store does, and its places have the same content afterwards.
func TestMirror(t *testing.T) {
	s := testdb.SSH(t)
	dir := t.TempDir()
	urls := []string{dir, sftpURL(s, "mirror", s.Key, known(t, s, s.HostKey))}
	conform(t, func(t *testing.T) Store {
		return NewMirror([]Store{opened(t, urls[0]), opened(t, urls[1])}, noneCounts)
	})
	for i := range opened(t, urls[0]).List(t.Context(), "") {
		a, err := os.ReadFile(filepath.Join(dir, i.Name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(s.Dir, "mirror", i.Name))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v", i.Name, err)
		}
	}
}

// putAll writes an object in pieces, and calls then before each.
func putAll(ctx context.Context, s Store, name string, mode Mode, pieces int, then func(n int)) error {
	o, err := s.Create(ctx, name, mode)
	if err != nil {
		return err
	}
	defer o.Abort()
	for n := range pieces {
		then(n)
		if _, err := o.Write(bytes.Repeat([]byte{byte(n)}, 100_000)); err != nil {
			return err
		}
	}
	return o.Commit()
}

// A place that is killed during a write is lost, and the other continues; if the other fails too,
// the error is reported.
func TestMirrorLosesAPlace(t *testing.T) {
	s := testdb.OwnSSH(t)
	dir := filepath.Join(t.TempDir(), "a")
	far, err := Open(t.Context(), sftpURL(s, "lost", s.Key, known(t, s, s.HostKey)), Options{Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	m := NewMirror([]Store{far, opened(t, dir)}, noneCounts)
	nothing := func(int) {}
	if err := putAll(t.Context(), m, "packs/1", New, 5, nothing); err != nil {
		t.Fatal(err)
	}
	if err := putAll(t.Context(), m, "packs/2", New, 50, func(n int) {
		if n == 20 {
			s.Kill(t)
			// The connection has its own process.
			_ = unwrapped(far).(*remote).client.conn.Close()
		}
	}); err != nil {
		t.Fatalf("a lost place ends it all: %v", err)
	}
	if err := putAll(t.Context(), m, "packs/3", New, 1, nothing); err != nil {
		t.Fatal(err)
	}
	shares := m.Shares()
	if shares[0].Lost == nil || shares[1].Lost != nil || m.IsLost(1) {
		t.Fatalf("lost are %v and %v", shares[0].Lost, shares[1].Lost)
	}
	if shares[1].Written != 56*100_000 || shares[0].Written >= shares[1].Written {
		t.Errorf("%d and %d bytes were written", shares[0].Written, shares[1].Written)
	}
	for n, size := range []int64{5, 50, 1} {
		if i, err := m.Stat(t.Context(), fmt.Sprintf("packs/%d", n+1)); err != nil || i.Size != size*100_000 {
			t.Errorf("%+v: %v", i, err)
		}
	}
	// The lost place shows nothing of what was under way.
	if _, err := os.Stat(filepath.Join(s.Dir, "lost", "packs", "2")); !os.IsNotExist(err) {
		t.Errorf("half of an object is there: %v", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // the folder is gone
		t.Fatal(err)
	}
	if err := putAll(t.Context(), m, "packs/4", New, 20, nothing); err == nil || m.IsLost(1) {
		t.Errorf("the last place cannot be written, and is not heard of: %v", err)
	}
}

// A slow place receives everything too, and Shares shows which one it is.
func TestMirrorWithASlowPlace(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	m := NewMirror([]Store{opened(t, a), sleepy{opened(t, b)}}, noneCounts)
	if err := putAll(t.Context(), m, "packs/1", New, 100, func(int) {}); err != nil {
		t.Fatal(err)
	}
	fast, slow := m.Shares()[0], m.Shares()[1]
	if fast.Written != 10_000_000 || slow.Written != fast.Written || fast.Lost != nil || slow.Lost != nil {
		t.Errorf("%+v and %+v", fast, slow)
	}
	if slow.IO < 100*nap || fast.Wait <= 0 {
		t.Errorf("the slow one wrote for %s, and the fast one waited for %s", slow.IO, fast.Wait)
	}
	for _, s := range []Share{fast, slow} {
		if s.Life < s.IO+s.Wait {
			t.Errorf("more time was used than there was: %+v", s)
		}
	}
}

const nap = 2 * time.Millisecond

// A sleepy store sleeps in each write.
type sleepy struct{ Store }

func (s sleepy) Create(ctx context.Context, name string, mode Mode) (Object, error) {
	o, err := s.Store.Create(ctx, name, mode)
	return sleepyObject{o}, err
}

type sleepyObject struct{ Object }

func (o sleepyObject) Write(b []byte) (int, error) {
	time.Sleep(nap)
	return o.Object.Write(b)
}

// A name that only one place rejects loses only that place; an object that must be everywhere does
// not exist if one place lacks it.
func TestMirrorOfUnequalPlaces(t *testing.T) {
	a, b := opened(t, t.TempDir()), opened(t, t.TempDir())
	m := NewMirror([]Store{a, b}, func(name string) bool { return strings.HasPrefix(name, "backups/") })
	nothing := func(int) {}
	for name, in := range map[string]Store{"backups/old": a, "packs/old": a, "packs/contested": b} {
		if err := putAll(t.Context(), in, name, New, 1, nothing); err != nil {
			t.Fatal(err)
		}
	}
	list := func() string {
		var names []string
		for i, err := range m.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, i.Name)
		}
		return strings.Join(names, " ")
	}
	if got := list(); got != "packs/old packs/contested" {
		t.Errorf("there are %s", got)
	}
	if _, err := m.Stat(t.Context(), "backups/old"); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("what one place has not is there: %v", err)
	}
	r, err := m.Read(t.Context(), "packs/contested", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || len(text) != 100_000 {
		t.Errorf("%d bytes: %v", len(text), err)
	}
	r.Close()
	if err := putAll(t.Context(), m, "packs/contested", New, 2, nothing); err != nil || !m.IsLost(1) || m.IsLost(0) {
		t.Errorf("lost are %v, %v: %v", m.IsLost(0), m.IsLost(1), err)
	}
	if got := list(); got != "backups/old packs/contested packs/old" {
		t.Errorf("there are %s", got)
	}
	// A cancelled context loses no place.
	ctx, cancel := context.WithCancel(t.Context())
	two := NewMirror([]Store{a, b}, noneCounts)
	if err := putAll(ctx, two, "packs/cut", New, 10, func(n int) {
		if n == 5 {
			cancel()
		}
	}); tidemark.KindOf(err) != tidemark.Cancelled || two.IsLost(0) || two.IsLost(1) {
		t.Errorf("%v; lost are %v, %v", err, two.IsLost(0), two.IsLost(1))
	}
}
