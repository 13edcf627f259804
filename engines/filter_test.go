package engines

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// A sort is a type, and its values in canonical text.
type sort struct {
	typ   string
	value func(r *rand.Rand) string
	sql   func(string) string // nil: quoted
	equal bool                // only equality can be tested
}

func one(of ...string) func(*rand.Rand) string {
	return func(r *rand.Rand) string { return of[r.IntN(len(of))] }
}

func around(low, high int64) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		if r.IntN(4) > 0 {
			return strconv.FormatInt(max(low, -10)+int64(r.IntN(21)), 10)
		}
		return strconv.FormatInt([]int64{low, high, low + 1, high - 1}[r.IntN(4)], 10)
	}
}

func decimal(digits int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		return fmt.Sprintf("%s%d.%0*d", []string{"", "-"}[r.IntN(2)], r.IntN(12), digits, r.IntN(5)*10)
	}
}

// day and hour have few values, so that they coincide.
func day(r *rand.Rand) string {
	return fmt.Sprintf("%d-%02d-%02d", []int{1000, 1999, 2025, 2026, 9999}[r.IntN(5)], []int{1, 2, 12}[r.IntN(3)], 1+r.IntN(28))
}

func hour(digits int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		out := fmt.Sprintf("%02d:%02d:%02d", r.IntN(24), r.IntN(2)*59, r.IntN(2)*59)
		if digits > 0 && r.IntN(2) == 0 {
			out += fmt.Sprintf(".%0*d", digits, r.IntN(3)*10+r.IntN(2))
		}
		return out
	}
}

func moment(day func(*rand.Rand) string, digits int, zone string) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		if r.IntN(4) == 0 {
			return day(r) + " 00:00:00" + zone
		}
		return day(r) + " " + hour(digits)(r) + zone
	}
}

func recent(r *rand.Rand) string {
	return fmt.Sprintf("%d-%02d-%02d", 2024+r.IntN(3), 1+r.IntN(12), 1+r.IntN(28))
}

func span(digits int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		return []string{"", "-"}[r.IntN(2)] + []string{hour(digits)(r), "00:00:00", "100:00:01", "837:59:59"}[r.IntN(4)]
	}
}

func octets(sizes ...int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		b := make([]byte, sizes[r.IntN(len(sizes))])
		for i := range b {
			b[i] = []byte{0, ' ', 'a', 'A', 0xff}[r.IntN(5)]
		}
		return `\x` + hex.EncodeToString(b)
	}
}

func asBytes(s string) string { return "x'" + s[2:] + "'" }

func identifier(r *rand.Rand) string {
	return fmt.Sprintf("%08x-0000-%d000-8000-%012x", r.IntN(3)<<28, 1+r.IntN(7), r.IntN(3))
}

