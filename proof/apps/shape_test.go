package apps

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// A column is what the server's catalogue says of one.
type column struct {
	name, family string
	declared     string // its type, as the server names it
	notNull      bool
	hasDefault   bool
	numbered     bool // the server numbers its rows
	computed     bool
	fixed        bool // binary(n)
	wide         bool // takes all of Unicode
	unique       bool // in a key
	postgres     bool
	length       int // of text and bytes; digits
	scale        int
	max          uint64
	labels       []string
}

// families are the types of both kinds of servers, by what their values are.
var families = map[string]string{
	"tinyint": "int", "smallint": "int", "mediumint": "int", "int": "int", "bigint": "int", "integer": "int", "year": "",
	"float": "float", "double": "float", "real": "float", "double precision": "float", "decimal": "decimal", "numeric": "decimal",
	"char": "text", "varchar": "text", "tinytext": "text", "text": "text", "mediumtext": "text", "longtext": "text", "character varying": "text", "character": "text", "name": "text",
	"binary": "bytes", "varbinary": "bytes", "tinyblob": "bytes", "blob": "bytes", "mediumblob": "bytes", "longblob": "bytes", "bytea": "bytes",
	"datetime": "time", "timestamp": "time", "timestamp without time zone": "time", "timestamp with time zone": "time", "date": "date", "time": "clock", "time without time zone": "clock",
	"boolean": "bool", "json": "json", "jsonb": "json", "uuid": "uuid", "inet": "inet", "inet6": "inet", "inet4": "inet", "enum": "label", "set": "label",
}

var maxima = map[string]uint64{"tinyint": 127, "tinyint unsigned": 255, "smallint": math.MaxInt16, "smallint unsigned": math.MaxUint16, "mediumint": 1<<23 - 1, "mediumint unsigned": 1<<24 - 1,
	"int": math.MaxInt32, "integer": math.MaxInt32, "int unsigned": math.MaxUint32, "bigint": math.MaxInt64, "bigint unsigned": math.MaxUint64}

var label = regexp.MustCompile(`'((?:[^']|'')*)'`)

// shape reads the columns of all tables of a database, in order, and its keys: "primary a,b",
// "unique a,b", "index a,b" and "foreign a,b -> parent(a,b)", with the name of each.
func shape(t *testing.T, url string) (columns map[string][]column, keys map[string]map[string]string) {
	t.Helper()
	columns, keys = map[string][]column{}, map[string]map[string]string{}
	columnsSQL, keysSQL := mysqlColumns, mysqlKeys
	if family(url) == "postgres" {
		columnsSQL, keysSQL = postgresColumns, postgresKeys
	}
	for _, f := range lines(testdb.Query(t, url, keysSQL)) {
		if keys[f[0]] == nil {
			keys[f[0]] = map[string]string{}
		}
		keys[f[0]][f[1]] = f[2]
	}
	for _, f := range lines(testdb.Query(t, url, columnsSQL)) {
		c := column{name: f[1], declared: f[3], family: families[f[2]], notNull: f[4] == "NO", hasDefault: f[5] == "1", numbered: f[6] == "1", computed: f[7] == "1",
			fixed: f[2] == "binary", wide: f[10] == "utf8mb4", postgres: family(url) == "postgres"}
		c.length, _ = strconv.Atoi(f[8])
		c.length = min(c.length, 4000)
		c.scale, _ = strconv.Atoi(f[9])
		kind := f[2]
		if strings.Contains(f[3], "unsigned") {
			kind += " unsigned"
		}
		c.max = cmp.Or(maxima[kind], math.MaxInt16)
		for _, m := range label.FindAllStringSubmatch(f[3], -1) {
			c.labels = append(c.labels, strings.ReplaceAll(m[1], "''", "'"))
		}
		if f[2] == "USER-DEFINED" && len(c.labels) > 0 {
			c.family = "label"
		}
		for key := range keys[f[0]] {
			kind, list, _ := strings.Cut(key, " ")
			c.unique = c.unique || kind != "index" && slices.Contains(strings.Split(list, ","), c.name)
		}
		columns[f[0]] = append(columns[f[0]], c)
	}
	return columns, keys
}

// foreign splits one of these keys that is foreign.
func foreign(key string) (here, there string, ok bool) {
	key, ok = strings.CutPrefix(key, "foreign ")
	if ok {
		here, there, _ = strings.Cut(key, " -> ")
	}
	return here, there, ok
}

func lines(text string) (out [][]string) {
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			out = append(out, strings.Split(line, "\t"))
		}
	}
	return out
}

// Table, column, kind of type, type, nullable, default, numbered, computed, length, scale, charset.
const mysqlColumns = `SELECT c.table_name, c.column_name, c.data_type, REPLACE(REPLACE(c.column_type, '\t', ' '), '\n', ' '), c.is_nullable,
	c.column_default IS NOT NULL AND c.column_default <> 'NULL', c.extra LIKE '%auto_increment%', c.extra LIKE '%GENERATED%' AND c.extra NOT LIKE 'DEFAULT_GENERATED%',
	COALESCE(c.character_maximum_length, c.numeric_precision, 0), COALESCE(c.numeric_scale, 0), COALESCE(c.character_set_name, '')
	FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
	WHERE table_schema = DATABASE() AND t.table_type = 'BASE TABLE' AND c.table_name NOT LIKE 'tidemark%' ORDER BY c.table_name, c.ordinal_position`

