package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// conform tests what every Store must do. open returns the same, initially empty place each time.
func conform(t *testing.T, open func(t *testing.T) Store) {
	s := open(t)
	ctx := t.Context()
	put := func(name, text string, mode Mode) error {
		t.Helper()
		o, err := s.Create(ctx, name, mode)
		if err != nil {
			return err
		}
		defer o.Abort()
		for chunk := range slices.Chunk([]byte(text), 7) {
			if _, err := o.Write(chunk); err != nil {
				return err
			}
		}
		return o.Commit()
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	wantKind := func(err error, kind tidemark.Kind) {
		t.Helper()
		if err == nil || tidemark.KindOf(err) != kind {
			t.Fatalf("%v (%v), not %v", err, tidemark.KindOf(err), kind)
		}
	}
	get := func(name string, offset, length int64) string {
		t.Helper()
		r, err := s.Read(ctx, name, offset, length)
		must(err)
		defer r.Close()
		b, err := io.ReadAll(r)
		must(err)
		return string(b)
	}
	list := func(prefix string) string {
		t.Helper()
		sizes := map[string]int64{}
		for i, err := range s.List(ctx, prefix) {
			must(err)
			if _, twice := sizes[i.Name]; twice {
				t.Fatalf("%s is listed twice", i.Name)
			}
			if age := time.Since(i.Time).Abs(); age > time.Hour {
				t.Fatalf("%s is from %s", i.Name, i.Time)
			}
			sizes[i.Name] = i.Size
		}
		var out []string
		for _, name := range slices.Sorted(maps.Keys(sizes)) {
			out = append(out, fmt.Sprintf("%s:%d", name, sizes[name]))
		}
		return strings.Join(out, " ")
	}
	wantList := func(prefix, want string) {
		t.Helper()
		if got := list(prefix); got != want {
			t.Fatalf("under %q there are %q instead of %q", prefix, got, want)
		}
	}

	// Missing objects.
	wantList("", "")
	_, err := s.Stat(ctx, "a/b")
	wantKind(err, tidemark.NotFound)
	_, err = s.Stat(ctx, "a")
	wantKind(err, tidemark.NotFound)
	if r, err := s.Read(ctx, "a/b", 0, -1); err == nil {
		_, err = io.ReadAll(r)
		wantKind(err, tidemark.NotFound)
	} else {
		wantKind(err, tidemark.NotFound)
	}
	wantKind(s.Delete(ctx, "a/b"), tidemark.NotFound)

	// Nothing is visible before its Commit, nor after Abort.
	o, err := s.Create(ctx, "a/b", New)
	must(err)
	_, err = o.Write(bytes.Repeat([]byte("x"), 100_000))
	must(err)
	wantList("", "")
	o.Abort()
	o.Abort()
	wantList("", "")

	// New is refused if the name exists, even if it was created meanwhile; Replace is not.
	late, err := s.Create(ctx, "a/b", New)
	must(err)
	_, err = late.Write([]byte("late"))
	must(err)
	must(put("a/b", "the first text", New))
	wantKind(late.Commit(), tidemark.Exists)
	wantKind(put("a/b", "another", New), tidemark.Exists)
	if got := get("a/b", 0, -1); got != "the first text" {
		t.Fatalf("it was overwritten by %q", got)
	}
	must(put("a/b", "the second text", Replace))
	must(put("locks/1", "", Replace))

	// Reading ranges, and beyond the end.
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, -1, "the second text"}, {4, 6, "second"}, {11, -1, "text"}, {11, 100, "text"}, {15, 5, ""}, {15, -1, ""}, {0, 0, ""}, {3, 0, ""}} {
		if got := get("a/b", c.offset, c.length); got != c.want {
			t.Errorf("%d bytes at %d are %q instead of %q", c.length, c.offset, got, c.want)
		}
	}
	if got := get("locks/1", 0, -1); got != "" {
		t.Errorf("nothing was written, and %q read", got)
	}
	i, err := s.Stat(ctx, "a/b")
	must(err)
	if i.Name != "a/b" || i.Size != 15 || time.Since(i.Time).Abs() > time.Hour {
		t.Errorf("it is %+v", i)
	}

	// Listing by prefix, which may end within a part.
	must(put("a/bc", "1", New))
	must(put("ab", "22", New))
	must(put("b/c/d/e", "333", New))
	wantList("", "a/b:15 a/bc:1 ab:2 b/c/d/e:3 locks/1:0")
	wantList("a", "a/b:15 a/bc:1 ab:2")
	wantList("a/", "a/b:15 a/bc:1")
	wantList("a/b", "a/b:15 a/bc:1")
	wantList("b/c", "b/c/d/e:3")
	wantList("nothing/at/all", "")
	n := 0
	for _, err := range s.List(ctx, "") {
		must(err)
		if n++; n == 2 {
			break // no effect
		}
	}

	// An object of several parts, read at odd places.
	big := make([]byte, 11<<20)
	for i := range big {
		big[i] = byte(i>>16 ^ i>>8 ^ i)
	}
	o, err = s.Create(ctx, "packs/big", New)
	must(err)
	_, err = io.Copy(struct{ io.Writer }{o}, bytes.NewReader(big))
	must(err)
	must(o.Commit())
	o.Abort()
	if got := get("packs/big", 0, -1); got != string(big) {
		t.Fatal("a large object comes back with other bytes")
	}
	if got := get("packs/big", 5<<20-3, 1<<20); got != string(big[5<<20-3:6<<20-3]) {
		t.Fatal("a part of a large object is another")
	}

	// Of ten concurrent writers of one name, one wins.
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for k := range 10 {
		wg.Go(func() {
			err := put("contested/name", fmt.Sprintf("by %d", k), New)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if tidemark.KindOf(err) != tidemark.Exists {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d of ten have written the same name", won)
	}

	// A deleted object is gone, at once and on a second check.
	must(s.Delete(ctx, "a/b"))
	must(s.Delete(ctx, "b/c/d/e"))
	must(s.Delete(ctx, "contested/name"))
	wantKind(s.Delete(ctx, "a/b"), tidemark.NotFound)
	wantList("", "a/bc:1 ab:2 locks/1:0 packs/big:11534336")
	s = open(t)
	wantList("", "a/bc:1 ab:2 locks/1:0 packs/big:11534336")
	must(put("b/c/d/e", "again", New))

	// A cancelled context ends running operations.
	cut, cancel := context.WithCancel(ctx)
	o, err = s.Create(cut, "cut", New)
	must(err)
	_, err = o.Write([]byte("x"))
	must(err)
	cancel()
	if err := o.Commit(); err == nil || tidemark.KindOf(err) != tidemark.Cancelled {
		t.Errorf("a cancelled object was committed: %v", err)
	}
	o.Abort()
	if _, err := s.Stat(ctx, "cut"); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("a cancelled object is there: %v", err)
	}
	for _, name := range []string{"", "/a", "a/", "a//b", "../a", "a/../b", ".hidden", "a b", "ä", "a\\b", "-x", "a."} {
		if _, err := s.Stat(ctx, name); err == nil || tidemark.KindOf(err) != tidemark.Bug {
			t.Errorf("the name %q was taken: %v", name, err)
		}
	}
}

func TestFiles(t *testing.T) {
	root := filepath.Join(t.TempDir(), "not", "there")
	conform(t, func(t *testing.T) Store {
		s, err := Open(t.Context(), "file://"+filepath.ToSlash(root), Options{Meter: new(Meter), Pace: NewPace(1 << 40)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".") {
			t.Errorf("%s was left", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "contested")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder was left: %v", err)
	}
}

// Files of a killed writer are not listed, and are swept once they are old enough.
func TestFilesSweep(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"packs/x/00000001", "top"} {
		o, err := s.Create(t.Context(), name, New)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Write([]byte("half")); err != nil {
			t.Fatal(err)
		} // the writer was killed here
	}
	for i := range s.List(t.Context(), "") {
		t.Errorf("%s is listed", i.Name)
	}
	gone, err := Sweep(t.Context(), s, time.Now().Add(-time.Hour))
	if err != nil || len(gone) != 0 {
		t.Fatalf("what is written now was swept: %v %v", gone, err)
	}
	gone, err = Sweep(t.Context(), s, time.Now().Add(time.Hour))
	if err != nil || len(gone) != 2 {
		t.Fatalf("%v were swept: %v", gone, err)
	}
	left, err := os.ReadDir(strings.TrimPrefix(s.String(), "file://"))
	if err != nil || len(left) != 0 {
		t.Fatalf("%v are left: %v", left, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"":                                  "open repository: no place was given",
		"file:":                             "open repository file:: no folder was given",
		"file://host/x":                     "open repository file://host/x: is not the URL of a folder",
		"gopher://me:secret@place/x":        "open repository gopher://me@place/x: the scheme gopher is not supported",
		"gopher://place/x?password=secret1": "open repository gopher://place/x?password=***: the scheme gopher is not supported",
	} {
		_, err := Open(t.Context(), url, Options{})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", url, err)
		}
	}
	for url, want := range map[string]string{"/a/b": "file:///a/b", "file:///a/b": "file:///a/b", "file:/a/b/": "file:///a/b", "file:///a%20b": "file:///a b", "file://localhost/a": "file:///a"} {
		s, err := Open(t.Context(), url, Options{})
		if err != nil || s.String() != want {
			t.Errorf("%s is %v: %v", url, s, err)
		}
	}
}