var words = one("", " ", "a", "A", "a ", "  a", "á", "ab", "é", "ß", "ss", "'", `\`, `a"b`, "a\tb", "𝄞")

var mysqlSorts = []sort{
	{typ: "tinyint", value: around(-128, 127)},
	{typ: "int unsigned", value: around(0, 4294967295)},
	{typ: "bigint", value: around(-1<<63, 1<<63-1)},
	{typ: "bigint unsigned", value: one("0", "1", "9223372036854775807", "9223372036854775808", "18446744073709551615")},
	{typ: "decimal(10,3)", value: decimal(3)},
	{typ: "decimal(60,30)", value: decimal(25)},
	{typ: "date", value: day},
	{typ: "datetime", value: moment(day, 0, "")},
	{typ: "datetime(3)", value: moment(day, 3, "")},
	{typ: "timestamp(6) null", value: moment(recent, 6, "")},
	{typ: "time", value: span(0)},
	{typ: "time(2)", value: span(2)},
	{typ: "year", value: one("1901", "1999", "2000", "2026", "2155")},
	{typ: "binary(3)", value: octets(3), sql: asBytes},
	{typ: "varbinary(4)", value: octets(0, 1, 2, 4), sql: asBytes},
	{typ: "blob", value: octets(0, 1, 2, 4), sql: asBytes},
	{typ: "varchar(10) character set utf8mb4 collate utf8mb4_bin", value: words, equal: true},
	{typ: "text character set utf8mb4 collate utf8mb4_bin", value: words, equal: true},
	{typ: "char(4) character set latin1 collate latin1_bin", value: one("", "a", "A", "a ", "ab", "'"), equal: true},
	{typ: "enum('a','Bc','x y') character set utf8mb4", value: one("a", "Bc", "x y"), equal: true},
}

var postgresSorts = []sort{
	{typ: "smallint", value: around(-1<<15, 1<<15-1)},
	{typ: "integer", value: around(-1<<31, 1<<31-1)},
	{typ: "bigint", value: around(-1<<63, 1<<63-1)},
	{typ: "numeric", value: decimal(20)},
	{typ: "numeric(8,2)", value: decimal(2)},
	{typ: "boolean", value: one("t", "f")},
	{typ: "date", value: day},
	{typ: "timestamp", value: moment(day, 6, "")},
	{typ: "timestamp(2)", value: moment(day, 2, "")},
	{typ: "timestamptz", value: moment(day, 6, "+00")},
	{typ: "time", value: hour(6)},
	{typ: "uuid", value: identifier},
	{typ: "bytea", value: octets(0, 1, 2, 4)},
	{typ: "text", value: words, equal: true},
	{typ: "varchar(4)", value: words, equal: true},
	{typ: "char(4)", value: words, equal: true},
	{typ: `text COLLATE "C"`, value: words, equal: true},
	{typ: "mood", value: one("sad", "ok", "happy"), equal: true},
}

// odd holds values that a filter cannot have, but a row can.
var odd = map[string][]string{
	"numeric": {"NaN", "12345678901234567890123456789"}, "date": {"infinity", "-infinity", "0044-03-15 BC", "12026-01-01"},
	"timestamp": {"infinity", "-infinity", "0044-03-15 01:02:03 BC"}, "timestamptz": {"-infinity", "0044-03-15 01:02:03+00 BC", "12026-01-01 00:00:00+00"},
}

// TestFiltersAsTheServer compares the rows that filters let pass from the log with those that the
// server's own WHERE returns to a copy, for values of each type and random conditions.
func TestFiltersAsTheServer(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name  string
		srv   func(*testing.T) *testdb.Server
		sorts []sort
	}{
		{"mysql", func(t *testing.T) *testdb.Server { return testdb.MySQL(t) }, append(slices.Clone(mysqlSorts), sort{typ: "varchar(8) character set utf8mb4 collate utf8mb4_0900_bin", value: words, equal: true})},
		{"mariadb", func(t *testing.T) *testdb.Server { return testdb.MariaDB(t) }, append(slices.Clone(mysqlSorts), sort{typ: "uuid", value: identifier, equal: true}, sort{typ: "varchar(8) character set utf8mb4 collate utf8mb4_nopad_bin", value: words, equal: true})},
		{"postgres", func(t *testing.T) *testdb.Server { return testdb.Postgres(t, 14) }, postgresSorts},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 1))
			url := x.srv(t).NewDatabase(t, "rows")
			m, changes := logged(t, url, x.sorts, rnd)
			reader, err := Open(t.Context(), url, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			if _, err := reader.Freeze(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			some := 0
			for i := range 15 * len(x.sorts) {
				m.Filter = []tidemark.Filter{condition(rnd, x.sorts, i%len(x.sorts))}
				if rnd.IntN(4) == 0 {
					m.Filter = append(m.Filter, condition(rnd, x.sorts, rnd.IntN(len(x.sorts))))
				}
				text, err := json.Marshal(m.Filter)
				if err != nil {
					t.Fatal(err)
				}
				got, want := passed(t, m, string(text), changes), copied(t, reader, m)
				if !slices.Equal(got, want) {
					c := m.From.Column(m.Filter[0].Column)
					t.Errorf("%s of %s: the log's rows are %v, the server's %v", text, c.Type.Native, got, want)
				}
				if len(got) > 0 && len(got) < 200 {
					some++
				}
			}
			if some < 5*len(x.sorts) {
				t.Errorf("only %d filters let some rows pass", some)
			}
		})
	}
}

