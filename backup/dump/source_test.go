package dump_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/dump"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/store"
)

// item is a table of a number and a text.
var item = &tidemark.Table{TableID: tidemark.TableID{Schema: "public", Name: "item"}, Columns: []tidemark.Column{
	{Name: "id", Type: tidemark.Type{Kind: tidemark.Int, Bits: 32, Native: "integer"}, NotNull: true}, {Name: "t", Type: tidemark.Type{Kind: tidemark.Text, Native: "text"}}}}

// shelved is a backup of item in ranges of batches; a partition's name precedes a colon.
func shelved(t *testing.T, place string, keys repo.Keys, ranges ...[]string) (*repo.Repo, *repo.Manifest) {
	t.Helper()
	ctx := context.Background()
	s, err := store.Open(ctx, place, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := repo.OpenOrCreate(ctx, s, keys)
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.Begin(ctx, repo.BeginOptions{})
	if err != nil {
		t.Fatal(err)
	}
	moves := []tidemark.Move{{From: item, To: item, Source: []string{"id", "t"}, Direct: true}}
	d := dump.NewWriter(w, r.Encrypted(), 3)
	for i, texts := range ranges {
		g := &tidemark.Range{ID: i + 1, Rows: 7}
		if part, first, ok := strings.Cut(texts[0], ":"); ok {
			g.Part = &tidemark.Part{Table: tidemark.TableID{Schema: "public", Name: part}}
			texts = append([]string{first}, texts[1:]...)
		}
		if _, err := d.Write(ctx, 0, tidemark.Write{Move: &moves[0], Range: g}, feed(g, texts...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Finish(ctx, dump.Content{Database: &tidemark.Database{Engine: "postgres", Version: "15.18", Tables: []*tidemark.Table{item}}, Moves: moves, Script: words{}}); err != nil {
		t.Fatal(err)
	}
	m, err := w.Publish(ctx, repo.Manifest{Form: repo.Logical, Engine: "postgres", Bytes: d.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	return r, m
}

// shelf opens it as a source.
func shelf(t *testing.T, r *repo.Repo, m *repo.Manifest) (*dump.Source, *tidemark.Move) {
	t.Helper()
	d, err := dump.Open(context.Background(), r, m)
	if err != nil {
		t.Fatal(err)
	}
	s := dump.NewSource(d)
	t.Cleanup(func() { s.Close() })
	db, err := s.Describe(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, &tidemark.Move{From: db.Tables[0], To: db.Tables[0], Source: []string{"id", "t"}, Direct: true}
}

// rowsOf reads a range, and reports whether its end was emitted.
func rowsOf(s *dump.Source, m *tidemark.Move, g *tidemark.Range) (text string, ended bool, err error) {
	rows := 0
	err = s.Read(context.Background(), 0, tidemark.Read{Move: m, Range: g}, func(b *tidemark.Batch) error {
		if ended {
			return fmt.Errorf("a batch comes after the last")
		}
		if b.More != (len(b.Data) > 0 && b.Data[len(b.Data)-1] != '\n') {
			return fmt.Errorf("%q: more is %t", b.Data, b.More)
		}
		text, rows, ended = text+string(b.Data), rows+b.Rows, b.Last
		b.Release()
		return nil
	})
	if err == nil && rows != strings.Count(text, "\n") {
		err = fmt.Errorf("%d rows are said of %q", rows, text)
	}
	return text, ended, err
}

// Objects become ranges of about the requested size, and never of two partitions; their batches are
// those that were written.
func TestRangesOfBackup(t *testing.T) {
	ten := func(from int) []string {
		return []string{fmt.Sprintf("%d\ta\\\\\\n\n%d\t%s\n", from, from+1, strings.Repeat("b", 50)), fmt.Sprintf("%d\thalf of a", from+2), " row\n"}
	}
	r, m := shelved(t, t.TempDir(), repo.Keys{}, ten(1), ten(11), ten(21), append([]string{"p1:7\tx\n"}, ten(31)...), []string{"p1:8\tx\n"}, []string{"p2:9\tx\n"}, []string{""})
	s, move := shelf(t, r, m)
	if n := move.From.Rows; n != 15 {
		t.Errorf("the table has %d rows", n)
	}
	size := move.From.Bytes
	for target, want := range map[int64]string{0: "0-3 3-5 5-6", size: "0-3 3-5 5-6", 1: "0-1 1-2 2-3 3-4 4-5 5-6", 170: "0-2 2-3 3-5 5-6"} {
		move.Split.Target = target
		ranges, err := s.Split(context.Background(), move)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		var text string
		for i := range ranges {
			got = append(got, fmt.Sprintf("%d-%d", ranges[i].FromBlock, ranges[i].ToBlock))
			part, ended, err := rowsOf(s, move, &ranges[i])
			if err != nil || !ended || int64(strings.Count(part, "\n")) != ranges[i].Rows || int64(len(part)) != ranges[i].Bytes {
				t.Errorf("range %+v: %q, ended %t, %v", ranges[i], part, ended, err)
			}
			text += part
		}
		if strings.Join(got, " ") != want {
			t.Errorf("with %d bytes: %v instead of %s", target, got, want)
		}
		if all := strings.Join(slices.Concat(ten(1), ten(11), ten(21), []string{"7\tx\n"}, ten(31), []string{"8\tx\n9\tx\n"}), ""); text != all {
			t.Errorf("got %q\nwant %q", text, all)
		}
	}
	move.Source = []string{"t", "id"}
	if _, err := s.Split(context.Background(), move); tidemark.KindOf(err) != tidemark.Unsupported || err == nil {
		t.Errorf("columns in another order: %v", err)
	}
}

// With any bit of any object flipped, or any object truncated or lost, verify names that object,
// and no range that has rows of it ends.
func TestDamagedRanges(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string]repo.Keys{"open": {}, "encrypted": {Recipients: []string{id.Recipient().String()}, Identities: id.String()}} {
		t.Run(name, func(t *testing.T) {
			ctx, place := context.Background(), t.TempDir()
			r, m := shelved(t, place, keys, []string{"1\tone\n2\ttwo\n", "3\tthree\n"}, []string{"p:4\tfour\n"})
			s, move := shelf(t, r, m)
			ranges, err := s.Split(ctx, move)
			if err != nil || len(ranges) != 2 {
				t.Fatal(ranges, err)
			}
			verify := func(quick bool) *repo.VerifyReport {
				t.Helper()
				rep, err := r.Verify(ctx, repo.VerifyOptions{Text: dump.Text(r), Quick: quick})
				if err != nil {
					t.Fatal(err)
				}
				return rep
			}
			all := files(t, place, m.ID)
			if rep := verify(false); len(rep.Damages)+len(rep.Left) > 0 || rep.Objects != len(all) {
				t.Fatalf("of a sound one: %+v", rep)
			}
			if rep := verify(true); len(rep.Damages)+len(rep.Left) > 0 {
				t.Fatalf("of a sound one: %+v", rep)
			}
			for path, text := range all {
				object := filepath.ToSlash(strings.TrimPrefix(path, place+string(filepath.Separator)))
				rows := strings.Contains(object, "/data/")
				step := 1
				switch {
				case !rows:
					step = len(text)/5 + 1
				case name == "encrypted":
					step = 7
				}
				for at := 0; at <= len(text); at += step {
					for how, broken := range map[string][]byte{"flipped": flipped(text, at), "cut": text[:at]} {
						if len(broken) == len(text) && bytes.Equal(broken, text) {
							continue
						}
						if err := os.WriteFile(path, broken, 0o600); err != nil {
							t.Fatal(err)
						}
						if at%14 == 0 || !rows {
							if rep := verify(false); len(rep.Damages) != 1 || rep.Damages[0].Object != object || len(rep.Damages[0].Backups) != 1 {
								t.Errorf("%s, %s at %d: verify says %+v", object, how, at, rep.Damages)
							}
						}
						if !rows {
							continue
						}
						ended := 0
						for i := range ranges {
							_, whole, err := rowsOf(s, move, &ranges[i])
							if whole {
								ended++
							} else if tidemark.KindOf(err) != tidemark.Corrupt || !strings.Contains(err.Error(), object) {
								t.Errorf("%s, %s at %d: %v", object, how, at, err)
							}
						}
						if ended != 1 {
							t.Errorf("%s, %s at %d: %d of 2 ranges ended", object, how, at, ended)
						}
					}
				}
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				for _, quick := range []bool{false, true} {
					if rep := verify(quick); len(rep.Damages) != 1 || rep.Damages[0].Object != object || rep.Damages[0].Text != "it is missing" {
						t.Errorf("%s was removed: verify says %+v", object, rep.Damages)
					}
				}
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			extra := filepath.Join(place, "dumps", m.ID, "data", "more.zst")
			if err := os.WriteFile(extra, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, quick := range []bool{false, true} {
				if rep := verify(quick); len(rep.Damages) != 0 || len(rep.Left) != 1 {
					t.Errorf("with an object too much: %+v, %+v", rep.Damages, rep.Left)
				}
			}
		})
	}
}

// flipped changes a bit of a byte; beyond the end, it adds a byte.
func flipped(text []byte, at int) []byte {
	if at == len(text) {
		return append(bytes.Clone(text), 'x')
	}
	out := bytes.Clone(text)
	out[at] ^= 1 << (at % 8)
	return out
}
