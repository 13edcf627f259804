package schemas

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

var (
	noise   = regexp.MustCompile(`(?m)^(--.*|\\.*|SET .*|SELECT pg_catalog.*|)$\n`)
	counter = regexp.MustCompile(` AUTO_INCREMENT=\d+`)
	implied = regexp.MustCompile(` CHARACTER SET \w+( COLLATE)`) // written or not, as the table was made
)

// ofType is the largest value of a column's type, which the identity of a table made by LIKE names,
// and which is left out in each further dump of a dump.
var ofType = regexp.MustCompile(`(?m)^    MAXVALUE (32767|2147483647)$`)

// What PostgreSQL makes of a list of texts, and what it makes of that: each further dump of a dump
// has the second.
var (
	listed = regexp.MustCompile(`\(ARRAY\[([^\]]*)\]\)::text\[\]`)
	casts  = regexp.MustCompile(`\(('(?:[^']|'')*'::character varying)\)::text`)
)

// words is what the server says of all of a database's tables and views.
func words(t *testing.T, engine, url string) string {
	if engine == "postgres" {
		text := ofType.ReplaceAllString(noise.ReplaceAllString(testdb.PgDump(t, url, "--schema-only"), ""), "    NO MAXVALUE")
		return casts.ReplaceAllString(listed.ReplaceAllString(text, "ARRAY[$1]"), "$1")
	}
	db := url[strings.LastIndex(url, "/")+1:]
	db, _, _ = strings.Cut(db, "?")
	var out []string
	for name := range strings.SplitSeq(testdb.Query(t, url, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME NOT LIKE 'tidemark%' ORDER BY TABLE_NAME"), "\n") {
		text := testdb.Query(t, url, "SHOW CREATE TABLE `"+strings.ReplaceAll(name, "`", "``")+"`")
		out = append(out, strings.ReplaceAll(implied.ReplaceAllString(counter.ReplaceAllString(text, ""), "$1"), db, "DB"))
	}
	return strings.Join(out, "\n")
}

// A fact is something that a copy to another kind of server carries, or says that it does not.
type fact struct{ kind, table, what, named string }

func (f fact) String() string { return f.kind + " of " + f.table + ": " + f.what }

type known []fact

// has reports whether there is such a fact: names are compared as the target may have to write
// them, since it folds or shortens them.
func (list known) has(f fact) bool {
	return slices.ContainsFunc(list, func(g fact) bool {
		return (f.kind == g.kind || f.kind == "index" && g.kind == "unique") && short(f.table) == short(g.table) && short(f.what) == short(g.what)
	})
}

// tables lists the tables, each once.
func (list known) tables() (out []string) {
	for _, f := range list {
		if f.kind == "column" && !slices.Contains(out, f.table) {
			out = append(out, f.table)
		}
	}
	return out
}

func short(s string) string { return strings.ToLower(s) }

const mysqlFacts = `
SELECT 'column', TABLE_NAME, CONCAT(COLUMN_NAME, IF(IS_NULLABLE = 'NO', ' NOT NULL', '')), COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME NOT LIKE 'tidemark%' AND TABLE_NAME IN (SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE = 'BASE TABLE');
SELECT IF(MAX(NON_UNIQUE) = 0, 'unique', 'index'), TABLE_NAME, GROUP_CONCAT(IF(SUB_PART > 0, '()', COALESCE(COLUMN_NAME, '()')) ORDER BY SEQ_IN_INDEX), INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME NOT LIKE 'tidemark%' GROUP BY TABLE_NAME, INDEX_NAME;
SELECT 'foreign key', TABLE_NAME, CONCAT(GROUP_CONCAT(COLUMN_NAME ORDER BY ORDINAL_POSITION), ' to ', MAX(REFERENCED_TABLE_NAME)), CONSTRAINT_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = DATABASE() AND REFERENCED_TABLE_NAME IS NOT NULL GROUP BY TABLE_NAME, CONSTRAINT_NAME`

const postgresFacts = `
SELECT 'column', c.relname, a.attname || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped;
SELECT CASE WHEN i.indisunique AND i.indpred IS NULL THEN 'unique' ELSE 'index' END, c.relname, (SELECT string_agg(COALESCE(a.attname, '()'), ',' ORDER BY k.n) FROM unnest(i.indkey[0:i.indnkeyatts-1]) WITH ORDINALITY k(num, n) LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.num AND k.num > 0), x.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p');
SELECT 'foreign key', c.relname, (SELECT string_agg(a.attname, ',' ORDER BY k.n) FROM unnest(f.conkey) WITH ORDINALITY k(num, n) JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.num) || ' to ' || r.relname, f.conname FROM pg_constraint f JOIN pg_class c ON c.oid = f.conrelid JOIN pg_class r ON r.oid = f.confrelid WHERE f.contype = 'f' AND c.relnamespace = 'public'::regnamespace`

func facts(t *testing.T, engine, url string) (out known) {
	sql := mysqlFacts
	if engine == "postgres" {
		sql = postgresFacts
	}
	for row := range strings.SplitSeq(testdb.Query(t, url, sql), "\n") {
		if v := strings.Split(row, "\t"); len(v) == 4 {
			out = append(out, fact{v[0], v[1], once(v[2]), v[3]})
		}
	}
	return out
}

// once drops the columns of a list that it has already.
func once(list string) string {
	var out []string
	for _, c := range strings.Split(list, ",") {
		if c == "()" || !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return strings.Join(out, ",")
}
