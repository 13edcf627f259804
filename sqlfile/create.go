package sqlfile

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/charset"
	"github.com/tidemarkdb/tidemark/mysqltype"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// A ddl reads the definitions of CREATE TABLE and ALTER TABLE.
type ddl struct {
	*sqltext.Reader
	t      *tidemark.Table
	checks int    // count so far, for their names
	keys   int    // count of foreign keys so far, for their names
	why    string // why it is refused, if not for its syntax
}

// ParseCreateTable parses a CREATE TABLE statement of MySQL or MariaDB as the session would. What
// Table cannot express is left out, not refused. A statement that defines no columns (LIKE, AS
// SELECT) or cannot be parsed is an Error of Kind Unsupported; one beyond what any server accepts,
// of Kind BadInput.
func ParseCreateTable(text []byte, ses *Session) (*tidemark.Table, error) {
	text = ses.utf8(text)
	p := &ddl{Reader: ses.reader(text), t: &tidemark.Table{Rows: -1}}
	p.Attributes = true
	p.t.Schema = ses.Database
	p.Accept("CREATE")
	p.Accept("OR", "REPLACE")
	p.Accept("TEMPORARY")
	if !p.Accept("TABLE") {
		return nil, p.refuse("not a CREATE TABLE")
	}
	p.Accept("IF", "NOT", "EXISTS")
	if !p.tableName(&p.t.TableID) {
		return nil, p.refuse("no table name")
	}
	if !p.Accept("(") || p.Peek().Is("LIKE") {
		return nil, p.refuse("a table defined by another one")
	}
	for {
		if !p.definition() {
			if p.why != "" {
				return nil, &tidemark.Error{Kind: tidemark.BadInput, Op: "read", Object: "CREATE TABLE " + p.t.String(), Err: errors.New(p.why), Hint: hintBroke}
			}
			return nil, p.refuse("cannot read the definition at " + snippet(text[min(p.At, len(text)):]))
		}
		if t := p.Next(); t.Is(")") {
			break
		} else if !t.Is(",") {
			return nil, p.refuse("expected , or ) at " + snippet(text[t.At:]))
		}
	}
	p.options()
	if s := strings.ToLower(p.t.Storage); s == "memory" || s == "heap" { // its keys are hashes unless they say otherwise
		for i := range p.t.Indexes {
			p.t.Indexes[i].Method = cmp.Or(p.t.Indexes[i].Method, "hash")
		}
	}
	p.resolveColumns()
	if len(p.t.Columns) == 0 {
		return nil, p.refuse("no columns")
	}
	return p.t, nil
}

func (p *ddl) refuse(what string) error {
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "read", Object: "CREATE TABLE " + p.t.String(), Err: errors.New(what), Hint: "Take the table's shape from a server: create the table on the target first and load into it."}
}

// utf8 converts text from the session's character set to UTF-8.
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
func (p *ddl) name() (string, bool) { return p.Ident(p.Next()) }

// tableName reads a table's name, with or without its database.
func (p *ddl) tableName(id *tidemark.TableID) bool {
	name, ok := p.name()
	if ok && p.Accept(".") {
		id.Schema = name
		name, ok = p.name()
	}
	id.Name = name
	return ok
}

// definition reads a column, key or constraint, up to the comma or parenthesis after it.
func (p *ddl) definition() bool {
	switch is, name := p.Definition(); is {
	case sqltext.PrimaryKey:
		p.t.Key = &tidemark.Index{Name: name, Unique: true}
		return p.index(p.t.Key)
	case sqltext.UniqueKey:
		return p.key(tidemark.Index{Name: name, Unique: true, Constraint: true})
	case sqltext.Key:
		return p.key(tidemark.Index{Name: name})
	case sqltext.FulltextKey:
		return p.key(tidemark.Index{Name: name, Method: "fulltext"})
	case sqltext.SpatialKey:
		return p.key(tidemark.Index{Name: name, Method: "spatial"})
	case sqltext.VectorKey:
		return p.key(tidemark.Index{Name: name, Method: "vector"})
	case sqltext.ForeignKey:
		return p.foreignKey(name)
	case sqltext.Check:
		return p.Accept("(") && p.check(name)
	case sqltext.Period:
		return p.skipRest()
	}
	return p.column(-1)
}

// skipRest skips what remains of a definition.
func (p *ddl) skipRest() bool {
	for {
		switch t := p.Peek(); {
		case t.Is(","), t.Is(")"), t.Kind == sqltext.End:
			return true
		case t.Kind == sqltext.Bad:
			return false
		case t.Is("("):
			p.Next()
			if _, ok := p.Close(); !ok {
				return false
			}
		default:
			p.Next()
		}
	}
}

// key reads an index, which may be unnamed.
func (p *ddl) key(x tidemark.Index) bool {
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

// keyName returns the name that the server gives an unnamed index: that of its first column,
// numbered if it is taken.
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
	if p.Peek().Is("USING") {
		p.Next()
		method()
	}
	if !p.Accept("(") {
		return false
	}
	for {
		part, ok := p.part()
		if !ok {
			return false
		}
		x.Parts = append(x.Parts, part)
		if t := p.Next(); t.Is(")") {
			break
		} else if !t.Is(",") {
			return false
		}
	}
	for {
		switch t := p.Peek(); {
		case t.Is(","), t.Is(")"), t.Kind == sqltext.End:
			return true
		case t.Kind == sqltext.Bad, t.Is("("):
			return false
		case t.Is("USING"):
			p.Next()
			method()
		case t.Is("COMMENT"):
			p.Next()
			x.Comment = p.Value(p.Next())
		default:
			p.Next()
		}
	}
}

