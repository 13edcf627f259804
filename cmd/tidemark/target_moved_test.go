package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestStreamTargetMoved gives a stream's target another URL. The progress recorded there must prove
// that it is the same target.
func TestStreamTargetMoved(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		to   func(*testing.T) *testdb.Server
	}{{"postgres", pg15}, {"mysql", mysql8}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, other, empty, name := pg15(t).NewDatabase(t, "src"), x.to(t).NewDatabase(t, "dst"), x.to(t).NewDatabase(t, "other"), x.to(t).NewDatabase(t, "empty"), streamName()
			testdb.Query(t, src, "CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)")
			replicate := func(to string, args ...string) outcome {
				return cli(t, append([]string{"replicate", src, to, "--name", name, "--until", "now"}, args...)...)
			}
			done := func(o outcome) {
				t.Helper()
				if o.code != 0 {
					t.Fatalf("exit %d\n%s", o.code, o.errOut)
				}
			}
			refused := func(o outcome, kind tidemark.Kind, text string) {
				t.Helper()
				if o.code != exitCodes[kind] || !strings.Contains(o.errOut, text) {
					t.Errorf("exit %d, not %d and %q\n%s", o.code, exitCodes[kind], text, o.errOut)
				}
			}
			done(replicate(dst))
			testdb.Query(t, src, "INSERT INTO a VALUES (2)")

			// A stream of the same name from another source, known to another catalogue.
			from := pg15(t).NewDatabase(t, "from")
			testdb.Query(t, from, "CREATE TABLE a (id int PRIMARY KEY)")
			var errOut bytes.Buffer
			args := []string{"replicate", from, other, "--until", "now", "--state", t.TempDir() + "/other.db", "--name"}
			if code := run(t.Context(), append(args, "x"+name[1:]), &bytes.Buffer{}, &errOut); code != 0 {
				t.Fatalf("exit %d\n%s", code, &errOut)
			}
			defer run(t.Context(), append(args, "x"+name[1:], "--remove"), &bytes.Buffer{}, &errOut)
			progress := map[string]string{"postgres": "tidemark.applied", "mysql": "tidemark_applied"}[x.name]
			testdb.Query(t, other, "UPDATE "+progress+" SET queue = '"+name+"'") // two slots of a server cannot share a name

			refused(replicate(empty), tidemark.Invalid, "--target-moved if the target has a new URL")
			refused(replicate(empty, "--target-moved"), tidemark.NotFound, "was never applied to")
			refused(replicate(other, "--target-moved"), tidemark.Invalid, "is not the stream of the same name in")
			if x.name == "mysql" {
				refused(replicate(from, "--target-moved"), tidemark.Invalid, "a stream cannot move to another engine")
			}
			again := strings.Replace(dst, "127.0.0.1", "localhost", 1)
			if again == dst {
				t.Fatal(dst)
			}
			done(replicate(again, "--target-moved"))
			if n := testdb.Query(t, dst, "SELECT count(*) FROM a"); n != "2" {
				t.Errorf("%s rows", n)
			}
			refused(replicate(dst), tidemark.Invalid, "is a stream with "+tidemark.MaskURL(again))
			done(replicate(again))
			done(replicate(dst, "--target-moved"))

			if x.name == "postgres" {
				db := func(url string) string { return url[strings.LastIndex(url, "/")+1 : strings.Index(url, "?")] }
				clone := func(suffix string) string {
					soon(t, "the clone", func() bool { // once nobody is connected to it
						_, err := testdb.TryQuery(src, "CREATE DATABASE "+db(dst)+suffix+" TEMPLATE "+db(dst))
						return err == nil
					})
					return strings.Replace(dst, db(dst), db(dst)+suffix, 1)
				}
				// Clones of the target with all that it has now, and from before that.
				early := clone("_early")
				testdb.Query(t, src, "INSERT INTO a VALUES (3)")
				done(replicate(dst))
				late := clone("_late")
				testdb.Query(t, src, "INSERT INTO a VALUES (4)")
				done(replicate(late, "--target-moved"))
				if n := testdb.Query(t, late, "SELECT count(*) FROM a") + " " + testdb.Query(t, dst, "SELECT count(*) FROM a"); n != "4 3" {
					t.Errorf("%s rows", n)
				}
				refused(replicate(early, "--target-moved"), tidemark.Lost, "")
				done(replicate(late, "--target-moved"))
				dst = late
			}
			must(t, "replicate", src, dst, "--name", name, "--remove")
		})
	}
}
