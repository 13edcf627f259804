package sqlfile

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysqltype"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// column reads a column definition. With replace >= 0 it replaces that column, else it is added.
func (p *ddl) column(replace int) bool {
	name, ok := p.name()
	if !ok || name == "" {
		return false
	}
	c := tidemark.Column{Name: name}
	if !p.columnType(&c) || !p.attributes(&c) {
		return false
	}
	if replace >= 0 {
		p.t.Columns[replace] = c
		return true
	}
	if len(p.t.Columns) == tidemark.MaxColumns {
		p.why = fmt.Sprintf("more than %d columns", tidemark.MaxColumns)
		return false
	}
	p.t.Columns = append(p.t.Columns, c)
	return true
}

// columnType reads the type and its modifiers.
func (p *ddl) columnType(c *tidemark.Column) bool {
	t := p.Next()
	if t.Kind != sqltext.Word {
		return false
	}
	var native strings.Builder
	first := strings.ToLower(t.Text)
	national := first == "national"
	if national {
		first = strings.ToLower(p.Next().Text)
	}
	native.WriteString(first)
	switch {
	case first == "double" && p.Accept("PRECISION"):
	case (first == "char" || first == "character") && p.Accept("VARYING"):
		native.Reset()
		native.WriteString("varchar")
	case first == "long" && p.Accept("VARBINARY"):
		native.Reset()
		native.WriteString("mediumblob")
	case first == "long":
		p.Accept("VARCHAR")
		native.Reset()
		native.WriteString("mediumtext")
	}
	if p.Accept("(") && !p.arguments(&native) {
		return false
	}
	for {
		switch {
		case p.Accept("UNSIGNED"):
			native.WriteString(" unsigned")
			continue
		case p.Accept("ZEROFILL"):
			native.WriteString(" zerofill")
			continue
		case p.Accept("SIGNED"):
			continue
		}
		break
	}
	c.Type = mysqltype.Parse(native.String())
	switch {
	case national || first == "nchar" || first == "nvarchar":
		c.Type.Charset = "utf8mb3"
	case first == "serial":
		c.NotNull, c.Identity = true, &tidemark.Identity{}
		p.unique(c.Name)
	}
	return true
}

// arguments reads the parentheses of a type; labels are written with doubled quotes only, as
// information_schema has them.
func (p *ddl) arguments(b *strings.Builder) bool {
	b.WriteByte('(')
	for {
		switch t := p.Next(); {
		case t.Kind == sqltext.End || t.Kind == sqltext.Bad:
			return false
		case t.Is(")"):
			b.WriteByte(')')
			return true
		case t.Kind == sqltext.String:
			b.WriteString("'" + strings.ReplaceAll(p.Value(t), "'", "''") + "'")
		default:
			b.WriteString(t.Text)
		}
	}
}

// unique adds the index that UNIQUE in a column definition creates.
func (p *ddl) unique(column string) {
	p.t.Indexes = append(p.t.Indexes, tidemark.Index{Name: p.keyName(column), Unique: true, Constraint: true, Parts: []tidemark.IndexPart{{Column: column}}})
}

// attributes reads what follows the type of a column, in any order.
func (p *ddl) attributes(c *tidemark.Column) bool {
	for {
		t := p.Peek()
		switch {
		case t.Is(","), t.Is(")"), t.Kind == sqltext.End:
			return true
		case t.Kind == sqltext.Bad:
			return false
		}
		p.Next()
		if !p.attribute(c, t) {
			return false
		}
	}
}