// part reads one column of an index: `c`(10) DESC, (expression), or p WITHOUT OVERLAPS.
func (p *ddl) part() (x tidemark.IndexPart, ok bool) {
	if p.Accept("(") {
		start := p.At
		end, ok := p.Close()
		if !ok {
			return x, false
		}
		if x.Expr, ok = p.expression(start, end); !ok {
			return x, false
		}
	} else if x.Column, ok = p.name(); !ok {
		return x, false
	} else if p.Accept("WITHOUT", "OVERLAPS") { // MariaDB: name of a period
		x.Expr, x.Column = inBackticks(x.Column)+" WITHOUT OVERLAPS", ""
	}
	if p.Accept("(") {
		n, err := strconv.Atoi(p.Next().Text)
		if err != nil || !p.Accept(")") {
			return x, false
		}
		x.Prefix = n
	}
	if x.Desc = p.Accept("DESC"); !x.Desc {
		p.Accept("ASC")
	}
	return x, true
}

// names reads (a, b).
func (p *ddl) names() ([]string, bool) {
	if !p.Accept("(") {
		return nil, false
	}
	return columnList(p.Reader)
}

// foreignKey reads what follows FOREIGN KEY.
func (p *ddl) foreignKey(name string) bool {
	f := tidemark.ForeignKey{Name: name}
	if n := p.Peek(); n.Kind == sqltext.Name || n.Kind == sqltext.Word {
		p.Next() // the index's name
	}
	p.keys++
	if f.Name == "" {
		f.Name = fmt.Sprintf("%s_ibfk_%d", p.t.Name, p.keys)
	}
	var ok bool
	if f.Columns, ok = p.names(); !ok || !p.Accept("REFERENCES") {
		return false
	}
	f.Ref.Schema = p.t.Schema
	if !p.tableName(&f.Ref) {
		return false
	}
	if f.RefColumns, ok = p.names(); !ok {
		return false
	}
	if p.Accept("MATCH") {
		p.Next()
	}
	for p.Accept("ON") {
		event := p.Next()
		action := strings.ToUpper(p.Next().Text)
		if action == "SET" || action == "NO" {
			action += " " + strings.ToUpper(p.Next().Text)
		}
		if event.Is("DELETE") {
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
	start := p.At
	end, ok := p.Close()
	if !ok {
		return false
	}
	if name == "" {
		p.checks++
		name = fmt.Sprintf("%s_chk_%d", p.t.Name, p.checks)
	}
	enforced := !p.Accept("NOT", "ENFORCED")
	if !enforced {
		return true
	}
	p.Accept("ENFORCED")
	sql, ok := p.expression(start, end)
	p.t.Checks = append(p.t.Checks, tidemark.Check{Name: name, Expr: sql})
	return ok
}

// options reads what follows the definitions.
func (p *ddl) options() {
	for {
		t := p.Next()
		switch {
		case t.Kind == sqltext.End || t.Kind == sqltext.Bad:
			return
		case t.Is("PARTITION") && p.Peek().Is("BY"):
			p.t.Native = p.Squeeze(t.At, len(p.Text))
			return
		case p.option(t):
		}
	}
}

// option applies one table option if it is relevant.
func (p *ddl) option(t sqltext.Token) bool {
	value := func() string {
		p.Accept("=")
		s, _ := p.name()
		return s
	}
	switch {
	case t.Is("ENGINE"), t.Is("TYPE"):
		p.t.Storage = value()
	case t.Is("CHARSET"), t.Is("CHARACTER") && p.Accept("SET"):
		p.t.Charset = strings.ToLower(value())
	case t.Is("COLLATE"):
		p.t.Collation = strings.ToLower(value())
	case t.Is("COMMENT"):
		p.t.Comment = value()
	case t.Is("AUTO_INCREMENT"):
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

// resolveColumns sets the attributes of columns that depend on the whole statement: the table's
// character set, NOT NULL from the primary key.
func (p *ddl) resolveColumns() {
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
	defer settleDefault(c) // by the type that it then has
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

var introducer = regexp.MustCompile(`^\(*_([0-9A-Za-z]+)`)

// settleDefault gives a literal default the text of its column's type. An expression that is but a
// constant is a literal, as in a server's catalogue.
func settleDefault(c *tidemark.Column) {
	d := c.Default
	if d == nil {
		return
	}
	text, is := d.Text, d.Kind == tidemark.Literal
	if is {
		text = canonicalDefault(text, &c.Type)
	} else if d.Kind == tidemark.Expression {
		if strings.EqualFold(strings.Trim(text, "() "), "NULL") {
			c.Default = nil
			return
		}
		if text, is = sqltext.BareString(d.Text); is {
			if m := introducer.FindStringSubmatch(d.Text); m != nil && !utf8.ValidString(text) { // files have its bytes
				text = string((&Session{Charset: strings.ToLower(m[1])}).utf8([]byte(text)))
			}
			text = mysqltype.StringDefault(text, &c.Type)
		} else {
			text, is = mysqltype.ConstantDefault(d.Text, &c.Type)
		}
	}
	if is {
		c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: text} // a copy, because another table may share the old one
	}
}
