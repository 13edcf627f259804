package schema

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// TestEachVersion copies the nasty schema of each version, with everything that the version
// introduced, to the same version and to the next.
func TestEachVersion(t *testing.T) {
	for _, v := range [][2]int{{13, 13}, {13, 14}, {13, 18}, {14, 14}, {14, 15}, {15, 15}, {15, 16}, {15, 18}, {16, 16}, {16, 17}, {17, 17}, {17, 18}, {18, 18}} {
		t.Run(fmt.Sprintf("%d to %d", v[0], v[1]), func(t *testing.T) {
			src := testdb.Postgres(t, v[0]).NewDatabase(t, "src")
			dst := testdb.Postgres(t, v[1]).NewDatabase(t, "dst")
			loadNasty(t, src, v[0])
			sameSchema(t, src, dst)
		})
	}
}

// TestOlderTarget copies the nasty schema of each version to older ones: what these lack is
// reported as in testdata, and everything else is created without an error. "go test -run
// TestOlderTarget -update" rewrites testdata.
func TestOlderTarget(t *testing.T) {
	for _, v := range [][2]int{{14, 13}, {15, 14}, {16, 15}, {17, 16}, {18, 17}, {18, 13}} {
		t.Run(fmt.Sprintf("%d to %d", v[0], v[1]), func(t *testing.T) {
			src := testdb.Postgres(t, v[0]).NewDatabase(t, "src")
			dst := testdb.Postgres(t, v[1]).NewDatabase(t, "dst")
			loadNasty(t, src, v[0])
			db := describeURL(t, src)
			_, findings := (&Schema{Server: &server.Server{Major: v[1]}}).Render(db, all(db))
			var got strings.Builder
			for _, f := range findings {
				fmt.Fprintf(&got, "%s %s: %s\n", f.Severity, f.Object, f.Text)
				if f.Severity == tidemark.Blocker { // as the user is asked to do
					testdb.Query(t, src, "DROP "+f.Object+" CASCADE")
				}
			}
			golden(t, fmt.Sprintf("older-%d-%d.txt", v[0], v[1]), got.String())
			copySchema(t, src, dst)
		})
	}
}

var update = flag.Bool("update", false, "write the texts in testdata anew")

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diffLines(t, string(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestTypesOfOlderServers(t *testing.T) {
	for in, want := range map[string]string{
		"numeric(5,-2)[]": "numeric(7,0)[]", "numeric(2,5)": "numeric(5,5)", "numeric(5,2)": "numeric(5,2)", "numeric": "numeric",
	} {
		if got := typeOn(in, 14); got != want {
			t.Errorf("%s before 15: got %s, want %s", in, got, want)
		}
		if got := typeOn(in, 15); got != in {
			t.Errorf("%s on 15: got %s", in, got)
		}
	}
}

func TestMaintainIsLeftOut(t *testing.T) {
	got := withoutMaintain([]string{
		"GRANT DELETE, MAINTAIN, SELECT ON TABLE a TO b", "GRANT MAINTAIN ON TABLE a TO b", "GRANT DELETE, MAINTAIN ON TABLE a TO b",
		"REVOKE MAINTAIN, SELECT ON TABLE a FROM b", "GRANT SELECT ON TABLE \"MAINTAIN, \" TO b",
		"ALTER DEFAULT PRIVILEGES FOR ROLE r GRANT INSERT, MAINTAIN ON TABLES TO b", "ALTER DEFAULT PRIVILEGES FOR ROLE r REVOKE MAINTAIN ON TABLES FROM b",
	})
	want := []string{"GRANT DELETE, SELECT ON TABLE a TO b", "GRANT DELETE ON TABLE a TO b", "REVOKE SELECT ON TABLE a FROM b",
		"GRANT SELECT ON TABLE \"MAINTAIN, \" TO b", "ALTER DEFAULT PRIVILEGES FOR ROLE r GRANT INSERT ON TABLES TO b"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
