// Package dumpdiff compares dump files with databases that were filled from them, and then changed
// by their own clients.
package dumpdiff

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// target is a server that a dump is copied to.
func target(t testing.TB, engine string) *testdb.Server {
	if engine == "postgres" {
		return testdb.Postgres(t, 15)
	}
	return testdb.ServerOf(t, engine)
}

// differ runs a comparison that must end with this exit code, and returns what it printed.
func differ(t *testing.T, code int, args ...string) string {
	t.Helper()
	out := testdb.Run(t, append([]string{"diff"}, args...)...)
	if out.Code != code {
		t.Errorf("diff %q: exit %d instead of %d\n%s%s", args, out.Code, code, out.ErrOut, out.Out)
	}
	return out.Out + out.ErrOut
}

// A zoo is a database with a value of every type, and its dumps.
type zoo struct {
	engine string
	whole  string // file
	common string // the same without what other engines cannot hold
}

func newZoo(t *testing.T, engine string) *zoo {
	src := testdb.ServerOf(t, engine).NewDatabase(t, "zoo")
	var text io.Reader = testdb.Sample(t, "types-zoo/mysql.sql")
	if engine == "mysql" {
		text = testdb.SampleMySQL8(t, "types-zoo/mysql.sql")
	}
	testdb.Load(t, src, text)
	z := &zoo{engine: engine, whole: testdb.MySQLDump(t, src, "--hex-blob", "--skip-triggers")}
	testdb.Query(t, src, "DELETE FROM t_enum WHERE id = 7; DELETE FROM t_json WHERE id = 4; UPDATE t_str SET mt = replace(mt, char(0), ''), lt = replace(lt, char(0), '')")
	z.common = testdb.MySQLDump(t, src, "--skip-triggers", "--skip-extended-insert", "--order-by-primary")
	return z
}

// copied copies the dump that a target can hold, and returns it.
func (z *zoo) copied(t *testing.T, to, dst string) (file string, options []string) {
	if file = z.common; to == z.engine {
		file = z.whole
	}
	if to == "postgres" {
		options = []string{"--zero-dates", "null"}
	}
	testdb.Must(t, append([]string{"copy", file, dst}, options...)...)
	return file, options
}

