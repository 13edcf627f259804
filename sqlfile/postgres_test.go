package sqlfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A twinType is a PostgreSQL type for a column, and expressions on both sides that yield the same
// text for the same value.
type twinType struct{ pg, pgText, myText string }

func pgType(c *tidemark.Column) (twinType, tidemark.TypeKind) {
	k := c.Type.Kind
	same := func(pg string) twinType { return twinType{pg, "%s::text", "CAST(%s AS CHAR)"} }
	hexed := twinType{"bytea", "upper(encode(%s,'hex'))", "HEX(%s)"}
	text := twinType{"text", "upper(encode(convert_to(%s,'UTF8'),'hex'))", "HEX(CONVERT(%s USING utf8mb4))"}
	switch {
	case k == tidemark.Int || k == tidemark.Year:
		return twinType{"numeric", "%s::text", "CAST(%s+0 AS CHAR)"}, k
	case k == tidemark.Decimal:
		return same("numeric"), k
	case k == tidemark.Float:
		return twinType{"text", "%s", "CAST(%s AS CHAR)"}, k
	case k.Bytes():
		return hexed, k
	case k == tidemark.Bit:
		return twinType{fmt.Sprintf("bit(%d)", c.Type.Length), "ltrim(%s::text,'0')", "TRIM(LEADING '0' FROM BIN(%s))"}, k
	case k == tidemark.Date:
		return same("date"), k
	case k == tidemark.DateTime, k == tidemark.Timestamp:
		return twinType{"timestamp", "to_char(%s,'YYYY-MM-DD HH24:MI:SS.US')", "DATE_FORMAT(%s,'%%Y-%%m-%%d %%H:%%i:%%s.%%f')"}, k
	case k == tidemark.Time:
		return twinType{"interval", "extract(epoch from %s)::numeric(20,6)::text", "CAST(TRUNCATE(TIME_TO_SEC(%[1]s),0)+IF(%[1]s<0,-1,1)*MICROSECOND(%[1]s)/1e6 AS DECIMAL(20,6))"}, tidemark.Interval
	case k == tidemark.Geometry: // EWKB without its SRID equals what MySQL has after its own
		return twinType{"text", "CASE WHEN substr(%[1]s,9,2)='20' THEN substr(%[1]s,1,8)||'00'||substr(%[1]s,19) ELSE %[1]s END", "LOWER(SUBSTRING(HEX(%s),9))"}, k
	}
	return text, k
}

// The rows of a dump, as COPY text, are the same in PostgreSQL as in MySQL.
func TestDumpIntoPostgres(t *testing.T) {
	for _, my := range []*testdb.Server{testdb.MariaDB(t), testdb.MySQL(t)} {
		sample := testdb.Sample
		if my.Engine == "mysql" {
			sample = testdb.SampleMySQL8
		}
		for _, s := range []struct{ name, file string }{{"zoo", "types-zoo/mysql.sql"}, {"sakila", "sakila/mysql.sql.zst"}} {
			t.Run(my.Engine+"/"+s.name, func(t *testing.T) {
				source, target := my.NewDatabase(t, s.name), testdb.Postgres(t, 15).NewDatabase(t, s.name)
				testdb.Load(t, source, sample(t, s.file))
				if s.name == "zoo" { // PostgreSQL's text cannot hold a NUL
					testdb.Query(t, source, "SET sql_mode='ALLOW_INVALID_DATES'; UPDATE t_str SET mt=REPLACE(mt,'\\0',''), lt=REPLACE(lt,'\\0',''), tt=REPLACE(tt,'\\0',''), t=REPLACE(t,'\\0','')")
				}
				for _, args := range [][]string{{databaseName(source)}, {"--hex-blob", databaseName(source)}} {
					copyInto(t, dump(t, my, args...), source, target)
				}
			})
		}
	}
}

func copyInto(t *testing.T, file []byte, source, target string) {
	t.Helper()
	pieces := map[string][]*Tuples{}
	defs := map[string]*tidemark.Table{}
	for _, st := range all(t, bytes.NewReader(file), Options{Piece: 50 << 10}) {
		if st.Def != nil {
			defs[st.Table] = st.Def
		}
		if st.Tuples != nil {
			pieces[st.Table] = append(pieces[st.Table], st.Tuples)
		}
	}
	quoted := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	n := 0
	for table, ps := range pieces {
		def := defs[table]
		to := *def
		to.Columns = nil
		var decl, mine, theirs []string
		for _, c := range def.Stored() {
			twin, kind := pgType(&c)
			decl = append(decl, quoted(c.Name)+" "+twin.pg)
			mine = append(mine, "coalesce("+fmt.Sprintf(twin.myText, name(c.Name))+",'(null)')")
			theirs = append(theirs, "coalesce("+fmt.Sprintf(twin.pgText, quoted(c.Name))+",'(null)')")
			c.Type = tidemark.Type{Kind: kind}
			to.Columns = append(to.Columns, c)
		}
		m := move(def)
		m.To = &to
		text, rows, err := convert(m, tidemark.CopyText, ConvertOptions{ZeroDates: ZeroNull}, ps...)
		if err != nil {
			t.Errorf("%s: %v", table, err)
			continue
		}
		n++
		there := fmt.Sprintf("t%d", n)
		testdb.Load(t, target, strings.NewReader(fmt.Sprintf("DROP TABLE IF EXISTS %[1]s; CREATE TABLE %[1]s (%[2]s); SET client_min_messages=error;\nCOPY %[1]s FROM stdin;\n%[3]s\\.\n", there, strings.Join(decl, ","), text)))
		want := testdb.Query(t, source, "SET time_zone='+00:00'; SELECT CONCAT_WS('|',"+strings.Join(mine, ",")+") FROM "+name(table))
		got := testdb.Query(t, target, "SELECT concat_ws('|',"+strings.Join(theirs, ",")+") FROM "+there)
		if diff := cmp.Diff(lines(datesOut(want)), lines(got)); diff != "" || rows != len(lines(want)) {
			t.Errorf("%s: %d rows of %d; MySQL has -, PostgreSQL +\n%.3000s", table, rows, len(lines(want)), diff)
		}
	}
}

// datesOut replaces dates that are invalid in PostgreSQL by NULL, as the test requests.
func datesOut(s string) string {
	for _, zero := range []string{"0000-00-00 00:00:00.000000", "0000-00-00", "2024-00-00", "2024-02-00 10:00:00.000000", "2023-02-31"} {
		s = strings.ReplaceAll(s, "|"+zero, "|(null)")
	}
	return s
}

// lines returns the lines of s, sorted: without ORDER BY they have no order.
func lines(s string) []string {
	out := strings.Split(s, "\n")
	slices.Sort(out)
	return out
}
