package links

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// points are where connections of a stream's agents are cut: before the answer to a COMMIT, in the
// middle of statements that were sent ahead, and with all, half or nothing of a COMMIT received.
func points(engine string) []testdb.Point {
	middle := testdb.Point{Text: "mork", Skip: 1, Receives: 50}
	if engine == "postgres" {
		return []testdb.Point{{Text: "COMMIT\x00", Answered: true}, {Text: "COMMIT\x00", Answered: true, Skip: 1}, middle}
	}
	return []testdb.Point{{Text: "COMMIT", Receives: 100, Skip: 1}, {Text: "COMMIT", Receives: 50, Skip: 1}, {Text: "COMMIT", Skip: 1}, middle}
}

// TestCutAtPoints cuts a stream's connection to its target at one point in each run. The run
// connects again by itself, and every row is on the target once.
func TestCutAtPoints(t *testing.T) {
	t.Parallel()
	all := pairs()
	for _, i := range testdb.Draw(t, len(all), 1) {
		source, target := all[i].from(t), all[i].to(t)
		from, to := source.NewDatabase(t, "src"), target.NewDatabase(t, "dst")
		testdb.Load(t, from, strings.NewReader("CREATE TABLE k (id int PRIMARY KEY, n int, v varchar(80));\nCREATE TABLE loose (id int, n int, v varchar(80));\nINSERT INTO k VALUES (1, 0, 'a'), (2, 0, 'b'), (3, 0, 'c');\n"))
		keyless(t, from)
		dst, w := testdb.Through(t, to, streamFar)
		stream := []string{"replicate", from, dst, "--name", streamName(), "--target-schema", schema(to), "--until", "now"}
		must(t, stream...)
		n := 10
		for _, p := range points(target.Engine) {
			var b strings.Builder
			for range 60 {
				n++
				fmt.Fprintf(&b, "BEGIN;\nINSERT INTO k VALUES (%d, 0, 'mork%[1]d');\nUPDATE k SET n = n + 1 WHERE id = %d;\nINSERT INTO loose VALUES (%[2]d, %[1]d, 'mork%[1]d');\nCOMMIT;\n", n, 1+n%3)
			}
			testdb.Load(t, from, strings.NewReader(b.String()))
			w.CutAt(p)
			must(t, stream...)
			if !w.Reached() {
				t.Errorf("no connection got to %+v", p)
			}
			same(t, from, to, "SELECT id, n, v FROM k ORDER BY id", "SELECT id, n, v FROM loose ORDER BY n")
		}
		must(t, append(stream[:7:7], "--remove")...)
	}
}
