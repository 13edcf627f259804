package repo

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// fuzzed makes a repository in a folder with one backup.
func fuzzed(f *testing.F) (dir string, r *Repo, m *Manifest) {
	dir = f.TempDir()
	s := must(store.Open(f.Context(), dir, store.Options{}))
	r = must(Create(f.Context(), s, Keys{}))
	m, _, err := backUp(f.Context(), r, "", "zstd:1", 1)
	if err != nil {
		f.Fatal(err)
	}
	return dir, r, must(r.Manifest(f.Context(), m.ID))
}

// sensible fails if an error is not one of those for damage.
func sensible(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil && !IsDamage(err) && tidemark.KindOf(err) != tidemark.Lost {
		t.Errorf("%s: %v, %v", what, tidemark.KindOf(err), err)
	}
}

// Any manifest is read in bounded memory, or rejected as damage; so are the files it lists.
func FuzzManifest(f *testing.F) {
	_, r, m := fuzzed(f)
	f.Add(must(json.Marshal(m)))
	f.Add([]byte(`{"format":1,"id":"` + m.ID + `","lists":[[0,0,4294967295,4294967295,0,0,1]],"packs":[{"number":0,"size":-1}],"files":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := r.writeObject(t.Context(), manifestName(m.ID), store.Replace, text); err != nil {
			t.Fatal(err)
		}
		got, err := r.Manifest(t.Context(), m.ID)
		sensible(t, "manifest", err)
		if err != nil {
			return
		}
		for file, err := range r.Files(t.Context(), got) {
			sensible(t, "files", err)
			if err == nil && (file.Size < 0 || filepath.IsAbs(string(file.Path)) || !filepath.IsLocal(string(file.Path))) {
				t.Errorf("%+v", file)
			}
		}
		_, err = r.Chain(t.Context(), m.ID)
		sensible(t, "chain", err)
	})
}

// Any line of a list parses to sizes that a restore can trust.
func FuzzListedFile(f *testing.F) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		f.Add(must(json.Marshal(randomFile(rnd))))
	}
	f.Add([]byte(`{"path":"../x","size":1,"mode":384,"mtime":0}`))
	f.Add([]byte(`{"path":"x","size":-5,"mode":384,"mtime":0,"extents":[[-1,4294967295,4294967295,[0,-1,4294967295,4294967295,0,0,0]]]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var p fileParser
		file, err := p.parse(line)
		if err != nil || file.check() != nil {
			return
		}
		if file.Size < 0 || !filepath.IsLocal(string(file.Path)) {
			t.Errorf("%+v", file)
		}
		for _, e := range file.Extents {
			if e.At < 0 || e.Ref.Plain > MaxPiece || e.Ref.Stored > 2*MaxPiece || e.Ref.Offset < 0 || int64(e.Skip)+int64(e.Length) > int64(e.Ref.Plain) {
				t.Errorf("%+v", e)
			}
		}
	})
}

// With any configuration, the repository is opened or rejected.
func FuzzConfig(f *testing.F) {
	dir, _, _ := fuzzed(f)
	file := filepath.Join(dir, configName)
	f.Add(must(os.ReadFile(file)))
	f.Add([]byte(`{"format":1,"cipher":"AES-256-GCM","id":"00"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s := must(store.Open(t.Context(), dir, store.Options{}))
		defer s.Close()
		r, err := Open(t.Context(), s, Keys{})
		if err == nil {
			_, err = r.Backups(t.Context())
		}
		if tidemark.KindOf(err) == tidemark.Bug && err != nil {
			t.Error(err)
		}
	})
}

// Any object is read or rejected as damage.
func FuzzObject(f *testing.F) {
	dir, r, m := fuzzed(f)
	file := filepath.Join(dir, filepath.FromSlash(manifestName(m.ID)))
	text := must(os.ReadFile(file))
	f.Add(text)
	f.Add(text[:headerSize])
	f.Add(text[:len(text)/2])
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := r.Manifest(t.Context(), m.ID)
		sensible(t, "manifest", err)
	})
}
