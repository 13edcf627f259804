package sqlfile

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/charset"
)

// A ddl reads the definitions of CREATE TABLE and ALTER TABLE.
type ddl struct {
	*lexer
	t      *tidemark.Table
	checks int    // so far, for their names
	keys   int    // foreign ones, the same
	why    string // it is refused, where that is not the text's form
}

// ParseCreateTable reads a CREATE TABLE statement of MySQL or MariaDB as the
// session would. What it has no word for is left out of the Table, not refused;
// a statement that defines no columns (LIKE, AS SELECT) or cannot be read is an
// Error of Kind Unsupported; one beyond what any server takes, of Kind BadInput.
func ParseCreateTable(text []byte, ses *Session) (*tidemark.Table, error) {
	text = ses.utf8(text)
	p := &ddl{lexer: &lexer{d: text, server: ses.Server, esc: ses.esc(), ansi: ses.AnsiQuotes},
		t: &tidemark.Table{Rows: -1}}
	p.t.Schema = ses.Database
	p.acceptAll("CREATE")
	p.acceptAll("OR", "REPLACE")
	p.accept("TEMPORARY")
	if !p.accept("TABLE") {
		return nil, p.refuse("not a CREATE TABLE")
	}
	p.acceptAll("IF", "NOT", "EXISTS")
	if !p.tableName(&p.t.TableID) {
		return nil, p.refuse("no table name")
	}
	if !p.accept("(") || p.is(p.peek(), "LIKE") {
		return nil, p.refuse("a table defined by another one")
	}
	for {
		if !p.definition() {
			if p.why != "" {
				return nil, tidemark.Errorf(tidemark.BadInput, "read", "CREATE TABLE "+p.t.String(), p.why, hintBroke)
			}
			return nil, p.refuse("cannot read the definition at " + snippet(text[min(p.i, len(text)):]))
		}
		if t := p.next(); p.is(t, ")") {
			break
		} else if !p.is(t, ",") {
			return nil, p.refuse("expected , or ) at " + snippet(text[t.start:]))
		}
	}
	p.options()
	p.settle()
	if len(p.t.Columns) == 0 {
		return nil, p.refuse("no columns")
	}
	return p.t, nil
}

func (p *ddl) refuse(what string) error {
	return tidemark.Errorf(tidemark.Unsupported, "read", "CREATE TABLE "+p.t.String(), what,
		"Take the table's shape from a server: create the table on the target first and load into it.")
}

// utf8 gives text of the session's character set in UTF-8.
func (s *Session) utf8(text []byte) []byte {
	r, ok := charset.New(s.Charset, charset.UTF8)
	if r == nil || !ok {
		return text
	}
	out, _, err := r.Append(nil, text, true)
	if err != nil {
		return text
	}
	return out
}

// name reads a name.
func (p *ddl) name() (string, bool) { return p.ident(p.next()) }

// tableName reads a table's name, with its database or without.
func (p *ddl) tableName(id *tidemark.TableID) bool {
	name, ok := p.name()
	if ok && p.accept(".") {
		id.Schema = name
		name, ok = p.name()
	}
	id.Name = name
	return ok
}

// definition reads a column, key or constraint, up to the comma or parenthesis
// after it.
func (p *ddl) definition() bool {
	at := p.i
	t := p.next()
	if t.kind != tWord {
		p.i = at
		return p.column(-1)
	}
	name := ""
	if p.is(t, "CONSTRAINT") {
		if n := p.peek(); n.kind == tName || n.kind == tWord && !p.is(n, "PRIMARY") && !p.is(n, "UNIQUE") && !p.is(n, "FOREIGN") && !p.is(n, "CHECK") {
			name, _ = p.name()
		}
		t = p.next()
	}
	switch {
	case p.is(t, "PRIMARY") && p.accept("KEY"):
		x := &tidemark.Index{Name: "PRIMARY", Unique: true}
		p.t.Key = x
		return p.index(x)
	case p.is(t, "UNIQUE"):
		if !p.accept("KEY") {
			p.accept("INDEX")
		}
		return p.key(tidemark.Index{Name: name, Unique: true})
	case p.is(t, "KEY"), p.is(t, "INDEX"):
		return p.key(tidemark.Index{})
	case p.is(t, "FULLTEXT"), p.is(t, "SPATIAL"):
		if !p.accept("KEY") {
			p.accept("INDEX")
		}
		return p.key(tidemark.Index{Method: strings.ToLower(string(p.text(t)))})
	case p.is(t, "FOREIGN") && p.accept("KEY"):
		return p.foreignKey(name)
	case p.is(t, "CHECK") && p.accept("("):
		return p.check(name)
	case p.is(t, "PERIOD") && p.accept("FOR"):
		return p.skipRest()
	}
	p.i = at
	return p.column(-1)
}

