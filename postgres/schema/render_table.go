package schema

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// build creates the tables that are not copied as native objects, from their logical shape:
//
//	schema s                  BeforeRows
//	type s.t_c                BeforeRows  of an enum column
//	table s.t                 BeforeRows  columns, defaults, identity
//	index s.i, constraint     AfterTable  (render_keys.go)
//	statistics s.t            AfterTable
//	foreign key, its check    AfterRows
//	check, trigger            AfterRows
//	sequence value s.t.c      AfterRows
func (r *renderer) build() {
	for i := range r.moves {
		m := &r.moves[i]
		_, gone := r.gone["table "+server.QuoteTable(m.From.TableID)]
		_, native := r.native[m.From.TableID]
		if m.From.Form == tidemark.LargeObjects || r.same && m.Direct && !gone && native {
			for _, x := range append(slices.Clone(m.From.Indexes), keyOf(m.From)...) {
				r.takeNative(m, x.Name)
			}
			r.noteUnique(m.From, nil)
		} else {
			r.logical = append(r.logical, m)
		}
		if !r.reserve(m.To.Schema, m.To.Name, server.Holder{Table: m.To.TableID}) && r.db.Piecewise && len(r.moves) == 1 {
			r.lateFor(m)
		}
	}
	r.schemas()
	for _, m := range r.logical {
		r.table(m)
	}
	for _, m := range r.logical {
		r.foreignKeys(m)
	}
	for i := 0; i < len(r.objects) && len(r.relinked) > 0; i++ {
		o := &r.objects[i]
		if fk := r.relinked[o.ID]; fk != nil {
			if key := r.uniqueKey(fk); key != nil {
				o.Depends = append(slices.Clone(o.Depends), key.ids...)
			}
		}
	}
}

func keyOf(t *tidemark.Table) []tidemark.Index {
	if t.Key == nil {
		return nil
	}
	return []tidemark.Index{*t.Key}
}

func (r *renderer) add(o tidemark.Object) string {
	switch o.Kind {
	case "constraint", "check", "foreign key":
		r.constraints[o.ID] = true
	}
	o.ID = o.Kind + " " + o.ID
	r.objects = append(r.objects, o)
	return o.ID
}

func (r *renderer) schemas() {
	made := map[string]bool{}
	for i := range r.objects {
		if r.objects[i].Kind == "schema" {
			made[r.objects[i].ID] = true
		}
	}
	for _, m := range r.logical {
		if id := "schema " + server.QuoteIdent(m.To.Schema); m.To.Schema != "" && !made[id] {
			made[id] = true
			r.add(tidemark.Object{ID: server.QuoteIdent(m.To.Schema), Kind: "schema", SQL: []string{"CREATE SCHEMA IF NOT EXISTS " + server.QuoteIdent(m.To.Schema)}})
		}
	}
}

// A maker creates one table from its logical shape.
type maker struct {
	r        *renderer
	m        *tidemark.Move
	t        *tidemark.Table // the wanted table on the target
	sql      string          // quoted name
	depends  []string
	lines    []string          // of CREATE TABLE
	after    []string          // statements after CREATE TABLE
	dropped  map[string]bool   // columns that are not created
	types    map[string]string // by column
	computed map[string]string // expressions of generated columns
	repeated int               // bytes of them that other columns have
	indexes  []string          // IDs of the indexes that ANALYZE waits for
}

func (r *renderer) maker(m *tidemark.Move) *maker {
	return &maker{r: r, m: m, t: m.To, sql: server.QuoteTable(m.To.TableID), dropped: map[string]bool{}, types: map[string]string{}, computed: map[string]string{}}
}

