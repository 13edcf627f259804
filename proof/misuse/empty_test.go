package misuse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestNothingToDo: no verb reports success if there was nothing to do.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := e.server(t)
			empty, shop, dst := s.NewDatabase(t, "none"), full(t, s), s.NewDatabase(t, "dst")
			file := filepath.Join(t.TempDir(), "empty.sql")
			if err := os.WriteFile(file, []byte("-- MySQL dump\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			place := filepath.Join(t.TempDir(), "repository")
			for _, from := range [][]string{{empty}, {shop, "--include", "no.such*"}, {shop, "--exclude", "*.*"}} {
				source, rules := from[0], from[1:]
				lines := [][]string{{"copy", source, dst}, {"diff", source, dst}, {"copy", source, dst, "--plan"}, {"diff", source, dst, "--live"}, {"repair", source, dst, "--execute"},
					{"replicate", source, dst, "--name", streamName()}, {"backup", "--logical", source, place}}
				if len(rules) > 0 && e.name != "postgres" && !testdb.Long() {
					lines = lines[:3]
				}
				for _, line := range lines {
					o := run(t, append(line, rules...)...)
					if o.Code != 20 || !strings.Contains(o.ErrOut, "hint: ") || strings.Contains(o.Out, "equal") {
						t.Errorf("%s: exit %d, want 20\n%s%s", append(line[:1:1], rules...), o.Code, o.ErrOut, o.Out)
					}
				}
				if o := run(t, append([]string{"check", source, dst}, rules...)...); o.Code != 1 {
					t.Errorf("check %s: exit %d, want 1\n%s%s", rules, o.Code, o.ErrOut, o.Out)
				}
			}
			if o := run(t, "copy", "file:"+file, dst); o.Code != 20 {
				t.Errorf("an empty file: exit %d, want 20\n%s%s", o.Code, o.ErrOut, o.Out)
			}
			if got := tables(t, dst); got != "" {
				t.Errorf("the target has %s", got)
			}
			if e.name == "postgres" {
				if got := testdb.Query(t, shop, "SELECT count(*) FROM pg_publication"); got != "0" {
					t.Errorf("%s publications were left", got)
				}
			}
		})
	}
}