// Every database that a dump with a value of every type was copied to is equal to it, on either
// side. What its own client then changes is found, column by column, and nothing else.
func TestDumpZoo(t *testing.T) {
	for _, from := range []string{"mysql", "mariadb"} {
		z := newZoo(t, from)
		for _, to := range []string{"postgres", "mysql", "mariadb"} {
			t.Run(from+"-"+to, func(t *testing.T) {
				t.Parallel()
				dst := target(t, to).NewDatabase(t, "zoo")
				file, options := z.copied(t, to, dst)
				if out := differ(t, 0, append([]string{file, dst}, options...)...); !strings.Contains(out, "24 tables compared, all equal") {
					t.Errorf("not all tables were compared:\n%s", out)
				}
				differ(t, 0, append([]string{dst, file}, options...)...)
				var want []string
				for _, c := range changes {
					set := c.sql
					if to == "postgres" {
						set = c.postgres()
					}
					testdb.Query(t, dst, set)
					want = append(want, c.found...)
				}
				slices.Sort(want)
				if got := found(t, append([]string{file, dst, "--max-printed", "1000"}, options...)); !slices.Equal(got, want) {
					t.Errorf("found\n%s\ninstead of\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				for i, w := range want {
					want[i] = strings.NewReplacer(" missing ", " extra ", " extra ", " missing ").Replace(w)
				}
				slices.Sort(want)
				if got := found(t, append([]string{dst, file, "--max-printed", "1000"}, options...)); !slices.Equal(got, want) {
					t.Errorf("the other way round, found\n%s\ninstead of\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

// A change is made by the target's own client.
type change struct {
	sql   string
	pg    string   // where PostgreSQL needs another text
	found []string // "table kind key: columns"
}

var inHex = regexp.MustCompile(`0x([0-9a-f]+)`)

func (c *change) postgres() string {
	if c.pg != "" {
		return c.pg
	}
	return inHex.ReplaceAllString(c.sql, `'\x$1'`)
}

const bits64 = "0000000000000000000000000000000000000000000000000000000000000100"

var changes = []change{
	{sql: "UPDATE t_int SET ti = 2, tiu = 2, si = 2, siu = 2, mi = 2, miu = 2, i = 2, iu = 2, bi = 2, biu = 2, b1 = 6, zf = 43, yr = 1902, bt1 = b'0', bt8 = b'00001011', bt64 = b'" + bits64 + "' WHERE id = 3",
		found: []string{"t_int different 3: ti tiu si siu mi miu i iu bi biu b1 zf yr bt1 bt8 bt64"}},
	{sql: "UPDATE t_int SET biu = 18446744073709551614 WHERE id = 1", found: []string{"t_int different 1: biu"}},
	{sql: "UPDATE t_int SET ti = 0 WHERE id = 2", found: []string{"t_int different 2: ti"}}, // NULL before
	{sql: "UPDATE t_num SET d = -0.000000000000000000000000000002 WHERE id = 2", found: []string{"t_num different 2: d"}},
	{sql: "UPDATE t_num SET d = 0.2, d10 = 1, du = 0.02, f = 0.2, f2 = 0.2, db = 0.30000000000000004, dbp = 0.300001, dbu = 0.3 WHERE id = 4", found: []string{"t_num different 4: d d10 du f f2 db dbp dbu"}},
	{sql: "UPDATE t_time SET d = '2023-03-02', t = '12:34:57', t6 = '12:34:56.789013', dt = '2024-02-29 12:34:57', dt3 = '2024-02-29 12:34:56.788', dt6 = '2024-02-29 12:34:56.789013', ts = ts + INTERVAL '1' SECOND, ts6 = ts6 + INTERVAL '1' SECOND, upd = upd + INTERVAL '1' SECOND WHERE id = 5",
		found: []string{"t_time different 5: d t t6 dt dt3 dt6 ts ts6 upd"}},
	{sql: "UPDATE t_time SET d = '1970-01-01', upd = upd + INTERVAL '1' SECOND WHERE id = 4", found: []string{"t_time different 4: d upd"}},
	{sql: "UPDATE t_str SET c = '', v = '', bin = 0x0000000000000000, vb = '', tt = '', t = '', mt = '', lt = '' WHERE id = 4", found: []string{"t_str different 4: c v bin vb tt t mt lt"}}, // NULL before
	{sql: "UPDATE t_str SET v = 'csv', bin = 0x3132333435363739, vb = 0x74, tt = 'a;', t = ' ', mt = '`', lt = '$', tb = 0x5c5c, b = 0x27, mb = 0x22, lb = 0x60ff WHERE id = 6",
		found: []string{"t_str different 6: v bin vb tt t mt lt tb lb"}},
	{sql: "UPDATE t_str SET lt = concat(substr(lt, 1, 299999), 'e') WHERE id = 5", found: []string{"t_str different 5: lt"}},
	{sql: "UPDATE t_str SET c = '日本話' WHERE id = 3", found: []string{"t_str different 3: c"}},
	{sql: "UPDATE t_enum SET e = 'a', s = 'x', e2 = '2', s64 = '33' WHERE id = 5", found: []string{"t_enum different 5: e s e2 s64"}},
	{sql: "UPDATE t_enum SET e = '', s = '' WHERE id = 3", found: []string{"t_enum different 3: e s"}}, // NULL before
	{sql: `UPDATE t_json SET j = '{"name":"b","b":2}' WHERE id = 1`, found: []string{"t_json different 1: j"}},
	{sql: "UPDATE t_json SET j = NULL WHERE id = 2", found: []string{"t_json different 2: j"}}, // null before, as JSON has it
	{sql: "UPDATE t_geo SET g = NULL, l = NULL WHERE id = 1", found: []string{"t_geo different 1: g l"}},
	{sql: "UPDATE t_latin1 SET c = 'è', t = 'cafe €' WHERE id = 1", found: []string{"t_latin1 different 1: c t"}},
	{sql: "UPDATE t_charsets SET u3 = 'žlut', cp = 'привет', sj = '日本話', uc = 'u€', u16 = '😁', gb = '中', l2 = 'kun', asc_ = 'asciI', bi = 'AA' WHERE id = 1", found: []string{"t_charsets different 1: u3 cp sj uc u16 gb l2 asc_ bi"}},
	{sql: "DELETE FROM no_pk WHERE a = 1 LIMIT 1", pg: "DELETE FROM no_pk WHERE ctid = (SELECT ctid FROM no_pk WHERE a = 1 LIMIT 1)", found: []string{"no_pk missing 1 dup: "}},
	{sql: "INSERT INTO no_pk VALUES (NULL, NULL), (NULL, '')", found: []string{"no_pk extra NULL : ", "no_pk extra NULL NULL: "}},
	{sql: "UPDATE uk_only SET b = 2 WHERE a = 1", found: []string{"uk_only extra 1 2: ", "uk_only missing 1 1: "}},
	{sql: "UPDATE ci_unique SET v = 'ABC' WHERE v = 'abc'", found: []string{"ci_unique extra ABC: ", "ci_unique missing abc: "}},
	{sql: "UPDATE part_range SET v = 'x' WHERE id = 1500", found: []string{"part_range different 1500 2022-02-09: v"}},
	{sql: "DELETE FROM part_range WHERE id = 7", found: []string{"part_range missing 7 2018-01-08: "}},
	{sql: "UPDATE part_range SET id = 9001 WHERE id = 9", found: []string{"part_range extra 9001 2018-01-10: ", "part_range missing 9 2018-01-10: "}},
	{sql: "INSERT INTO t_empty VALUES (5, NULL)", found: []string{"t_empty extra 5: "}},
	{sql: "UPDATE chk SET v = 2 WHERE id = 1", found: []string{"chk different 1: v"}},
	{sql: "DELETE FROM t_ft", found: []string{"t_ft missing 1: ", "t_ft missing 2: "}},
	{sql: "UPDATE t_myisam SET v = 9 WHERE g = 'b'", found: []string{"t_myisam different b 1: v"}},
}

// found runs a comparison of which something differs, and lists all of it.
func found(t *testing.T, args []string) (out []string) {
	t.Helper()
	var result struct {
		Tables []struct {
			Source                    struct{ Name string }
			Missing, Extra, Different int
			Rows                      []struct {
				Kind    string
				Count   int
				Values  []struct{ Text *string }
				Changes []struct{ Column string }
			}
		}
	}
	text := testdb.Run(t, append([]string{"diff", "--json"}, args...)...)
	if text.Code != 1 {
		t.Fatalf("diff %q: exit %d\n%s%s", args, text.Code, text.ErrOut, text.Out)
	}
	at := strings.Index(text.Out, "\n{\n")
	if err := json.Unmarshal([]byte(text.Out[at+1:]), &result); err != nil {
		t.Fatalf("%v\n%s", err, text.Out)
	}
	for _, table := range result.Tables {
		n := 0
		for _, r := range table.Rows {
			var key, columns []string
			for _, v := range r.Values {
				if v.Text == nil {
					key = append(key, "NULL")
				} else {
					key = append(key, *v.Text)
				}
			}
			for _, c := range r.Changes {
				columns = append(columns, c.Column)
			}
			n += r.Count
			for range r.Count {
				out = append(out, fmt.Sprintf("%s %s %s: %s", table.Source.Name, r.Kind, strings.Join(key, " "), strings.Join(columns, " ")))
			}
		}
		if n != table.Missing+table.Extra+table.Different {
			t.Errorf("%s: %d rows are listed, and %d missing, %d extra and %d different", table.Source.Name, n, table.Missing, table.Extra, table.Different)
		}
	}
	slices.Sort(out)
	return out
}