func (r *renderer) table(m *tidemark.Move) {
	mk := r.maker(m)
	who := "table " + m.From.String()
	if m.To.Schema != "" {
		mk.depends = append(mk.depends, "schema "+server.QuoteIdent(m.To.Schema))
	}
	for _, d := range r.native[m.From.TableID] {
		if _, gone := r.gone[d]; !gone {
			mk.depends = append(mk.depends, d)
		}
	}
	r.types[m.From.TableID] = mk.types
	r.checkNames(who, m.To)
	if len(m.To.Partitions) > 0 && m.To.Form == tidemark.Partitioned || r.db.Engine != "postgres" && m.To.Native != "" {
		r.find(tidemark.Warning, who, "its partitions become one plain table", "")
	}
	for i := range m.To.Columns {
		mk.column(&m.To.Columns[i])
	}
	unlogged := ""
	if m.To.Storage == "unlogged" {
		unlogged = "UNLOGGED "
	}
	create := "CREATE " + unlogged + "TABLE " + mk.sql + " (\n    " + strings.Join(mk.lines, ",\n    ") + "\n)"
	if len(mk.lines) == 0 {
		create = "CREATE " + unlogged + "TABLE " + mk.sql + " ()"
	}
	if m.To.Comment != "" {
		mk.after = append(mk.after, "COMMENT ON TABLE "+mk.sql+" IS "+server.QuoteLiteral(m.To.Comment))
	}
	slices.Sort(mk.depends)
	r.add(tidemark.Object{ID: mk.sql, Kind: "table", Table: m.To.TableID, SQL: append([]string{create}, mk.after...), Depends: slices.Compact(mk.depends)})
	mk.keys()
	mk.uniqueText()
	mk.checks()
	mk.touch()
	mk.sequences()
	r.add(tidemark.Object{ID: mk.sql, Kind: "statistics", Phase: tidemark.AfterTable, Table: m.To.TableID, SQL: []string{"ANALYZE " + mk.sql},
		Depends: []string{"table " + mk.sql}, After: mk.indexes, Heavy: true, Bytes: min(m.From.Bytes, analyzeBytes)})
}

// checkNames reports names that the server truncates, and those that then collide.
func (r *renderer) checkNames(who string, t *tidemark.Table) {
	seen := map[string]string{}
	for i := range t.Columns {
		name := t.Columns[i].Name
		cut := server.Clip(name)
		if other, ok := seen[cut]; ok {
			r.findings = append(r.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Collision, Object: who,
				Text: fmt.Sprintf("columns %q and %q become the same name: PostgreSQL keeps %d bytes of a name", other, name, server.MaxName), Hint: "Rename one of them with a transformation rule."})
		} else if cut != name {
			r.find(tidemark.Warning, "column "+t.String()+"."+name, fmt.Sprintf("PostgreSQL keeps %d bytes of its name: %s", server.MaxName, cut), "")
		}
		seen[cut] = name
	}
	if cut := server.Clip(t.Name); cut != t.Name {
		for id := range r.byTo {
			if id.Schema == t.Schema && id.Name != t.Name && server.Clip(id.Name) == cut {
				r.findings = append(r.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Collision, Object: who,
					Text: fmt.Sprintf("tables %q and %q become the same name: PostgreSQL keeps %d bytes of a name", id.Name, t.Name, server.MaxName), Hint: "Rename one of them with a transformation rule."})
			}
		}
		r.find(tidemark.Warning, who, fmt.Sprintf("PostgreSQL keeps %d bytes of its name: %s", server.MaxName, cut), "")
	}
}