// skipRest passes over what remains of a definition.
func (p *ddl) skipRest() bool {
	for {
		switch t := p.peek(); {
		case p.is(t, ","), p.is(t, ")"), t.kind == tEnd:
			return true
		case t.kind == tBad:
			return false
		case p.is(t, "("):
			p.next()
			if _, ok := p.parens(); !ok {
				return false
			}
		default:
			p.next()
		}
	}
}

// key reads an index that may have a name.
func (p *ddl) key(x tidemark.Index) bool {
	if t := p.peek(); t.kind == tName || t.kind == tWord && !p.is(t, "USING") {
		x.Name, _ = p.name()
	}
	if !p.index(&x) {
		return false
	}
	if len(p.t.Indexes) == tidemark.MaxIndexes {
		p.why = fmt.Sprintf("more than %d indexes", tidemark.MaxIndexes)
		return false
	}
	if x.Name == "" {
		x.Name = p.keyName(x.Parts[0].Column)
	}
	p.t.Indexes = append(p.t.Indexes, x)
	return true
}

// keyName gives the name that the server gives an index without one: that of its
// first column, numbered if it is taken.
func (p *ddl) keyName(column string) string {
	if column == "" {
		column = "functional_index"
	}
	taken := make(map[string]bool, len(p.t.Indexes))
	for _, x := range p.t.Indexes {
		taken[strings.ToLower(x.Name)] = true
	}
	name := column
	for n := 2; taken[strings.ToLower(name)]; n++ {
		name = column + "_" + strconv.Itoa(n)
	}
	return name
}

// index reads [USING method] (parts) and the options after them.
func (p *ddl) index(x *tidemark.Index) bool {
	method := func() {
		if m, ok := p.name(); ok && x.Method == "" {
			x.Method = strings.ToLower(m)
		}
	}
	if p.is(p.peek(), "USING") {
		p.next()
		method()
	}
	if !p.accept("(") {
		return false
	}
	for {
		part, ok := p.part()
		if !ok {
			return false
		}
		x.Parts = append(x.Parts, part)
		if t := p.next(); p.is(t, ")") {
			break
		} else if !p.is(t, ",") {
			return false
		}
	}
	for {
		switch t := p.peek(); {
		case p.is(t, ","), p.is(t, ")"), t.kind == tEnd:
			return true
		case t.kind == tBad, p.is(t, "("):
			return false
		case p.is(t, "USING"):
			p.next()
			method()
		case p.is(t, "COMMENT"):
			p.next()
			x.Comment = p.str(p.next())
		default:
			p.next()
		}
	}
}

// part reads one column of an index: `c`(10) DESC, or (expression).
func (p *ddl) part() (x tidemark.IndexPart, ok bool) {
	if p.accept("(") {
		start := p.i
		end, ok := p.parens()
		if !ok {
			return x, false
		}
		if x.Expr, ok = p.expression(start, end); !ok {
			return x, false
		}
	} else if x.Column, ok = p.name(); !ok {
		return x, false
	}
	if p.accept("(") {
		n, err := strconv.Atoi(string(p.lexer.text(p.next())))
		if err != nil || !p.accept(")") {
			return x, false
		}
		x.Prefix = n
	}
	if x.Desc = p.accept("DESC"); !x.Desc {
		p.accept("ASC")
	}
	return x, true
}

// names reads (a, b).
func (p *ddl) names() ([]string, bool) {
	if !p.accept("(") {
		return nil, false
	}
	return columnList(p.lexer)
}

