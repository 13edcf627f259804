package dump_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/klauspost/compress/zstd"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/dump"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/store"
)

// words is an engine with constant statements.
type words struct{}

func (words) Script(objects []tidemark.Object) []byte {
	var b bytes.Buffer
	for _, o := range objects {
		for _, s := range o.SQL {
			b.WriteString(s + ";\n")
		}
	}
	return b.Bytes()
}

func (words) LoadStatements(m *tidemark.Move, _ *tidemark.Range) []string {
	return []string{"COPY " + m.To.String() + " FROM STDIN"}
}

// feed returns batches, and invalidates each after use.
func feed(r *tidemark.Range, texts ...string) func() (*tidemark.Batch, error) {
	return func() (*tidemark.Batch, error) {
		b := tidemark.NewBatch(r, tidemark.CopyText)
		if len(texts) > 0 {
			b.Data, b.Rows = append(b.Data, texts[0]...), strings.Count(texts[0], "\n")
			texts = texts[1:]
		}
		b.Last = len(texts) == 0
		return b, nil
	}
}

// begin begins a backup in a folder.
func begin(t *testing.T, place string, keys repo.Keys) (*repo.Repo, *repo.Writer) {
	t.Helper()
	s, err := store.Open(t.Context(), place, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := repo.OpenOrCreate(t.Context(), s, keys)
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.Begin(t.Context(), repo.BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// made is a backup of two tables, one of them empty and one with an object of more than one frame.
func made(t *testing.T, place string, keys repo.Keys) (*repo.Repo, *repo.Manifest, *tidemark.Database) {
	t.Helper()
	ctx := context.Background()
	r, w := begin(t, place, keys)
	table := func(name string) *tidemark.Table {
		return &tidemark.Table{TableID: tidemark.TableID{Schema: "public", Name: name}, Columns: []tidemark.Column{{Name: "id", Type: tidemark.Type{Kind: tidemark.Int, Bits: 32, Native: "integer"}, NotNull: true}}}
	}
	db := &tidemark.Database{Engine: "postgres", Version: "15.18", Major: 15, Name: "shop", Tables: []*tidemark.Table{table("order lines/ä"), table("empty")},
		Objects: []tidemark.Object{{ID: "table a", Kind: "table", SQL: []string{"CREATE TABLE a()"}, Depends: []string{}},
			{ID: "index a", Kind: "index", Phase: tidemark.AfterTable, SQL: []string{"CREATE INDEX ON a"}, Depends: []string{"table a"}}},
		Findings: []tidemark.Finding{{Severity: tidemark.Note, Text: "seen"}}}
	var moves []tidemark.Move
	for _, t := range db.Tables {
		moves = append(moves, tidemark.Move{From: t, To: t, Source: []string{"id"}, Direct: true})
	}
	d := dump.NewWriter(w, r.Encrypted(), 3)
	first, second := &tidemark.Range{ID: 1, Move: 0}, &tidemark.Range{ID: 2, Move: 1}
	if _, err := d.Write(ctx, 0, tidemark.Write{Move: &moves[0], Range: first}, feed(first, "1\n2\n", "3\n", "")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write(ctx, 0, tidemark.Write{Move: &moves[1], Range: second}, feed(second)); err != nil {
		t.Fatal(err)
	}
	identity, err := r.WrappedIdentity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Finish(ctx, dump.Content{Database: db, Position: tidemark.Position{Engine: "postgres", Text: "0/1949A28"}, Moves: moves, Objects: db.Objects, Script: words{}, Identity: identity}); err != nil {
		t.Fatal(err)
	}
	m, err := w.Publish(ctx, repo.Manifest{Form: repo.Logical, Engine: "postgres", Bytes: d.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	return r, m, db
}

// files returns the objects of a backup in a folder.
func files(t *testing.T, place, id string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(filepath.Join(place, "dumps", id), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		out[path] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What was written is read, in plain repositories and in encrypted ones.
func TestDumpIsRead(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string]repo.Keys{"open": {}, "encrypted": {Recipients: []string{id.Recipient().String()}, Identities: id.String()}} {
		t.Run(name, func(t *testing.T) {
			ctx, place := context.Background(), t.TempDir()
			r, m, db := made(t, place, keys)
			if m.Bytes != 6 || m.Stored == 0 {
				t.Errorf("%d bytes, %d stored", m.Bytes, m.Stored)
			}
			d, err := dump.Open(ctx, r, m)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(d.Database, db) {
				t.Errorf("got\n%+v\nwant\n%+v", d.Database, db)
			}
			if len(d.Moves) != 2 || d.Moves[0].From != d.Database.Tables[0] || len(d.Rows) != 1 || d.Rows[0].Rows != 3 || d.Rows[0].Range.ID != 1 || d.Position.Text != "0/1949A28" {
				t.Fatalf("got %+v", d)
			}
			in, err := d.Read(ctx, &d.Rows[0])
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			if text, err := io.ReadAll(in); err != nil || string(text) != "1\n2\n3\n" {
				t.Errorf("got %q, %v", text, err)
			}
			for path, text := range files(t, place, m.ID) {
				seen := bytes.Contains(text, []byte("order lines")) || strings.Contains(path, "order-lines")
				if open := name == "open"; seen && !open {
					t.Errorf("%s tells names", path)
				}
				if strings.HasSuffix(path, "README.txt") && !bytes.Contains(text, []byte("CLIENT='psql")) {
					t.Errorf("the readme is\n%s", text)
				}
			}
		})
	}
}

// A person with the key opens the objects with age alone.
func TestDumpIsOpenedByHand(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	place := t.TempDir()
	_, m, _ := made(t, place, repo.Keys{Recipients: []string{id.Recipient().String()}, Identities: id.String()})
	open := func(path string, with age.Identity) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(place, "dumps", m.ID, path))
		if err != nil {
			t.Fatal(err)
		}
		in, err := age.Decrypt(dearmored(text), with)
		if err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	inner, err := age.ParseIdentities(strings.NewReader(open("identity.age", id)))
	if err != nil {
		t.Fatal(err)
	}
	if shell := open("restore.sh.age", inner[0]); !strings.Contains(shell, "load data/000001-0000.zst.age 'COPY public.order lines/ä FROM STDIN'") {
		t.Errorf("the script is\n%s", shell)
	}
}

// Every reader notices each flipped bit of each object.
func TestDamagedDump(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string]repo.Keys{"open": {}, "encrypted": {Recipients: []string{id.Recipient().String()}, Identities: id.String()}} {
		t.Run(name, func(t *testing.T) {
			ctx, place := context.Background(), t.TempDir()
			r, m, _ := made(t, place, keys)
			read := func() error {
				for f, err := range r.Files(ctx, m) {
					if err != nil {
						return err
					}
					in, err := r.OpenPlain(ctx, m, f)
					if err != nil {
						return err
					}
					_, err = io.Copy(io.Discard, in)
					if err := errors.Join(err, in.Close()); err != nil {
						return err
					}
				}
				return nil
			}
			if err := read(); err != nil {
				t.Fatal(err)
			}
			for path, text := range files(t, place, m.ID) {
				for _, at := range []int{0, len(text) / 2, len(text) - 1, len(text)} {
					broken := bytes.Clone(text)
					if at == len(text) {
						broken = append(broken, 'x')
					} else {
						broken[at] ^= 4
					}
					for _, b := range [][]byte{broken, text[:at]} {
						if bytes.Equal(b, text) {
							continue
						}
						if err := os.WriteFile(path, b, 0o600); err != nil {
							t.Fatal(err)
						}
						if err := read(); err == nil || tidemark.KindOf(err) != tidemark.Corrupt || !strings.Contains(err.Error(), filepath.Base(path)) {
							t.Errorf("%s with byte %d of %d changed: %v", path, at, len(text), err)
						}
					}
				}
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A range that failed is written again, and its rows are in the backup once.
func TestRangeIsWrittenAgain(t *testing.T) {
	ctx, place := context.Background(), t.TempDir()
	r, w := begin(t, place, repo.Keys{})
	table := &tidemark.Table{TableID: tidemark.TableID{Name: "big"}}
	m, at := &tidemark.Move{From: table, To: table}, &tidemark.Range{ID: 7}
	d := dump.NewWriter(w, false, 1)
	line := strings.Repeat("x", 1<<20-1) + "\n"
	var texts []string
	for range 130 {
		texts = append(texts, line)
	}
	cut, n := errors.New("the server is gone"), 0
	next := feed(at, texts...)
	_, err := d.Write(ctx, 0, tidemark.Write{Move: m, Range: at}, func() (*tidemark.Batch, error) {
		if n++; n > 100 {
			return nil, cut
		}
		return next()
	})
	if err != cut {
		t.Fatal(err)
	}
	if _, err := d.Write(ctx, 0, tidemark.Write{Move: m, Range: at}, feed(at, texts...)); err != nil {
		t.Fatal(err)
	}
	db := &tidemark.Database{Engine: "mariadb", Tables: []*tidemark.Table{table}}
	if err := d.Finish(ctx, dump.Content{Database: db, Moves: []tidemark.Move{*m}, Script: words{}}); err != nil {
		t.Fatal(err)
	}
	man, err := w.Publish(ctx, repo.Manifest{Form: repo.Logical, Engine: "mariadb", Bytes: d.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	x, err := dump.Open(ctx, r, man)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int64
	var rows int64
	for i := range x.Rows {
		sizes, rows = append(sizes, x.Rows[i].Bytes>>20), rows+x.Rows[i].Rows
	}
	if fmt.Sprint(sizes) != "[64 64 2]" || rows != 130 || man.Bytes != 130<<20 {
		t.Errorf("objects of %v MB, %d rows, %d bytes", sizes, rows, man.Bytes)
	}
}

// Any zstd reader reads uncompressed frames.
func TestStoredFrames(t *testing.T) {
	ctx, place := context.Background(), t.TempDir()
	_, w := begin(t, place, repo.Keys{})
	table := &tidemark.Table{TableID: tidemark.TableID{Name: "t"}}
	m, at := &tidemark.Move{From: table, To: table}, &tidemark.Range{ID: 1}
	var texts []string
	for _, n := range []int{1, 2, 128<<10 - 1, 128 << 10, 128<<10 + 1, 256 << 10, 1 << 20, 4<<20 + 7} {
		texts = append(texts, strings.Repeat("x", n-1)+"\n")
	}
	d := dump.NewWriter(w, false, 0)
	if _, err := d.Write(ctx, 0, tidemark.Write{Move: m, Range: at}, feed(at, texts...)); err != nil {
		t.Fatal(err)
	}
	if err := d.Finish(ctx, dump.Content{Database: &tidemark.Database{Engine: "mariadb"}, Moves: []tidemark.Move{*m}, Script: words{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Publish(ctx, repo.Manifest{Form: repo.Logical, Engine: "mariadb"}); err != nil {
		t.Fatal(err)
	}
	for path, packed := range files(t, place, w.ID) {
		if !strings.HasSuffix(path, ".zst") {
			continue
		}
		dec, err := zstd.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(dec)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if want := strings.Join(texts, ""); strings.Contains(path, "/data/") && (string(text) != want || len(packed) < len(want)) {
			t.Errorf("%d bytes in %d, want %d", len(text), len(packed), len(want))
		}
	}
}

// An aborted dump leaves nothing, and after a kill prune leaves nothing.
func TestDumpThatIsGivenUp(t *testing.T) {
	ctx, place := context.Background(), t.TempDir()
	s, err := store.Open(ctx, place, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := repo.OpenOrCreate(ctx, s, repo.Keys{})
	if err != nil {
		t.Fatal(err)
	}
	table := &tidemark.Table{TableID: tidemark.TableID{Name: "t"}}
	m, at := &tidemark.Move{From: table, To: table}, &tidemark.Range{ID: 1}
	begun := func() *repo.Writer {
		w, err := r.Begin(ctx, repo.BeginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dump.NewWriter(w, false, 1).Write(ctx, 0, tidemark.Write{Move: m, Range: at}, feed(at, "1\n")); err != nil {
			t.Fatal(err)
		}
		if len(files(t, place, w.ID)) != 1 {
			t.Fatal("nothing was written")
		}
		return w
	}
	left := func() (n int) {
		for _, err := range s.List(ctx, "dumps/") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	w := begun()
	if err := w.Abort(ctx); err != nil || left() != 0 {
		t.Errorf("%v, %d objects are left", err, left())
	}
	begun()
	if _, err := r.Prune(ctx, repo.PruneOptions{}); err != nil || left() != 1 {
		t.Errorf("%v: what is being written has %d objects", err, left())
	}
	locks, err := filepath.Glob(filepath.Join(place, "locks", "*"))
	if err != nil || len(locks) != 1 {
		t.Fatal(locks, err)
	}
	if err := os.Remove(locks[0]); err != nil {
		t.Fatal(err)
	}
	if rep, err := r.Prune(ctx, repo.PruneOptions{}); err != nil || len(rep.Orphans) != 1 || left() != 0 {
		t.Errorf("%v, %+v, %d objects are left", err, rep, left())
	}
}

// full is a place that accepts a limited number of bytes.
type full struct {
	store.Store
	room atomic.Int64
}

func (s *full) Create(ctx context.Context, name string, mode store.Mode) (store.Object, error) {
	o, err := s.Store.Create(ctx, name, mode)
	return fullObject{o, s}, err
}

type fullObject struct {
	store.Object
	s *full
}

func (o fullObject) Write(b []byte) (int, error) {
	if o.s.room.Add(-int64(len(b))) < 0 {
		return 0, &tidemark.Error{Kind: tidemark.Full, Op: "write", Object: o.s.String(), Err: errors.New("no space left")}
	}
	return o.Object.Write(b)
}

// Wherever a place runs full, the write reports it, and an abort leaves nothing.
func TestPlaceGetsFull(t *testing.T) {
	ctx := context.Background()
	inner, err := store.Open(ctx, t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &full{Store: inner}
	s.room.Store(1 << 40)
	r, err := repo.OpenOrCreate(ctx, s, repo.Keys{})
	if err != nil {
		t.Fatal(err)
	}
	table := &tidemark.Table{TableID: tidemark.TableID{Name: "t"}}
	m, at := tidemark.Move{From: table, To: table}, &tidemark.Range{ID: 1}
	for room, whole := int64(0), false; !whole; room += 150 {
		s.room.Store(1 << 40)
		w, err := r.Begin(ctx, repo.BeginOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.room.Store(room)
		d := dump.NewWriter(w, false, 1)
		_, err = d.Write(ctx, 0, tidemark.Write{Move: &m, Range: at}, feed(at, "1\n2\n"))
		if err == nil {
			err = d.Finish(ctx, dump.Content{Database: &tidemark.Database{Engine: "mysql", Tables: []*tidemark.Table{table}}, Moves: []tidemark.Move{m}, Script: words{}})
		}
		s.room.Store(1 << 40)
		if whole = err == nil; !whole && tidemark.KindOf(err) != tidemark.Full {
			t.Fatalf("with %d bytes of room: %v", room, err)
		}
		if err := w.Abort(ctx); err != nil {
			t.Fatal(err)
		}
		for i, err := range inner.List(ctx, "dumps/") {
			t.Fatalf("with %d bytes of room %s is left, %v", room, i.Name, err)
		}
	}
}

// dearmored reads age files, armored or not.
func dearmored(text []byte) io.Reader {
	if bytes.HasPrefix(text, []byte(armor.Header)) {
		return armor.NewReader(bytes.NewReader(text))
	}
	return bytes.NewReader(text)
}