func (mk *maker) column(c *tidemark.Column) {
	who := "column " + mk.t.String() + "." + c.Name
	typ := mk.typeOf(c)
	mk.types[c.Name] = typ
	line := server.QuoteIdent(c.Name) + " " + typ
	if mk.r.same && c.Type.Collation != "" {
		line += " COLLATE " + c.Type.Collation
	}
	if c.Generated != "" {
		expr, err := mk.generated(c)
		if err != nil {
			mk.dropped[c.Name] = true
			mk.r.find(tidemark.Warning, who, fmt.Sprintf("the generated column is left out: %v in %s", err, c.Generated),
				"Add it by hand after the copy, or include it as an expression of its own.")
			return
		}
		line += " GENERATED ALWAYS AS (" + expr + ") STORED"
		if c.Virtual {
			mk.r.find(tidemark.Note, who, "the virtual column becomes a stored one", "")
		}
	} else if d := mk.defaultOf(c, typ); d != "" {
		line += " DEFAULT " + d
	}
	if c.NotNull && !mk.nullDate(c, typ, who) {
		line += " NOT NULL"
	}
	if c.Identity != nil && c.Generated == "" {
		line += mk.identity(c, typ)
	}
	if c.Invisible {
		mk.r.find(tidemark.Note, who, "it is invisible on the source, and visible on PostgreSQL", "")
	}
	mk.lines = append(mk.lines, line)
	if _, srid, ok := strings.Cut(c.Type.Native, " SRID "); ok && !mk.r.same {
		mk.r.find(tidemark.Warning, who, "any SRID is accepted here: on the source its values have the SRID "+srid, "Add a check by hand if the column has to refuse others.")
	}
	if c.Comment != "" {
		mk.after = append(mk.after, "COMMENT ON COLUMN "+mk.sql+"."+server.QuoteIdent(c.Name)+" IS "+server.QuoteLiteral(c.Comment))
	}
}

// typeOf returns a column's type; for an enum of another engine it also creates the type.
func (mk *maker) typeOf(c *tidemark.Column) string {
	if mk.r.same && c.Type.Native != "" {
		return c.Type.Native
	}
	if c.Type.Kind != tidemark.Enum || len(c.Type.Labels) == 0 {
		return sqlType(&c.Type, mk.r.opt.TinyInt1Bool)
	}
	return mk.enum(c)
}

func (mk *maker) identity(c *tidemark.Column, typ string) string {
	switch typ {
	case "smallint", "integer", "bigint":
	default:
		// An identity column must be an integer; other types get a default that does the same.
		seq := server.QuoteTable(tidemark.TableID{Schema: mk.t.Schema, Name: mk.r.free(mk.t.Name+"_"+c.Name+"_seq", "", mk.holder(""))})
		if !strings.HasPrefix(typ, "numeric") || c.Identity.Next > 1<<63-1 {
			mk.r.find(tidemark.Warning, "column "+mk.t.String()+"."+c.Name, "it loses its automatic numbering: its next value does not fit a sequence, or its type is not numeric", "")
			return ""
		}
		step := ""
		if c.Identity.Increment != 0 && c.Identity.Increment != 1 {
			step = fmt.Sprintf(" INCREMENT BY %d", c.Identity.Increment)
		}
		mk.r.add(tidemark.Object{ID: seq, Kind: "sequence", Table: mk.t.TableID, Depends: slices.Clone(mk.depends), SQL: []string{"CREATE SEQUENCE " + seq + step}})
		mk.depends = append(mk.depends, "sequence "+seq)
		mk.after = append(mk.after, "ALTER SEQUENCE "+seq+" OWNED BY "+mk.sql+"."+server.QuoteIdent(c.Name))
		return " DEFAULT nextval(" + server.QuoteLiteral(seq) + ")"
	}
	how, options := "BY DEFAULT", ""
	if c.Identity.Always {
		how = "ALWAYS"
	}
	// The server takes this name, or another one if it has the name already: a table that comes
	// later may need it.
	if seq := mk.t.Name + "_" + c.Name + "_seq"; len(seq) <= server.MaxName && !mk.r.same && !mk.r.reserve(mk.t.Schema, seq, mk.holder("")) {
		options += " SEQUENCE NAME " + server.QuoteTable(tidemark.TableID{Schema: mk.t.Schema, Name: mk.r.free(seq, "", mk.holder(""))})
	}
	if c.Identity.Increment != 0 && c.Identity.Increment != 1 {
		options += fmt.Sprintf(" INCREMENT BY %d", c.Identity.Increment)
	}
	if options != "" {
		options = " (" + options[1:] + ")"
	}
	return " GENERATED " + how + " AS IDENTITY" + options
}