// foreignKey reads what follows FOREIGN KEY.
func (p *ddl) foreignKey(name string) bool {
	f := tidemark.ForeignKey{Name: name}
	if n := p.peek(); n.kind == tName || n.kind == tWord {
		p.next() // the index's name
	}
	p.keys++
	if f.Name == "" {
		f.Name = fmt.Sprintf("%s_ibfk_%d", p.t.Name, p.keys)
	}
	var ok bool
	if f.Columns, ok = p.names(); !ok || !p.accept("REFERENCES") {
		return false
	}
	f.Ref.Schema = p.t.Schema
	if !p.tableName(&f.Ref) {
		return false
	}
	if f.RefColumns, ok = p.names(); !ok {
		return false
	}
	if p.accept("MATCH") {
		p.next()
	}
	for p.accept("ON") {
		event := p.next()
		action := strings.ToUpper(string(p.lexer.text(p.next())))
		if action == "SET" || action == "NO" {
			action += " " + strings.ToUpper(string(p.lexer.text(p.next())))
		}
		if p.is(event, "DELETE") {
			f.OnDelete = action
		} else {
			f.OnUpdate = action
		}
	}
	p.t.ForeignKeys = append(p.t.ForeignKeys, f)
	return true
}

// check reads what follows CHECK (.
func (p *ddl) check(name string) bool {
	start := p.i
	end, ok := p.parens()
	if !ok {
		return false
	}
	p.checks++
	if name == "" {
		name = fmt.Sprintf("%s_chk_%d", p.t.Name, p.checks)
	}
	enforced := !p.acceptAll("NOT", "ENFORCED")
	if !enforced {
		return true
	}
	p.accept("ENFORCED")
	sql, ok := p.expression(start, end)
	p.t.Checks = append(p.t.Checks, tidemark.Check{Name: name, Expr: sql})
	return ok
}

// options reads what follows the definitions.
func (p *ddl) options() {
	for {
		t := p.next()
		switch {
		case t.kind == tEnd || t.kind == tBad:
			return
		case p.is(t, "PARTITION") && p.is(p.peek(), "BY"):
			p.t.Native = squeeze(p.d[t.start:], p.server, p.esc)
			return
		case p.option(t):
		}
	}
}

// option takes one table option if it is one of those that matter.
func (p *ddl) option(t token) bool {
	value := func() string {
		p.accept("=")
		s, _ := p.name()
		return s
	}
	switch {
	case p.is(t, "ENGINE"), p.is(t, "TYPE"):
		p.t.Storage = value()
	case p.is(t, "CHARSET"), p.is(t, "CHARACTER") && p.accept("SET"):
		p.t.Charset = strings.ToLower(value())
	case p.is(t, "COLLATE"):
		p.t.Collation = strings.ToLower(value())
	case p.is(t, "COMMENT"):
		p.t.Comment = value()
	case p.is(t, "AUTO_INCREMENT"):
		n, _ := strconv.ParseUint(value(), 10, 64)
		for i := range p.t.Columns {
			if id := p.t.Columns[i].Identity; id != nil {
				id.Next = n
			}
		}
	default:
		return false
	}
	return true
}

// settle gives columns what depends on the whole statement: the table's character
// set, NOT NULL from the primary key.
func (p *ddl) settle() {
	if p.t.Charset == "" && p.t.Collation != "" {
		p.t.Charset = charsetOf(p.t.Collation)
	}
	for i := range p.t.Columns {
		p.settleColumn(&p.t.Columns[i])
	}
	if p.t.Key == nil {
		return
	}
	for _, part := range p.t.Key.Parts {
		if c := p.t.Column(part.Column); c != nil {
			c.NotNull = true
		}
	}
}

func (p *ddl) settleColumn(c *tidemark.Column) {
	t := &c.Type
	if d := c.Default; d != nil && d.Kind == tidemark.Literal {
		c.Default = &tidemark.Default{Kind: d.Kind, Text: canonicalDefault(d.Text, t)} // the old one may be another table's too
	}
	switch t.Kind {
	case tidemark.Char, tidemark.Varchar, tidemark.Text, tidemark.Enum, tidemark.Set:
	case tidemark.JSON:
		t.Charset, t.Collation = "utf8mb4", "utf8mb4_bin"
		return
	default:
		t.Charset, t.Collation = "", ""
		return
	}
	if t.Charset == "" && t.Collation != "" {
		t.Charset = charsetOf(t.Collation)
	}
	if t.Charset == "" {
		t.Charset = p.t.Charset
	}
	if t.Collation == p.t.Collation {
		t.Collation = ""
	}
	if t.Charset != "binary" {
		return
	}
	switch t.Kind {
	case tidemark.Char:
		t.Kind = tidemark.Binary
	case tidemark.Varchar:
		t.Kind = tidemark.Varbinary
	case tidemark.Text:
		t.Kind = tidemark.Blob
	default:
		return
	}
	t.Charset, t.Collation = "", ""
}
