package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// olderZoo adapts the zoo of version 18 to PostgreSQL 13, which has no multiranges and no infinite
// numerics.
const olderZoo = `
tables:
  "*.t_range": {types: {m4: text, mtz: text}}
  "*.t_numeric": {where: "id not in (3, 4)"}
`

// TestEveryPostgres copies all types and a randomly drawn sample from each version to the next, and
// between the oldest and the newest; all rows are equal.
func TestEveryPostgres(t *testing.T) {
	t.Parallel()
	for _, v := range [][2]int{{13, 14}, {14, 15}, {15, 16}, {16, 17}, {17, 18}, {13, 18}, {18, 13}} {
		samples := []string{"types-zoo"} // it covers nearly everything in the others: these are drawn one at a time
		more := []string{"pagila", "chinook", "northwind"}
		for _, i := range testdb.Draw(t, len(more), 1) {
			samples = append(samples, more[i])
		}
		for _, sample := range samples {
			t.Run(fmt.Sprintf("%s/%dto%d", sample, v[0], v[1]), func(t *testing.T) {
				src, dst := testdb.Postgres(t, v[0]).NewDatabase(t, "src"), testdb.Postgres(t, v[1]).NewDatabase(t, "dst")
				testdb.Load(t, src, testdb.SamplePostgres(t, v[0], sample+"/pg.sql"+packed(sample)))
				args := []string{src, dst}
				if sample == "types-zoo" && v[0] > v[1] {
					args = append(args, "--config", taskFile(t, olderZoo))
				}
				must(t, append([]string{"copy"}, args...)...)
				must(t, append([]string{"diff"}, args...)...)
			})
		}
	}
}

// TestOlderPostgresIsNamed requests the plan of a copy to a server that lacks a type.
func TestOlderPostgresIsNamed(t *testing.T) {
	src := filled(t, testdb.Postgres(t, 18), "types-zoo/pg.sql")
	o := cli(t, "copy", src, testdb.Postgres(t, 13).NewDatabase(t, "dst"), "--plan")
	want := "column m4 is of int4multirange: multiranges came with PostgreSQL 14"
	if o.code != 12 || !strings.Contains(o.errOut, want) {
		t.Errorf("exit %d\n%s%s\nwant 12 and %s", o.code, o.errOut, o.out, want)
	}
	for _, named := range []string{"zoo.f_sqlbody", "publication table zoo_pub", "numeric(5,-2) came with PostgreSQL 15"} {
		if !strings.Contains(o.out+o.errOut, named) {
			t.Errorf("the plan does not name %s:\n%s", named, o.out)
		}
	}
}

// TestPostgresVersionsAndMySQL copies back and forth once with the versions that the sample tests
// do not use.
func TestPostgresVersionsAndMySQL(t *testing.T) {
	t.Parallel()
	for _, v := range []int{13, 18} {
		t.Run(fmt.Sprint(v), func(t *testing.T) {
			src := filled(t, testdb.MariaDB(t), "sakila/mysql.sql.zst")
			mid, back := testdb.Postgres(t, v).NewDatabase(t, "mid"), testdb.MySQL(t).NewDatabase(t, "back")
			must(t, "copy", src, mid)
			must(t, "diff", src, mid)
			must(t, "copy", mid, back)
			must(t, "diff", mid, back)
		})
	}
}

// TestPoolers copies from and to a pgbouncer. Session pooling works like a server; transaction
// pooling is refused.
func TestPoolers(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	src := filled(t, srv, "types-zoo/pg.sql")
	t.Run("session", func(t *testing.T) {
		through := srv.Pooled(t, "session")
		dst := srv.NewDatabase(t, "dst")
		must(t, "copy", through(src), through(dst))
		must(t, "diff", src, dst)
	})
	t.Run("transaction", func(t *testing.T) {
		through := srv.Pooled(t, "transaction")
		dst := srv.NewDatabase(t, "dst")
		for _, args := range [][]string{{"copy", through(src), dst}, {"copy", src, through(dst)}, {"check", src, through(dst)}} {
			o := cli(t, args...)
			if want := "a pooler in between gives each transaction another session of the server"; o.code != 7 || !strings.Contains(o.errOut, want) {
				t.Errorf("%s: exit %d, want 7\n%s", args[0], o.code, o.errOut)
			}
		}
	})
}