// sequences sets each identity after the source's next value and the copied rows.
func (mk *maker) sequences() {
	for i := range mk.t.Columns {
		c := &mk.t.Columns[i]
		if c.Identity == nil || mk.dropped[c.Name] || c.Identity.Next > 1<<63-1 {
			continue
		}
		next := strconv.FormatUint(max(c.Identity.Next, 1), 10)
		col := server.QuoteIdent(c.Name)
		value := fmt.Sprintf("GREATEST(%s, (SELECT max(%s) + 1 FROM %s))", next, col, mk.sql)
		if c.Identity.Increment < 0 {
			value = next
		}
		mk.r.add(tidemark.Object{ID: mk.sql + "." + col, Kind: "sequence value", Phase: tidemark.AfterRows, Table: mk.t.TableID, Depends: []string{"table " + mk.sql},
			SQL: []string{fmt.Sprintf("SELECT pg_catalog.setval(s, %s::bigint, false) FROM pg_catalog.pg_get_serial_sequence(%s, %s) s WHERE s IS NOT NULL",
				value, server.QuoteLiteral(mk.sql), server.QuoteLiteral(c.Name))}})
	}
}

var (
	dayTime    = regexp.MustCompile(`^(-?)([0-9]+):([0-9]{2}):([0-9]{2}(?:\.[0-9]+)?)$`)
	zeroDigits = regexp.MustCompile(`(\.[0-9]*?)0+(\+00)?$`)
	numberText = regexp.MustCompile(`^[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?$`)
	// newUUIDBytes matches a UUID in 16 bytes, in either order: a random one has none.
	newUUIDBytes = regexp.MustCompile(`(?i)^\(*uuid_to_bin\(\s*uuid\(\s*\)\s*(,\s*(0|1|true|false)\s*)?\)+$`)

	zeroDate = regexp.MustCompile(`^(0000-|[0-9]{4}-00-|[0-9]{4}-[0-9]{2}-00)`)
)

// noDefault stands for a default that is left out: the server takes it for none, and a comparison
// of definitions knows that one may be set by hand.
const noDefault = "NULL"

// defaultOf returns a column's default; "" if it has none.
func (mk *maker) defaultOf(c *tidemark.Column, typ string) string {
	d := c.Default
	if d == nil || c.Identity != nil {
		return ""
	}
	who := "column " + mk.t.String() + "." + c.Name
	if mk.r.same && d.Text != "" && d.Kind != tidemark.Literal {
		return d.Text
	}
	if text, is := sqltext.BareString(d.Text); d.Kind == tidemark.Expression && is && !mk.r.same {
		if typ == "bytea" {
			text = `\x` + hex.EncodeToString([]byte(text))
		}
		return server.QuoteLiteral(text)
	}
	switch d.Kind {
	case tidemark.Literal:
		return mk.literal(c, typ, who)
	case tidemark.Now:
		return nowFor(c.Type, typ)
	case tidemark.Today:
		return "CURRENT_DATE"
	case tidemark.NewUUID:
		switch typ {
		case "uuid":
			return "gen_random_uuid()"
		case "bytea":
			return "convert_to((gen_random_uuid())::text, 'UTF8')"
		}
		return "(gen_random_uuid())::text"
	}
	if newUUIDBytes.MatchString(d.Text) && !mk.r.same {
		switch typ {
		case "uuid":
			return "gen_random_uuid()"
		case "bytea":
			return "decode(replace((gen_random_uuid())::text, '-', ''), 'hex')"
		}
	}
	p := newExpr(d.Text, mk.r.db.Engine, nil)
	if v, err := p.parse(); err == nil {
		if typ == "bytea" {
			return "convert_to((" + v.sql + ")::text, 'UTF8')"
		}
		if sql, err := p.to(v, typ); err == nil {
			return "(" + sql + ")"
		}
	}
	mk.r.find(tidemark.Warning, who, "its default is left out: it is SQL of the source: "+d.Text, "Set it by hand: ALTER TABLE "+mk.sql+" ALTER COLUMN "+server.QuoteIdent(c.Name)+" SET DEFAULT ...")
	return noDefault
}