func (p *ddl) attribute(c *tidemark.Column, t sqltext.Token) bool {
	switch {
	case t.Is("NOT"):
		c.NotNull = c.NotNull || p.Accept("NULL")
	case t.Is("DEFAULT"):
		return p.columnDefault(c)
	case t.Is("AUTO_INCREMENT"):
		c.Identity = &tidemark.Identity{}
	case t.Is("COMMENT"):
		c.Comment = p.Value(p.Next())
	case t.Is("COLLATE"):
		s, _ := p.name()
		c.Type.Collation = strings.ToLower(s)
	case t.Is("CHARSET"), t.Is("CHARACTER") && p.Accept("SET"):
		s, _ := p.name()
		c.Type.Charset = strings.ToLower(s)
	case t.Is("ASCII"):
		c.Type.Charset = "latin1"
	case t.Is("UNICODE"):
		c.Type.Charset = "ucs2"
	case t.Is("BYTE"):
		c.Type.Charset = "binary"
	case t.Is("PRIMARY"), t.Is("KEY"):
		p.Accept("KEY")
		p.t.Key = &tidemark.Index{Name: "PRIMARY", Unique: true, Parts: []tidemark.IndexPart{{Column: c.Name}}}
		c.NotNull = true
	case t.Is("UNIQUE"):
		p.Accept("KEY")
		p.unique(c.Name)
	case t.Is("INVISIBLE"):
		c.Invisible = true
	case t.Is("SRID"):
		c.Type.Native += " SRID " + p.Next().Text // as a server describes it
	case t.Is("ON"):
		if p.Accept("UPDATE") {
			c.OnUpdate = true
		}
	case t.Is("GENERATED"):
		p.Accept("ALWAYS")
	case t.Is("AS"):
		return p.generated(c)
	case t.Is("CHECK"):
		return p.Accept("(") && p.columnCheck(c)
	case t.Is("CONSTRAINT"):
		if !p.Peek().Is("CHECK") {
			p.Next()
		}
	case t.Is("FIRST"):
	case t.Is("AFTER"):
		p.Next()
	case t.Is("("): // of an attribute that is ignored here
		_, ok := p.Close()
		return ok
	}
	return true
}

// generated reads what follows AS: an expression, or ROW START of system versioning.
func (p *ddl) generated(c *tidemark.Column) bool {
	if p.Accept("ROW") {
		c.Generated, c.Virtual = "ROW "+strings.ToUpper(p.Next().Text), false
		return true
	}
	if !p.Accept("(") {
		return false
	}
	start := p.At
	end, ok := p.Close()
	if !ok {
		return false
	}
	if c.Generated, ok = p.expression(start, end); !ok {
		return false
	}
	c.Virtual = true
	if p.Accept("STORED") || p.Accept("PERSISTENT") {
		c.Virtual = false
	} else {
		p.Accept("VIRTUAL")
	}
	return true
}

// columnCheck reads the expression of a CHECK, which on MariaDB has the column's name (mysqldump
// writes none at columns). MariaDB writes JSON as longtext with a check that it is JSON.
func (p *ddl) columnCheck(c *tidemark.Column) bool {
	start := p.At
	end, ok := p.Close()
	if !ok {
		return false
	}
	expr, ok := p.expression(start, end)
	if !ok {
		return false
	}
	if c.Type.Kind == tidemark.Text && strings.EqualFold(expr, "json_valid(`"+strings.ReplaceAll(c.Name, "`", "``")+"`)") {
		c.Type = tidemark.Type{Kind: tidemark.JSON, Native: "json"}
		return true
	}
	p.At = start
	return p.check(c.Name)
}

// columnDefault reads what follows DEFAULT.
func (p *ddl) columnDefault(c *tidemark.Column) bool {
	t := p.Next()
	text := t.Text
	switch {
	case t.Kind == sqltext.End || t.Kind == sqltext.Bad:
		return false
	case t.Is("NULL"):
		return true
	case t.Kind == sqltext.String:
		c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: p.Value(t)}
		return true
	case t.Is("-"), t.Is("+"):
		number := p.number()
		c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: strings.TrimPrefix(text, "+") + number}
		return true
	case t.Is("("):
		start := p.At
		end, ok := p.Close()
		if !ok {
			return false
		}
		return p.defaultExpression(c, start, end)
	case t.Kind != sqltext.Word:
		if t.Is(".") {
			p.At = t.At
			c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: p.number()}
			return true
		}
		return false
	case text[0] >= '0' && text[0] <= '9' && !strings.HasPrefix(text, "0x"):
		p.At = t.At
		c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: p.number()}
		return true
	case t.Is("TRUE"), t.Is("FALSE"):
		c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: map[bool]string{true: "1", false: "0"}[t.Is("TRUE")]}
		return true
	}
	return p.wordDefault(c, t)
}

