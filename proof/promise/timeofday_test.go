package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestTimeOfDay: a TIME that a rule makes a time of day, as check and the manual advise, is one on
// PostgreSQL, however its rows come, and compares equal; a duration is refused there.
func TestTimeOfDay(t *testing.T) {
	const dms = `{"rules": [{"rule-type": "selection", "rule-id": "1", "rule-name": "1", "rule-action": "include", "object-locator": {"schema-name": "%", "table-name": "%"}},` +
		`{"rule-type": "transformation", "rule-id": "2", "rule-name": "2", "rule-target": "column", "rule-action": "change-data-type", "object-locator": {"schema-name": "%", "table-name": "%", "column-name": "t"}, "data-type": {"type": "time"}},` +
		`{"rule-type": "transformation", "rule-id": "3", "rule-name": "3", "rule-target": "column", "rule-action": "change-data-type", "object-locator": {"schema-name": "%", "table-name": "%", "column-name": "t3"}, "data-type": {"type": "time", "scale": 3}}]}`
	const types = "SELECT string_agg(format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'd'::regclass AND attnum > 0"
	const columns = "integer, time without time zone, time(3) without time zone, interval(0)"
	const values = "SELECT id, t::text, t3::text, span::text FROM d ORDER BY id"
	const first = "1\t00:00:00\t24:00:00\t-10:00:00\n2\t23:59:59\t08:30:00.125\t25:00:00\n3\t24:00:00\tNULL\tNULL\n4\t09:00:00\t10:00:00\t00:00:00"
	yaml := []string{"--config", testdb.Written(t, "rules.yaml", "tables: {\"*\": {types: {t: time, t3: time(3)}}}\n")}
	json := []string{"--table-mappings", testdb.Written(t, "rules.json", dms)}
	for _, from := range []string{"mysql", "mariadb"} {
		src, pg := testdb.ServerOf(t, from).NewDatabase(t, "src"), testdb.ServerOf(t, "postgres")
		testdb.Query(t, src, "CREATE TABLE d (id int PRIMARY KEY, t time DEFAULT '09:00:00', t3 time(3) DEFAULT '10:00:00', span time DEFAULT '00:00:00', KEY (t)); "+
			"INSERT INTO d VALUES (1, '00:00:00', '24:00:00', '-10:00:00'), (2, '23:59:59', '8:30:00.125', '25:00:00'), (3, '24:00:00', NULL, NULL); INSERT INTO d (id) VALUES (4)")
		holds := func(way, dst, want string) {
			t.Helper()
			if got := testdb.Query(t, dst, types); got != columns {
				t.Errorf("%s, %s: the columns are %s", from, way, got)
			}
			if got := testdb.Query(t, dst, values); got != want {
				t.Errorf("%s, %s: %q, not %q", from, way, got, want)
			}
		}
		for _, rules := range [][]string{yaml, json} {
			dst := pg.NewDatabase(t, "dst")
			if out := testdb.Must(t, append([]string{"check", src, dst}, rules...)...); !strings.Contains(out, ".d.span") || strings.Contains(out, ".d.t3") {
				t.Errorf("%s: check names other columns that become intervals than d.span:\n%s", from, out)
			}
			testdb.Must(t, append([]string{"copy", src, dst}, rules...)...)
			holds("copy", dst, first)
			testdb.Must(t, append([]string{"diff", src, dst}, rules...)...)
			testdb.Must(t, append([]string{"diff", src, dst, "--definitions"}, rules...)...)
			testdb.Query(t, dst, "INSERT INTO d (id) VALUES (5)")
			holds("defaults", dst, first+"\n5\t09:00:00\t10:00:00\t00:00:00")
		}
		dst := pg.NewDatabase(t, "dst")
		testdb.Must(t, append([]string{"copy", "file:" + testdb.MySQLDump(t, src), dst}, yaml...)...)
		holds("dump", dst, first)

		dst = pg.NewDatabase(t, "dst")
		stream := append([]string{"replicate", src, dst, "--name", "timeofday", "--until", "now"}, yaml...)
		testdb.Must(t, stream...)
		testdb.Query(t, src, "UPDATE d SET t = '12:00:01' WHERE id = 1; INSERT INTO d VALUES (5, '24:00:00', '23:59:59.999', '838:59:59'); DELETE FROM d WHERE id = 2")
		testdb.Must(t, stream...)
		holds("stream", dst, "1\t12:00:01\t24:00:00\t-10:00:00\n3\t24:00:00\tNULL\tNULL\n4\t09:00:00\t10:00:00\t00:00:00\n5\t24:00:00\t23:59:59.999\t838:59:59")
		testdb.Must(t, append([]string{"diff", src, dst}, yaml...)...)
		testdb.Must(t, append(stream, "--remove")...)

		testdb.Query(t, src, "INSERT INTO d (id, t) VALUES (6, '-01:00:00'), (7, '24:00:01'), (8, '100:00:00'), (9, '17:00:00')")
		for _, source := range []string{src, "file:" + testdb.MySQLDump(t, src)} {
			dst = pg.NewDatabase(t, "dst")
			if o := testdb.Run(t, append([]string{"copy", source, dst}, yaml...)...); o.Code == 0 {
				t.Errorf("%s: a duration is copied as a time of day", source)
			}
			dst = pg.NewDatabase(t, "dst")
			o := testdb.Run(t, append([]string{"copy", source, dst, "--reject-limit", "3", "--reject-dir", t.TempDir()}, yaml...)...)
			if got := testdb.Query(t, dst, "SELECT string_agg(id || ' ' || t, ', ' ORDER BY id) FROM d WHERE id > 4"); got != "5 24:00:00, 9 17:00:00" {
				t.Errorf("%s: beside durations arrive %s: exit %d\n%s%s", source, got, o.Code, o.Out, o.ErrOut)
			}
		}
	}
}
