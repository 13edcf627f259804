// Package notice says what of a copy people may notice later: what an application may, though every
// row is equal, and rows that may be refused for labels that a dump does not show.
package notice

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// pairs are what looks for that between two families.
var pairs = map[[2]string]func(a *noticed, bools bool){
	{engine.MySQL, engine.Postgres}: (*noticed).fromMySQL,
	{engine.Postgres, engine.MySQL}: (*noticed).fromPostgres,
}

// targets are what looks for that on one target, whatever the source.
var targets = map[string]func(a *noticed){
	engine.MariaDB: (*noticed).toMariaDB,
	engine.MySQL:   (*noticed).toMySQL,
}

// Applications finds what an application may notice though every row is equal: each thing once,
// with the number of columns that it concerns. doc/manual/after-the-copy.md says what to do.
// bools: tinyint(1) becomes boolean.
func Applications(source string, moves []tidemark.Move, target string, bools bool) []tidemark.Finding {
	a := &noticed{}
	for i := range moves {
		if m := &moves[i]; m.From.Form != tidemark.LargeObjects {
			a.table(m)
		}
	}
	if find := pairs[[2]string{engine.Family(source), engine.Family(target)}]; find != nil {
		find(a, bools)
	}
	if find := targets[target]; find != nil {
		find(a)
	}
	return a.findings
}

// noticed has the names of columns of which applications may notice something.
type noticed struct {
	folded           []string // text that MySQL compares without regard to case; the renderer names those of unique keys
	implicit         []string // NOT NULL, of types for which MySQL has no plain default
	tiny, bools      []string // tinyint(1), boolean
	unsigned, large  []string // unsigned integers; of these, those of 64 bits
	wider            []string // unsigned integers of 32 bits
	spans, instants  []string // time, timestamp
	capitals         []string // tables too
	nullable, asText []string
	json, plain      []string // plain: those of which no rule makes jsonb
	hex32            []string // char(32), in which frameworks keep UUIDs where there is no such type
	shapes, reals    []string // geometry, numbers of 32 bits
	padded           []string // in unique keys, of exact collations that ignore trailing blanks
	texts, ids       []string // in unique keys: any text, uuid

	findings []tidemark.Finding
}

func (a *noticed) add(s tidemark.Severity, n int, text, hint string) {
	if n > 0 {
		a.findings = append(a.findings, tidemark.Finding{Severity: s, Object: "applications", Text: text, Hint: hint})
	}
}

// in says which columns something is about: "3 columns: a, b and 1 more".
func in(names []string) string {
	return " (" + plural(len(names)) + ": " + tidemark.Some(names, 2) + ")"
}

func plural(n int) string {
	if n == 1 {
		return "1 column"
	}
	return fmt.Sprintf("%d columns", n)
}

func (a *noticed) table(m *tidemark.Move) {
	if strings.ToLower(m.To.Name) != m.To.Name {
		a.capitals = append(a.capitals, m.To.String())
	}
	for i := range m.To.Columns {
		c := &m.To.Columns[i]
		a.column(m, c, m.To.String()+"."+c.Name)
	}
}