func nowFor(t tidemark.Type, typ string) string {
	digits := ""
	if t.Precision > 0 && t.Precision < 6 {
		digits = fmt.Sprintf("(%d)", t.Precision)
	}
	if strings.HasSuffix(typ, "without time zone") {
		return "LOCALTIMESTAMP" + digits
	}
	return "CURRENT_TIMESTAMP" + digits
}

func (mk *maker) literal(c *tidemark.Column, typ, who string) string {
	text := c.Default.Text
	switch {
	case typ == "boolean":
		if text == "t" || text == "true" || numberText.MatchString(text) && strings.Trim(text, "0.") != "" {
			return "true"
		}
		return "false"
	case (strings.HasPrefix(typ, "numeric") || typ == "smallint" || typ == "integer" || typ == "bigint" || typ == "real" || typ == "double precision") && numberText.MatchString(text):
		return text
	case typ == "date" || strings.HasPrefix(typ, "timestamp"):
		if zeroDate.MatchString(text) {
			mk.r.find(tidemark.Warning, who, "its default "+text+" is left out: it is not a date", "")
			return noDefault
		}
		text = withoutZeros(text)
	case strings.HasPrefix(typ, "time"):
		if m := dayTime.FindStringSubmatch(text); m != nil && typ != "time with time zone" && !inADay(m) {
			mk.r.find(tidemark.Warning, who, "its default "+text+" is left out: it is not a time of day", "")
			return noDefault
		}
		text = withoutZeros(text)
	case strings.HasPrefix(typ, "interval"):
		text = isoInterval(text)
	case strings.HasPrefix(typ, "bit") && strings.Trim(text, "01") == "":
		return "B" + server.QuoteLiteral(text)
	}
	return server.QuoteLiteral(text)
}

// withoutZeros returns a time without zeros at the end of its fraction, as PostgreSQL prints it.
func withoutZeros(text string) string {
	text = zeroDigits.ReplaceAllString(text, "$1$2")
	return strings.TrimSuffix(strings.Replace(text, ".+", "+", 1), ".")
}

// inADay reports whether a time of MySQL, in the parts of dayTime, is one of PostgreSQL.
func inADay(m []string) bool {
	hour := strings.TrimLeft(m[2], "0")
	return m[1] == "" && (len(hour) < 2 || len(hour) == 2 && hour < "24" || hour == "24" && strings.Trim(m[3]+m[4], "0.") == "")
}

// isoInterval returns a time of MySQL, such as -10:00:00.50, as PostgreSQL prints that interval.
func isoInterval(text string) string {
	m := dayTime.FindStringSubmatch(text)
	if m == nil {
		return text
	}
	out := "PT"
	for i, unit := range []string{"H", "M", "S"} {
		n := strings.TrimLeft(m[2+i], "0")
		if unit == "S" && strings.Contains(n, ".") {
			n = strings.TrimSuffix(strings.TrimRight(n, "0"), ".")
		}
		if strings.HasPrefix(n, ".") {
			n = "0" + n
		}
		if n != "" {
			out += m[1] + n + unit
		}
	}
	if out == "PT" {
		out = "PT0S"
	}
	return out
}

