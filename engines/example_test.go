package engines_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/stream"
	"github.com/tidemarkdb/tidemark/job/workload"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mapping"
)

type silent struct{}

func (silent) Planned(string, *load.Plan)   {}
func (silent) Running(job.Progress)         {}
func (silent) Following(job.StreamProgress) {}
func (silent) Event(job.Event)              {}

// An engine that the program has never heard of is copied, checked and compared with all others,
// and refused in a sentence wherever it has no part.
func TestEngineOfTheExample(t *testing.T) {
	cat, err := catalog.Open(filepath.Join(t.TempDir(), "catalog"))
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	env := job.Env{Catalog: cat, Watch: silent{}, Files: t.TempDir(), Open: func(ctx context.Context, url string) (job.Database, error) {
		return engines.Open(ctx, url, engines.Options{})
	}}
	src := testdb.Postgres(t, 15).NewDatabase(t, "example")
	testdb.Load(t, src, strings.NewReader(`create table film (id int primary key, title varchar(80) not null, length numeric(5,1), made date, seen timestamptz, poster bytea, tags text[]);
		insert into film select i, 'film ' || i || e'\t"\\', i / 10.0, date '1900-01-01' + i, '2024-02-29 12:00+00', '\x00ff', array['a', null] from generate_series(1, 1000) i;
		insert into film (id, title) values (0, '')`))
	folder := "csv://" + t.TempDir()
	for _, pair := range [][2]string{{src, folder}, {folder, testdb.MariaDB(t).NewDatabase(t, "example")}, {folder, testdb.Postgres(t, 15).NewDatabase(t, "example")}, {folder, "csv://" + t.TempDir()}} {
		spec := job.CopySpec{Source: pair[0], Target: pair[1], Rules: mapping.All()}
		found, err := job.Check(t.Context(), env, spec, job.CheckSpec{Values: job.ValueLook{Read: true}})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found.Findings {
			if f.Severity == tidemark.Blocker {
				t.Errorf("check: %s: %s", f.Object, f.Text)
			}
		}
		if _, rep, err := job.Copy(t.Context(), env, spec); err != nil {
			text, _ := json.Marshal(rep)
			t.Fatalf("%v\n%s", err, text)
		}
		result, _, err := job.Diff(t.Context(), env, job.DiffSpec{Source: pair[0], Target: pair[1], Rules: mapping.All()})
		if err != nil || len(result.Tables) != 1 || !result.Tables[0].Equal || result.Tables[0].SourceRows != 1001 {
			t.Errorf("%s and %s: %+v, %v", pair[0], pair[1], result, err)
		}
	}
	all := mapping.All()
	for what, try := range map[string]func() error{
		"replicate from it": func() error {
			_, _, err := stream.Replicate(t.Context(), env, stream.Spec{Name: "from", Copy: job.CopySpec{Source: folder, Target: src, Rules: all}})
			return err
		},
		"replicate into it": func() error {
			_, _, err := stream.Replicate(t.Context(), env, stream.Spec{Name: "into", Copy: job.CopySpec{Source: src, Target: folder, Rules: all}})
			return err
		},
		"diff --definitions": func() error {
			_, err := job.Definitions(t.Context(), env, job.DiffSpec{Source: src, Target: folder, Rules: all}, define.Options{})
			return err
		},
		"diff --live": func() error {
			_, _, err := job.DiffLive(t.Context(), env, job.LiveSpec{Diff: job.DiffSpec{Source: folder, Target: src, Rules: all}})
			return err
		},
		"repair": func() error {
			_, err := job.Repair(t.Context(), env, job.RepairSpec{LiveSpec: job.LiveSpec{Diff: job.DiffSpec{Source: src, Target: folder, Rules: all}}})
			return err
		},
		"fence": func() error {
			_, err := job.Fence(t.Context(), env, job.CopySpec{Source: folder, Target: src, Rules: all})
			return err
		},
		"backup": func() error { _, err := engines.OpenFiles(t.Context(), folder, engines.FilesOptions{}); return err },
		"ha scan": func() error {
			_, err := engines.OpenLog(t.Context(), []string{folder}, engines.LogOptions{})
			return err
		},
		"ha check": func() error {
			_, _, _, err := engines.OpenPrimary(t.Context(), folder, "", engines.Options{})
			return err
		},
		"a position in its log": func() error { _, _, err := engines.Place("csv", "1"); return err },
		"ha load": func() error {
			_, _, err := workload.Run(t.Context(), env, workload.Spec{URL: folder, Mix: [3]int{1, 0, 0}})
			return err
		},
	} {
		if err := try(); tidemark.KindOf(err) != tidemark.Unsupported {
			t.Errorf("%s: %v, want an error of Kind Unsupported", what, err)
		} else {
			t.Logf("%s: %v", what, err)
		}
	}
}
