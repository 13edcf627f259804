package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// What is restored from a logical backup of PostgreSQL equals the original: pg_dump output is the
// same for both, and the rows are equal.
func TestRefillPostgres(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sample   string
		from, to int
	}{{"pagila", 15, 15}, {"types-zoo", 15, 18}, {"types-zoo", 18, 18}} {
		t.Run(c.sample+"/"+major(c.from)+" to "+major(c.to), func(t *testing.T) {
			s := testdb.Postgres(t, c.from)
			src, dst, place := filled(t, s, c.sample+"/pg.sql"+packed(c.sample)), testdb.Postgres(t, c.to).NewDatabase(t, "dst"), t.TempDir()
			testdb.Query(t, src, "SELECT lo_from_bytea(4711, decode(repeat('00ff10', 5000), 'hex')); SELECT lo_create(4712)")
			before := testdb.PgDump(t, src)
			must(t, "backup", "--logical", src, place, "--owners", "--grants")
			o := must(t, "restore", place, dst, "--owners", "--grants")
			if !strings.Contains(o.out, "rows") || strings.Contains(o.out, "COPY binary") {
				t.Errorf("it says\n%s", o.out)
			}
			must(t, "diff", src, dst)
			if after := testdb.PgDump(t, dst); c.from == c.to && after != before {
				t.Errorf("pg_dump differs:\n%s", testdb.FirstDifference(before, after))
			}
			large := "SELECT oid, md5(lo_get(oid)) FROM pg_largeobject_metadata ORDER BY 1"
			if a, b := testdb.Query(t, src, large), testdb.Query(t, dst, large); a != b || !strings.Contains(a, "4712") {
				t.Errorf("large objects are\n%s\nand were\n%s", b, a)
			}
			nothingOfOurs(t, dst)
		})
	}
}

// What is restored from a logical backup of MySQL or MariaDB equals the original, in a new
// database, in an empty one of the same name, and over existing tables.
func TestRefillMySQL(t *testing.T) {
	t.Parallel()
	for name, s := range mysqlServers(t) {
		for _, sample := range []string{"sakila", "types-zoo"} {
			t.Run(sample+"/"+name, func(t *testing.T) {
				src, kept, dst, place := filled(t, s, sample+"/mysql.sql"+packed(sample)), s.NewDatabase(t, "kept"), s.NewDatabase(t, "dst"), t.TempDir()
				shape := mysqlShape(t, src)
				must(t, "backup", "--logical", src, place)
				must(t, "restore", place, dst)
				must(t, "diff", src, dst)
				nothingOfOurs(t, dst)

				if sample == "types-zoo" { // uk_only and tables of the other database have triggers, which fire
					must(t, "restore", place, dst, "--prep", "truncate", "--exclude", "*.uk_only")
					must(t, "diff", src, dst)
				} else if name == "mysql" {
					return // creating its tables takes long
				}

				must(t, "copy", src, kept)
				db := src[strings.LastIndex(src, "/")+1:]
				testdb.Query(t, src, "DROP DATABASE "+db+"; CREATE DATABASE "+db)
				must(t, "restore", place, src)
				must(t, "diff", kept, src)
				if now := mysqlShape(t, src); now != shape {
					t.Errorf("it is not as it was:\n%s", testdb.FirstDifference(shape, now))
				}
			})
		}
	}
}

// A backup of one engine is restored into another engine as a copy would load it.
func TestRefillAcross(t *testing.T) {
	t.Parallel()
	maria, pg := testdb.MariaDB(t), testdb.Postgres(t, 15)
	for _, c := range []struct {
		name, sample string
		from, to     *testdb.Server
		args         []string
	}{
		{"maria to postgres", "types-zoo/mysql.sql", maria, pg, []string{"--zero-dates", "null", "--exclude", "*.t_str", "--exclude", "*.t_enum"}}, // a NUL byte; an ENUM without a value
		{"postgres to maria", "pagila/pg.sql.zst", pg, maria, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			src, dst, copied, place := filled(t, c.from, c.sample), c.to.NewDatabase(t, "dst"), c.to.NewDatabase(t, "copied"), t.TempDir()
			must(t, "backup", "--logical", src, place)
			must(t, append([]string{"restore", place, dst}, c.args...)...)
			must(t, append([]string{"copy", src, copied}, c.args...)...)
			must(t, "diff", copied, dst)
			must(t, append([]string{"diff", src, dst}, c.args...)...)
		})
	}
}