// nullDate reports whether a NOT NULL column must accept NULL here: its default is an invalid date,
// so its rows may have invalid dates too, and these arrive as NULL. A primary key column cannot.
func (mk *maker) nullDate(c *tidemark.Column, typ, who string) bool {
	if !mk.r.opt.NullDates || mk.r.same || c.Default == nil || c.Default.Kind != tidemark.Literal || !zeroDate.MatchString(c.Default.Text) ||
		typ != "date" && !strings.HasPrefix(typ, "timestamp") || mk.t.Key != nil && slices.Contains(mk.t.Key.Columns(), c.Name) {
		return false
	}
	mk.r.find(tidemark.Warning, who, "is not NOT NULL here: its default on the source is "+c.Default.Text+", and --zero-dates=null writes NULL for that", "")
	return true
}

// generated returns a generation expression in PostgreSQL's SQL.
func (mk *maker) generated(c *tidemark.Column) (string, error) {
	if mk.r.same {
		return c.Generated, nil
	}
	p := newExpr(c.Generated, mk.r.db.Engine, mk.written)
	p.folds = true
	v, err := p.parse()
	if err != nil {
		return "", err
	}
	if p.compared {
		mk.comparedText(p.columns, "column "+mk.t.String()+"."+c.Name, "values may differ", "diff shows those that do. Drop the column then, and add it with another expression.")
	}
	if c.Type.Kind == tidemark.Year && !strings.HasPrefix(v.sql, "EXTRACT(year ") {
		return "", errors.New("a number becomes a year")
	}
	sql, err := p.to(v, mk.types[c.Name])
	mk.computed[c.Name] = "(" + sql + ")::" + mk.types[c.Name]
	return sql, err
}

// written is valueOf in the expression of a generated column, which cannot refer to another one
// here: it has that one's expression.
func (mk *maker) written(name string) (value, error) {
	if c := mk.named(name); c != nil && c.Generated != "" {
		if mk.computed[c.Name] == "" {
			return value{}, fmt.Errorf("%q is a generated column that comes later", name)
		}
		if mk.repeated += len(mk.computed[c.Name]); mk.repeated > tidemark.MaxExpression {
			return value{}, errors.New("generated columns that refer to others become too long")
		}
		return mk.valueAs(c, mk.computed[c.Name]), nil
	}
	return mk.valueOf(name)
}

// valueOf returns what expressions of the table write for a column.
func (mk *maker) valueOf(name string) (value, error) {
	c := mk.named(name)
	if c == nil {
		return value{}, errNoColumn(name)
	}
	return mk.valueAs(c, server.QuoteIdent(c.Name)), nil
}

func (mk *maker) named(name string) *tidemark.Column {
	i := slices.IndexFunc(mk.t.Columns, func(c tidemark.Column) bool { return strings.EqualFold(c.Name, name) && !mk.dropped[c.Name] })
	if i < 0 {
		return nil
	}
	return &mk.t.Columns[i]
}

// valueAs returns what sql gives, a column or its expression.
func (mk *maker) valueAs(c *tidemark.Column, sql string) value {
	v := value{sql: sql, class: otherClass}
	if c.Type.Kind != tidemark.Enum {
		typ := sqlType(&c.Type, mk.r.opt.TinyInt1Bool)
		if v.class = classOfSQL(typ); typ == "real" {
			v.sql += "::double precision" // with which MySQL computes
		}
	}
	switch c.Type.Kind {
	case tidemark.Char, tidemark.Varchar, tidemark.Text, tidemark.Set:
		v.foreign = !utf8Charsets[cmp.Or(c.Type.Charset, mk.m.From.Charset)]
	default:
		v.foreign = c.Type.Kind == tidemark.Year || strings.Contains(c.Type.Native, "zerofill")
	}
	return v
}