// number reads the rest of a number: digits, a point, an exponent.
func (p *ddl) number() string {
	for p.At < len(p.Text) && sqltext.IsSpace(p.Text[p.At]) {
		p.At++
	}
	start := p.At
	for p.At < len(p.Text) {
		c := p.Text[p.At]
		if c >= '0' && c <= '9' || c == '.' || c|0x20 == 'e' || (c == '-' || c == '+') && p.At > start && p.Text[p.At-1]|0x20 == 'e' {
			p.At++
			continue
		}
		break
	}
	return string(p.Text[start:p.At])
}

// wordDefault reads a default that begins with a word: b'0', x'00', 0x00, _utf8'x',
// or a function.
func (p *ddl) wordDefault(c *tidemark.Column, t sqltext.Token) bool {
	text := strings.ToLower(t.Text)
	if next := p.Peek(); next.Kind == sqltext.String && next.At == t.After() || next.Kind == sqltext.String && text[0] == '_' {
		p.Next()
		switch value := p.Value(next); text {
		case "b":
			c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: value}
		case "x":
			b, _ := hex.DecodeString(value)
			c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: string(b)}
		default:
			c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: value}
		}
		return true
	}
	if strings.HasPrefix(text, "0x") {
		b, err := hex.DecodeString(text[2:])
		c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: string(b)}
		return err == nil
	}
	start, end := t.At, t.After()
	if p.Accept("(") {
		if _, ok := p.Close(); !ok {
			return false
		}
		end = p.At
	} else if p.Accept("VALUE", "FOR") || p.Accept("NEXT", "VALUE", "FOR") {
		p.Next()
		end = p.At
	}
	return p.defaultExpression(c, start, end)
}

func (p *ddl) defaultExpression(c *tidemark.Column, start, end int) bool {
	sql, ok := p.expression(start, end)
	if ok {
		c.Default = expression(sql)
	}
	return ok
}

// expression returns the SQL between two offsets of the text; false if it is longer than any server
// accepts.
func (p *ddl) expression(start, end int) (string, bool) {
	sql := p.Squeeze(start, end)
	if len(sql) > tidemark.MaxExpression {
		p.why = fmt.Sprintf("an expression of %d bytes, where servers take at most %d", len(sql), tidemark.MaxExpression)
		return "", false
	}
	return sql, true
}

// canonicalDefault converts a literal default to the canonical text of its type.
func canonicalDefault(s string, t *tidemark.Type) string {
	switch {
	case t.Kind == tidemark.Bit:
		if strings.Trim(s, "01") == "" {
			return mysqltype.BitDefault(s, t)
		}
	case t.Kind.Bytes() && !strings.HasPrefix(s, `\x`):
		return mysqltype.BytesDefault([]byte(s), t)
	case t.Kind == tidemark.Timestamp && len(s) >= 19 && !strings.HasPrefix(s, "0000-00-00") && !strings.HasSuffix(s, "+00"):
		return s + "+00"
	}
	return mysqltype.Unfilled(s, t)
}

// expression recognises the defaults that other engines have too.
func expression(sql string) *tidemark.Default {
	name, args, _ := strings.Cut(strings.ToLower(sql), "(")
	inner := strings.TrimSuffix(args, ")")
	simple := !strings.ContainsAny(inner, "(),'`") && !strings.ContainsAny(strings.TrimSpace(name), " +-*/")
	switch strings.TrimSpace(name) {
	case "current_timestamp", "now", "localtime", "localtimestamp", "sysdate":
		if simple {
			return &tidemark.Default{Kind: tidemark.Now}
		}
	case "curdate", "current_date":
		if simple {
			return &tidemark.Default{Kind: tidemark.Today}
		}
	case "uuid":
		if simple && inner == "" {
			return &tidemark.Default{Kind: tidemark.NewUUID}
		}
	}
	return &tidemark.Default{Kind: tidemark.Expression, Text: sql}
}