// condition creates a filter of a column.
func condition(r *rand.Rand, sorts []sort, i int) tidemark.Filter {
	ops := []string{"eq", "noteq", "null", "notnull", "gte", "ste", "between", "notbetween"}
	if sorts[i].equal {
		ops = ops[:4]
	}
	f := tidemark.Filter{Column: fmt.Sprintf("c%d", i)}
	for range 1 + r.IntN(2) {
		c := tidemark.Condition{Op: ops[r.IntN(len(ops))]}
		switch c.Op {
		case "null", "notnull":
		case "between", "notbetween":
			c.Start, c.End = sorts[i].value(r), sorts[i].value(r)
		default:
			c.Value = sorts[i].value(r)
		}
		f.Conditions = append(f.Conditions, c)
	}
	return f
}

const loggedRows = 200

// logged creates a table with a column of each type and rows in it, and returns their log.
func logged(t *testing.T, url string, sorts []sort, r *rand.Rand) (*tidemark.Move, []byte) {
	t.Helper()
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	before, create := "SET TimeZone = 'UTC'; CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');\n", "CREATE TABLE v (id int PRIMARY KEY"
	if strings.HasPrefix(url, "mysql") || strings.HasPrefix(url, "mariadb") {
		before = "SET NAMES utf8mb4, time_zone = '+00:00', sql_mode = 'NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES';\n"
	}
	for i, s := range sorts {
		create += fmt.Sprintf(", c%d %s", i, s.typ)
	}
	testdb.Load(t, url, strings.NewReader(before+create+")"))
	e, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	db, err := e.Describe(t.Context(), nil)
	if err != nil || len(db.Tables) != 1 {
		t.Fatal(err, len(db.Tables))
	}
	m := &tidemark.Move{From: db.Tables[0], To: db.Tables[0], Source: []string{"id"}}
	from, name := e.(capture.Source), fmt.Sprintf("f%d", time.Now().UnixNano())
	whole := []tidemark.Move{{From: m.From}}
	if err := from.Hold(t.Context(), name, whole); err != nil {
		t.Fatal(err)
	}
	after, err := from.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	insert := "INSERT INTO v VALUES"
	for id := range loggedRows {
		insert += []string{",\n(", "\n("}[max(0, 1-id)] + strconv.Itoa(id)
		for _, s := range sorts {
			v := s.value(r)
			switch more := odd[s.typ]; {
			case r.IntN(10) == 0:
				insert += ", NULL"
				continue
			case r.IntN(10) == 0 && len(more) > 0 && strings.HasPrefix(url, "postgres"):
				v = more[r.IntN(len(more))]
			}
			if s.sql != nil {
				insert += ", " + s.sql(v)
			} else {
				insert += ", " + quote(v)
			}
		}
		insert += ")"
	}
	if strings.HasPrefix(url, "postgres") {
		before = "SET TimeZone = 'UTC';\n"
	}
	testdb.Load(t, url, strings.NewReader(before+insert))
	stream, err := from.Follow(t.Context(), name, whole, after)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var changes []byte
	rows, all := 0, errors.New("that is all")
	err = stream.Run(t.Context(), func(tx *change.Tx) error {
		if rows += tx.Rows; tx.Rows > 0 {
			changes = append(changes, tx.Changes...)
		}
		if rows >= loggedRows {
			return all
		}
		return nil
	})
	if !errors.Is(err, all) || rows != loggedRows {
		t.Fatalf("%d rows: %v", rows, err)
	}
	return m, changes
}

// passed returns the rows that a filter lets pass.
func passed(t *testing.T, m *tidemark.Move, text string, changes []byte) (ids []int) {
	t.Helper()
	family := "mysql"
	if m.From.Schema == "public" {
		family = "postgres"
	}
	f, err := capture.NewFilter(family, []tidemark.Move{*m})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	tx := &change.Tx{Changes: slices.Clone(changes)}
	if err := f.Pass(t.Context(), tx); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for rest := tx.Changes; len(rest) > 0; {
		var c change.Change
		if c, rest, err = change.Next(rest); err != nil {
			t.Fatal(err)
		}
		if c.Kind == tidemark.InsertChange {
			id, err := strconv.Atoi(string(c.New.Values(nil)[0].Data))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// copied returns the rows that a copy would read.
func copied(t *testing.T, e Database, m *tidemark.Move) (ids []int) {
	t.Helper()
	err := e.Read(t.Context(), 0, tidemark.Read{Move: m, Range: &tidemark.Range{}}, func(b *tidemark.Batch) error {
		defer b.Release()
		for line := range bytes.Lines(b.Data) {
			id, err := strconv.Atoi(strings.TrimSpace(string(line)))
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}