const mysqlKeys = `SET SESSION group_concat_max_len = 100000; SELECT table_name, CONCAT(IF(index_name = 'PRIMARY', 'primary ', IF(MAX(non_unique), 'index ', 'unique ')),
	GROUP_CONCAT(COALESCE(column_name, '?') ORDER BY seq_in_index SEPARATOR ',')), index_name FROM information_schema.statistics
	WHERE table_schema = DATABASE() AND index_type <> 'FULLTEXT' AND table_name NOT LIKE 'tidemark%' GROUP BY table_name, index_name
	UNION ALL SELECT table_name, CONCAT('foreign ', GROUP_CONCAT(column_name ORDER BY ordinal_position SEPARATOR ','), ' -> ', MAX(referenced_table_name), '(',
	GROUP_CONCAT(referenced_column_name ORDER BY ordinal_position SEPARATOR ','), ')'), constraint_name FROM information_schema.key_column_usage
	WHERE table_schema = DATABASE() AND referenced_table_name IS NOT NULL GROUP BY table_name, constraint_name`

const postgresColumns = `SELECT c.table_name, c.column_name, c.data_type,
	COALESCE((SELECT string_agg(quote_literal(enumlabel), ',' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = a.atttypid), format_type(a.atttypid, a.atttypmod)),
	c.is_nullable, CASE WHEN c.column_default NOT LIKE 'NULL::%' THEN 1 ELSE 0 END, CASE WHEN c.is_identity = 'YES' OR c.column_default LIKE 'nextval(%' THEN 1 ELSE 0 END,
	CASE WHEN c.is_generated = 'ALWAYS' THEN 1 ELSE 0 END, COALESCE(c.character_maximum_length, c.numeric_precision, 0), COALESCE(c.numeric_scale, 0), 'utf8mb4'
	FROM information_schema.columns c JOIN pg_attribute a ON a.attrelid = quote_ident(c.table_name)::regclass AND a.attname = c.column_name
	JOIN pg_class r ON r.oid = a.attrelid AND r.relkind IN ('r', 'p') WHERE c.table_schema = 'public' AND c.table_name NOT LIKE 'tidemark%' ORDER BY 1, c.ordinal_position`

const postgresKeys = `SELECT r.relname, CASE WHEN i.indisprimary THEN 'primary ' WHEN i.indisunique THEN 'unique ' ELSE 'index ' END ||
	(SELECT string_agg(COALESCE(a.attname, '?'), ',' ORDER BY k.n) FROM unnest(i.indkey[0:i.indnkeyatts - 1]) WITH ORDINALITY k(num, n)
	LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.num AND k.num > 0), x.relname
	FROM pg_index i JOIN pg_class r ON r.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am m ON m.oid = x.relam AND m.amname = 'btree'
	WHERE r.relnamespace = 'public'::regnamespace AND r.relkind IN ('r', 'p')
	UNION ALL SELECT here.relname, 'foreign ' || (SELECT string_agg(attname, ',' ORDER BY n) FROM unnest(conkey) WITH ORDINALITY k(num, n) JOIN pg_attribute ON attrelid = conrelid AND attnum = num)
	|| ' -> ' || there.relname || '(' || (SELECT string_agg(attname, ',' ORDER BY n) FROM unnest(confkey) WITH ORDINALITY k(num, n) JOIN pg_attribute ON attrelid = confrelid AND attnum = num) || ')', conname
	FROM pg_constraint JOIN pg_class here ON here.oid = conrelid JOIN pg_class there ON there.oid = confrelid
	WHERE contype = 'f' AND connamespace = 'public'::regnamespace`

// sameShape reports what of a source's columns and keys its target lacks and check has not named.
func sameShape(t *testing.T, src, dst, said string) {
	t.Helper()
	columns, keys := shape(t, src)
	there, theirKeys := shape(t, dst)
	for table, want := range columns {
		have := there[table]
		if have == nil {
			t.Errorf("table %s is missing", table)
			continue
		}
		for i, c := range want {
			if i >= len(have) || have[i].name != c.name {
				t.Errorf("table %s: column %s is missing, or elsewhere", table, c.name)
				break
			}
			h, named := have[i], strings.Contains(said, "."+table+"."+c.name) || strings.Contains(said, "."+table+":") && strings.Contains(said, c.name)
			switch {
			case named:
			case h.notNull != c.notNull:
				t.Errorf("%s.%s (%s, here %s): not null %v, at the source %v", table, c.name, c.declared, h.declared, h.notNull, c.notNull)
			case c.hasDefault && !c.numbered && !h.hasDefault:
				t.Errorf("%s.%s (%s, here %s) has lost its default", table, c.name, c.declared, h.declared)
			case h.numbered != c.numbered:
				t.Errorf("%s.%s (%s, here %s): numbered %v, at the source %v", table, c.name, c.declared, h.declared, h.numbered, c.numbered)
			}
		}
		for key, name := range keys[table] {
			if _, ok := theirKeys[table][key]; !ok && !strings.Contains(said, name) && !coveredIndex(key, theirKeys[table]) {
				t.Errorf("table %s: %s (%s) is missing, and check did not say so; here are %v", table, key, name, theirKeys[table])
			}
		}
	}
}

// coveredIndex reports whether an index of the source is the beginning of a key of the target,
// which serves the same.
func coveredIndex(key string, keys map[string]string) bool {
	kind, list, _ := strings.Cut(key, " ")
	for other := range keys {
		if _, theirs, _ := strings.Cut(other, " "); kind == "index" && (theirs == list || strings.HasPrefix(theirs, list+",")) {
			return true
		}
	}
	return false
}