func (a *noticed) column(m *tidemark.Move, c *tidemark.Column, name string) {
	if strings.ToLower(c.Name) != c.Name {
		a.capitals = append(a.capitals, name)
	}
	if !c.NotNull {
		a.nullable = append(a.nullable, name)
	}
	switch c.Type.Kind {
	case tidemark.Char, tidemark.Varchar, tidemark.Text:
		if foldsCase(c.Type.Collation, m.From.Collation, c.Type.Charset) {
			a.folded = append(a.folded, name)
		} else if c.Type.Kind != tidemark.Char && m.To.Keyed(c.Name) && !tidemark.NoPad(cmp.Or(c.Type.Collation, m.From.Collation, "binary")) {
			a.padded = append(a.padded, name)
		}
		if c.Type.Kind == tidemark.Char && c.Type.Length == 32 {
			a.hex32 = append(a.hex32, name)
		}
		if m.To.Keyed(c.Name) && !c.Type.Citext() {
			a.texts = append(a.texts, name)
		}
	case tidemark.UUID:
		if m.To.Keyed(c.Name) {
			a.ids = append(a.ids, name)
		}
	case tidemark.Geometry:
		if !strings.Contains(c.Type.Native, ".") { // else a rule asks for PostGIS
			a.shapes = append(a.shapes, name)
		}
	case tidemark.Float:
		if c.Type.Bits == 32 {
			a.reals = append(a.reals, name)
		}
	case tidemark.Bool:
		a.bools = append(a.bools, name)
	case tidemark.Int:
		switch {
		case c.Type.Width1:
			a.tiny = append(a.tiny, name)
		case c.Type.Unsigned && c.Type.Bits == 64:
			a.large = append(a.large, name)
			fallthrough
		case c.Type.Unsigned:
			a.unsigned = append(a.unsigned, name)
			if c.Type.Bits == 32 {
				a.wider = append(a.wider, name)
			}
		}
	case tidemark.Time:
		if c.Type.Native != "" { // else a rule asks for a time of day
			a.spans = append(a.spans, name)
		}
	case tidemark.Timestamp:
		a.instants = append(a.instants, name)
	case tidemark.JSON:
		a.json = append(a.json, name)
		if c.Type.Native != "jsonb" { // else a rule asks for it, or the source has it
			a.plain = append(a.plain, name)
		}
	case tidemark.Array, tidemark.Interval, tidemark.TimeTZ, tidemark.Other:
		if !c.Type.Citext() {
			a.asText = append(a.asText, name)
		}
	}
	switch c.Type.Kind {
	case tidemark.Text, tidemark.Blob, tidemark.JSON:
		if c.NotNull && c.Default == nil && c.Generated == "" {
			a.implicit = append(a.implicit, name)
		}
	}
}

// foldsCase reports whether a collation of MySQL's ignores case: that of a column, or of its table,
// or the default one of its character set, which does unless it is binary.
func foldsCase(column, table, charset string) bool {
	if column == "" && (charset == "" || strings.HasPrefix(table, charset)) {
		column = table
	}
	if column == "" {
		return charset != "binary"
	}
	return strings.HasSuffix(strings.ToLower(column), "_ci")
}