// One table of many is restored, beside existing tables and into another schema, also from an
// encrypted repository.
func TestRefillOfOneTable(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	src, place, secret := filled(t, s, "pagila/pg.sql.zst"), t.TempDir(), filepath.Join(t.TempDir(), "passphrase")
	if err := os.WriteFile(secret, []byte("s3cret-tide\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := []string{"--passphrase-file", secret}
	must(t, append([]string{"backup", "--logical", src, place}, key...)...)
	was := testdb.Query(t, src, "SELECT count(*), sum(hashtext(r::text)) FROM film_actor r")
	testdb.Query(t, src, "DELETE FROM film_actor WHERE film_id % 2 = 0")

	must(t, append([]string{"restore", place, src, "--include", "public.film_actor", "--target-schema", "rescued"}, key...)...)
	if got := testdb.Query(t, src, "SELECT count(*), sum(hashtext(r::text)) FROM rescued.film_actor r"); got != was {
		t.Errorf("rescued are %s of %s", got, was)
	}
	if got := testdb.Query(t, src, "SELECT count(*) FROM pg_class WHERE relnamespace = 'rescued'::regnamespace AND relkind = 'r'"); got != "1" {
		t.Errorf("there are %s tables", got)
	}
	if o := cli(t, append([]string{"restore", place, src, "--include", "public.film_actor"}, key...)...); o.code != 8 {
		t.Errorf("over rows that are there: %+v", o)
	}
	must(t, append([]string{"restore", place, src, "--table", "public.film_actor", "--prep", "truncate"}, key...)...)
	if got := testdb.Query(t, src, "SELECT count(*), sum(hashtext(r::text)) FROM film_actor r"); got != was {
		t.Errorf("there are %s of %s again", got, was)
	}
	drop := append([]string{"restore", place, src, "--prep", "drop", "--plan", "--json"}, key...)
	if o := cli(t, append(drop, "--include", "public.film")...); o.code != 8 || !strings.Contains(o.errOut, "which is not part of the copy, refers to it") {
		t.Errorf("of a table to which others refer: %+v", o)
	}
	o := must(t, append(drop, "--include", "public.film", "--include", "public.film_*", "--include", "public.inventory", "--include", "public.rental", "--include", "public.payment*")...)
	if !strings.Contains(o.out, `"film"`) {
		t.Errorf("the plan is\n%s", o.out)
	}
}

// With a bit flipped in any object that holds rows, none of its rows reaches the database; the
// object is named; and once it is repaired, the restore resumes.
func TestRefillDamaged(t *testing.T) {
	t.Parallel()
	for _, s := range []*testdb.Server{testdb.Postgres(t, 16), testdb.MariaDB(t)} {
		t.Run(s.Engine, func(t *testing.T) {
			src, place := killSource(t, s, 2000), t.TempDir()
			must(t, "backup", "--logical", src, place)
			objects, err := filepath.Glob(filepath.Join(place, "dumps", "*", "data", "*"))
			if err != nil || len(objects) < 20 {
				t.Fatal(objects, err)
			}
			dst := s.NewDatabase(t, "dst")
			for n, path := range objects {
				if n >= 4 && n%8 != 0 {
					continue
				}
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				at := len(text) * (1 + n%4) / 5
				broken := bytes.Clone(text)
				broken[at] ^= 1 << (n % 8)
				if err := os.WriteFile(path, broken, 0o600); err != nil {
					t.Fatal(err)
				}
				o := cli(t, "restore", place, dst, "--prep", "drop")
				if o.code != 18 || !strings.Contains(o.errOut, filepath.Base(path)) || !strings.Contains(o.errOut, "tidemark verify") {
					t.Errorf("%s, byte %d of %d: %+v", path, at, len(text), o)
				}
				table := strings.Split(filepath.Base(path), ".")[2]
				if got, err := testdb.TryQuery(dst, "SELECT count(*) FROM "+table); err != nil || got != "0" {
					t.Errorf("%s: %s rows of %s are there, %v", path, got, table, err)
				}
				if o := cli(t, "verify", place); o.code != 18 || strings.Count(o.out, "damage:") != 1 || !strings.Contains(o.out, filepath.Base(path)) {
					t.Errorf("verify: %+v", o)
				}
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
				if n%8 == 0 {
					must(t, "restore", place, dst, "--resume", "last")
					must(t, "diff", src, dst)
				}
			}
		})
	}
}

// A restore resumes with the backup it started with, even if there is a newer one; and latest means
// the newest of the same form.
func TestRefillGoesOn(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	src, dst, place := s.NewDatabase(t, "src"), s.NewDatabase(t, "dst"), t.TempDir()
	testdb.Query(t, src, "CREATE TABLE item AS SELECT g AS id FROM generate_series(1, 100) g; CREATE TABLE other (id int PRIMARY KEY); INSERT INTO other VALUES (1)")
	must(t, "backup", "--logical", src, place)
	objects, err := filepath.Glob(filepath.Join(place, "dumps", "*", "data", "*item*"))
	if err != nil || len(objects) != 1 {
		t.Fatal(objects, err)
	}
	text, err := os.ReadFile(objects[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(objects[0], text[1:], 0o600); err != nil {
		t.Fatal(err)
	}
	o := cli(t, "restore", place, dst)
	_, run, ok := strings.Cut(o.errOut, "--resume ")
	run, _, _ = strings.Cut(run, " ")
	if o.code == 0 || !ok {
		t.Fatalf("%+v", o)
	}
	if err := os.WriteFile(objects[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	testdb.Query(t, src, "INSERT INTO item VALUES (101)")
	must(t, "backup", "--logical", src, place)
	must(t, "restore", place, dst, "--resume", run)
	if got := testdb.Query(t, dst, "SELECT count(*) FROM item"); got != "100" {
		t.Errorf("there are %s rows", got)
	}
	must(t, "restore", place, dst, "--prep", "drop")
	if got := testdb.Query(t, dst, "SELECT count(*) FROM item"); got != "101" {
		t.Errorf("there are %s rows", got)
	}
	var list struct {
		Backups []struct {
			ID, Form     string
			Tables, Rows int
		}
	}
	if err := json.Unmarshal([]byte(must(t, "backups", place, "--json").out), &list); err != nil || len(list.Backups) != 2 || list.Backups[1].Form != "logical" || list.Backups[1].Tables != 2 || list.Backups[1].Rows != 102 {
		t.Errorf("%v, %+v", err, list)
	}
	if o := must(t, "backups", place); !strings.Contains(o.out, "2 tables, 102 rows") {
		t.Errorf("backups says\n%s", o.out)
	}
	must(t, "restore", place, list.Backups[0].ID[:20], dst, "--prep", "drop")
	if o := must(t, "verify", place); !strings.Contains(o.out, "plain objects") {
		t.Errorf("verify says\n%s", o.out)
	}
	must(t, "prune", place, "--keep", "last=1")
	if left, _ := filepath.Glob(filepath.Join(place, "dumps", "*")); len(left) != 1 || !strings.HasSuffix(left[0], list.Backups[1].ID) {
		t.Errorf("left are %v", left)
	}
}

// Command lines of restore that must fail.
func TestRefillsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := testdb.Postgres(t, 15)
	src, place := s.NewDatabase(t, "src"), t.TempDir()
	testdb.Query(t, src, "CREATE TABLE item (id int PRIMARY KEY, t text)")
	must(t, "backup", "--logical", src, place)
	ids, err := filepath.Glob(filepath.Join(place, "backups", "*"))
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	id := filepath.Base(ids[0])
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"restore logical into a folder", 2, []string{"restore", place, t.TempDir()}},
		{"restore logical into a folder by name", 2, []string{"restore", place, id, t.TempDir()}},
		{"restore option of a folder", 2, []string{"restore", place, src, "--parallelism", "2"}},
		{"restore option of a database", 2, []string{"restore", place, t.TempDir(), "--include", "public.item"}},
		{"restore without a column", 7, []string{"restore", place, s.NewDatabase(t, "dst"), "--table-mappings", testdb.Written(t, "rules.json",
			`{"rules": [{"rule-type": "selection", "rule-id": "1", "rule-name": "1", "object-locator": {"schema-name": "public", "table-name": "%"}, "rule-action": "include"},
			{"rule-type": "transformation", "rule-id": "2", "rule-name": "2", "rule-target": "column", "object-locator": {"schema-name": "public", "table-name": "item", "column-name": "t"}, "rule-action": "remove-column"}]}`)}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			o := cli(t, c.args...)
			o.errOut = strings.ReplaceAll(o.errOut, id, "{backup}")
			sameText(t, o, c.code, slices.Concat(c.args, []string{place}))
		})
	}
	physical := filepath.Join(t.TempDir(), "repo")
	files := aBackup(t, aRepository(t, physical, repo.Keys{}), "files", 1, true)
	for _, c := range []struct {
		name string
		code int
		args []string
	}{
		{"restore physical into a database", 2, []string{"restore", physical, src}},
		{"restore some databases over others", 2, []string{"restore", physical, t.TempDir(), "--database", "shop", "--delta"}},
		{"restore some databases of an old backup", 7, []string{"restore", physical, t.TempDir(), "--database", "shop"}},
		{"restore a database into a database", 6, []string{"restore", place, src, "--database", "shop"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := cli(t, c.args...)
			o.errOut = strings.ReplaceAll(o.errOut, files, "{backup}")
			sameText(t, o, c.code, slices.Concat(c.args, []string{physical}))
		})
	}
}
