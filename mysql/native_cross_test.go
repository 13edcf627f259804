package mysql

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// golden compares a text with a file in testdata; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// told prints findings, one per line.
func told(findings []tidemark.Finding, replace ...string) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%s: %s: %s\n", f.Severity, f.Object, f.Text)
	}
	return strings.NewReplacer(replace...).Replace(b.String())
}

// across copies the schema of a database to a server of the other kind.
func across(t *testing.T, from, to *testdb.Server, name string, load func(rawURL string)) (dst, findings string) {
	t.Helper()
	src, dst := from.NewDatabase(t, "src_"+name), to.NewDatabase(t, "dst_"+name)
	load(src)
	db := describe(t, src)
	e := open(t, dst, server.Options{})
	objects, found := e.Render(db, movesOf(db, mysqltest.DatabaseOf(dst)))
	build(t, e, objects)
	return dst, told(append(db.Findings, found...), mysqltest.DatabaseOf(src), "SRC", mysqltest.DatabaseOf(dst), "DST")
}

func TestSamplesCrossTheFamily(t *testing.T) {
	maria, my := testdb.MariaDB(t), testdb.MySQL(t)
	for _, way := range []struct {
		name     string
		from, to *testdb.Server
	}{{"mariadb-mysql", maria, my}, {"mysql-mariadb", my, maria}} {
		for i, sample := range samples {
			if sample.name == "sakila" || sample.name == "chinook" {
				continue // spatial and northwind cover the same
			}
			t.Run(way.name+"/"+sample.name, func(t *testing.T) {
				_, findings := across(t, way.from, way.to, sample.name, func(rawURL string) { loadSample(t, way.from, rawURL, i) })
				golden(t, "cross-"+way.name+"-"+sample.name+".txt", findings)
			})
		}
	}
}