// fromMySQL is for copies from MySQL or MariaDB into PostgreSQL.
func (a *noticed) fromMySQL(bools bool) {
	if bools {
		a.bools, a.tiny = append(a.bools, a.tiny...), nil
	}
	a.add(tidemark.Warning, len(a.folded), "comparisons of text ignore case on the source, and are exact here"+in(a.folded),
		"Where queries or logins rely on it: citext, or a nondeterministic ICU collation, with which LIKE fails before PostgreSQL 18.")
	a.add(tidemark.Warning, len(a.padded), "unique keys ignore trailing blanks on the source; here 'a ' and 'a' are two values"+in(a.padded), "Trim the values in the application, or CHECK (column = rtrim(column)).")
	a.add(tidemark.Warning, len(a.tiny), "tinyint(1) becomes smallint, unless --tinyint1-bool makes boolean of it"+in(a.tiny), "Use it where the application expects true and false; any value but 0 becomes true.")
	a.add(tidemark.Warning, len(a.bools), "a boolean does not compare with numbers: active = 1 fails"+in(a.bools), "Write active, or active = true.")
	a.add(tidemark.Warning, len(a.capitals), "names with capitals are found only by SQL that quotes them ("+tidemark.Some(a.capitals, 2)+")", "Quote them in the application, or rename them in the copy (rule-action convert-lowercase).")
	a.add(tidemark.Warning, len(a.plain), "JSON becomes json, which keeps the text but has no = and no GIN index; some frameworks (Django) read jsonb only"+in(a.plain), "Give the columns the type jsonb (task file: tables: {'*': {types: {'*@json': jsonb}}}).")
	a.add(tidemark.Warning, len(a.shapes), "geometry becomes bytea, as EWKB"+in(a.shapes), "With PostGIS, after the copy: ALTER COLUMN ... TYPE geometry USING column::geometry.")
	a.add(tidemark.Warning, len(a.implicit), "NOT NULL text and blobs have no default: an INSERT must name them, which MySQL demands in strict sql_mode only"+in(a.implicit),
		"ALTER TABLE ... ALTER COLUMN ... SET DEFAULT '' where an application relies on it.")
	large := ""
	if len(a.large) > 0 {
		large = ", and drivers return bigint unsigned, here numeric(20,0), as a decimal" + in(a.large)
	}
	if len(a.wider) > 0 {
		large += ", and some drivers return int unsigned, here bigint, as text" + in(a.wider)
	}
	a.add(tidemark.Note, len(a.unsigned), "unsigned integers take negative numbers here"+in(a.unsigned)+large, "CHECK (column >= 0) keeps the range; a smaller type is better where no number needs the last bit (task file: tables: {'*': {types: {'*@uint4': integer}}}).")
	a.add(tidemark.Note, len(a.hex32), "char(32) stays text, though frameworks (Django) that keep UUIDs in it read uuid only here"+in(a.hex32), "Give columns of UUIDs the type uuid (rule-action change-data-type).")
	a.add(tidemark.Note, len(a.spans), "time becomes interval"+in(a.spans), "Where it is a time of day, give it the type time (rule-action change-data-type).")
	a.add(tidemark.Note, len(a.instants), "timestamp is shown in the time zone of the session (TimeZone), which may not be the source's (time_zone)"+in(a.instants), "ALTER ROLE ... SET timezone = '...' for the application's user.")
	a.add(tidemark.Note, len(a.nullable), "ORDER BY puts NULLs last (on the source first), and rows with equal values in any order", "ORDER BY column NULLS FIRST, and a key as the last column.")
}

// fromPostgres is for copies from PostgreSQL into MySQL or MariaDB.
func (a *noticed) fromPostgres(bool) {
	a.add(tidemark.Warning, len(a.asText), "types that only PostgreSQL has become text, without their operators"+in(a.asText), "")
	a.add(tidemark.Warning, len(a.bools), "boolean becomes tinyint(1): drivers return 1 and 0"+in(a.bools), "")
	a.add(tidemark.Warning, len(a.instants), "timestamptz becomes datetime in UTC, whatever the session's time zone"+in(a.instants), "Run the application in UTC.")
	a.add(tidemark.Note, len(a.texts), "keys of text have a binary collation, the database its own default: a text column that is added cannot refer to them without the same"+in(a.texts), "Add columns with the character set and collation that SHOW CREATE TABLE has for the key.")
	a.add(tidemark.Note, len(a.reals), "real becomes float, of which the server shows six digits"+in(a.reals), "Where more digits count, give it the type double (rule-action change-data-type).")
	a.add(tidemark.Note, len(a.nullable), "ORDER BY puts NULLs first (on the source last), text in the order of its characters' codes, and rows with equal values in any order", "ORDER BY column IS NULL, column; COLLATE has the order of a language.")
}

// toMySQL is for copies into MySQL, which parses JSON; MariaDB keeps its text.
func (a *noticed) toMySQL() {
	a.add(tidemark.Warning, len(a.json), "JSON numbers are parsed again: decimals (1.50) become doubles, and a double may change in its last digit, which diff shows and repair cannot correct"+in(a.json),
		"Where amounts must stay exact, keep them in DECIMAL columns or as JSON strings, or give the column a text type (rule-action change-data-type).")
}

// toMariaDB is for copies into MariaDB, which has a type uuid since 10.7.
func (a *noticed) toMariaDB() {
	a.add(tidemark.Note, len(a.ids), "uuid stays uuid on MariaDB 10.7 and later: a char(36) column that is added cannot refer to it"+in(a.ids), "Add such columns as uuid, or give the keys the type char(36) (rule-action change-data-type).")
}