// checks creates check constraints after the rows: a source that compares case-insensitively may
// hold rows that violate the same condition here.
func (mk *maker) checks() {
	for _, c := range mk.t.Checks {
		who := "check " + c.Name + " of " + mk.t.String()
		expr := c.Expr
		if !mk.r.same {
			if mk.jsonCheck(c.Expr) {
				continue // MariaDB's json is text with this check; here the type implies it
			}
			p := newExpr(c.Expr, mk.r.db.Engine, mk.valueOf)
			v, err := p.parse()
			sql := ""
			if err == nil {
				sql, err = v.condition()
			}
			if err != nil {
				mk.r.find(tidemark.Warning, who, fmt.Sprintf("left out: %v in %s", err, c.Expr), "Add it by hand after the copy.")
				continue
			}
			if p.spelled {
				mk.comparedText(p.columns, who, "a row that fulfills it there may violate it here, where it is not made then", "Give such rows the spelling of the check, on the source.")
			}
			expr = sql
		}
		tail := ""
		switch {
		case c.Unchecked == tidemark.NotEnforced && mk.r.major > 0 && mk.r.major < 18:
			mk.r.find(tidemark.Warning, who, "left out: it is not enforced on the source, and PostgreSQL before 18 enforces all: "+c.Expr, "")
			continue
		case c.Unchecked != "":
			tail = " " + c.Unchecked
		}
		name := server.QuoteIdent(c.Name)
		mk.r.add(tidemark.Object{ID: name + " ON " + mk.sql, Kind: "check", Phase: tidemark.AfterRows, Table: mk.t.TableID, Depends: []string{"table " + mk.sql},
			Heavy: true, Bytes: mk.m.From.Bytes, SQL: []string{"ALTER TABLE " + mk.sql + " ADD CONSTRAINT " + name + " CHECK (" + expr + ")" + tail}})
	}
}

var jsonValid = regexp.MustCompile("(?i)^\\(*json_valid\\(`?([^`()]+)`?\\)\\)*$")

func (mk *maker) jsonCheck(expr string) bool {
	m := jsonValid.FindStringSubmatch(strings.TrimSpace(expr))
	if m == nil {
		return false
	}
	c := mk.t.Column(m[1])
	return c != nil && c.Type.Kind == tidemark.JSON
}

// touch creates a trigger that does what MySQL's ON UPDATE CURRENT_TIMESTAMP does, but not to rows
// of a stream, which have what it did on the source: with foreign keys that act triggers fire there
// too.
func (mk *maker) touch() {
	var set []string
	for i := range mk.t.Columns {
		c := &mk.t.Columns[i]
		if col := server.QuoteIdent(c.Name); c.OnUpdate && !mk.dropped[c.Name] {
			set = append(set, fmt.Sprintf("  IF NEW.%s IS NOT DISTINCT FROM OLD.%s THEN NEW.%s := %s; END IF;", col, col, col, nowFor(c.Type, mk.types[c.Name])))
		}
	}
	if set == nil {
		return
	}
	// Compared as text, since not every type can be compared: json cannot.
	body := "BEGIN\n  IF NEW::text = OLD::text OR current_setting('" + server.StreamSetting + "', true) = 'on' THEN RETURN NEW; END IF;\n" + strings.Join(set, "\n") + "\n  RETURN NEW;\nEND"
	// One of an earlier copy stays when its table is dropped.
	fn := server.QuoteTable(tidemark.TableID{Schema: mk.t.Schema, Name: mk.r.freeFunction(mk.t.Name+"_on_update", mk.holder(body))})
	mk.r.add(tidemark.Object{ID: "on_update ON " + mk.sql, Kind: "trigger", Phase: tidemark.AfterRows, Table: mk.t.TableID, Depends: []string{"table " + mk.sql}, SQL: []string{
		"CREATE OR REPLACE FUNCTION " + fn + "() RETURNS trigger LANGUAGE plpgsql AS " + server.QuoteLiteral(body),
		"CREATE TRIGGER on_update BEFORE UPDATE ON " + mk.sql + " FOR EACH ROW EXECUTE FUNCTION " + fn + "()"}})
	mk.r.find(tidemark.Note, "table "+mk.t.String(), "ON UPDATE CURRENT_TIMESTAMP becomes a trigger", "")
}
