package sqlfile

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// column reads a column definition. With replace >= 0 it takes the place of that
// column, else it is added.
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

// columnType reads the type and what belongs to its spelling.
func (p *ddl) columnType(c *tidemark.Column) bool {
	t := p.next()
	if t.kind != tWord {
		return false
	}
	var native strings.Builder
	first := strings.ToLower(string(p.text(t)))
	national := first == "national"
	if national {
		first = strings.ToLower(string(p.text(p.next())))
	}
	native.WriteString(first)
	switch {
	case first == "double" && p.accept("PRECISION"):
	case (first == "char" || first == "character") && p.accept("VARYING"):
		native.Reset()
		native.WriteString("varchar")
	case first == "long" && p.accept("VARBINARY"):
		native.Reset()
		native.WriteString("mediumblob")
	case first == "long":
		p.accept("VARCHAR")
		native.Reset()
		native.WriteString("mediumtext")
	}
	if p.accept("(") && !p.arguments(&native) {
		return false
	}
	for {
		switch {
		case p.accept("UNSIGNED"):
			native.WriteString(" unsigned")
			continue
		case p.accept("ZEROFILL"):
			native.WriteString(" zerofill")
			continue
		case p.accept("SIGNED"):
			continue
		}
		break
	}
	c.Type = tidemark.MySQLType(native.String())
	switch {
	case national || first == "nchar" || first == "nvarchar":
		c.Type.Charset = "utf8mb3"
	case first == "serial":
		c.NotNull, c.Identity = true, &tidemark.Identity{}
		p.unique(c.Name)
	}
	return true
}

// arguments reads what stands in the parentheses of a type; labels are written
// with doubled quotes only, as information_schema has them.
func (p *ddl) arguments(b *strings.Builder) bool {
	b.WriteByte('(')
	for {
		switch t := p.next(); {
		case t.kind == tEnd || t.kind == tBad:
			return false
		case p.is(t, ")"):
			b.WriteByte(')')
			return true
		case t.kind == tString:
			b.WriteString("'" + strings.ReplaceAll(p.str(t), "'", "''") + "'")
		default:
			b.Write(p.text(t))
		}
	}
}

// unique adds the index that UNIQUE in a column definition makes.
func (p *ddl) unique(column string) {
	p.t.Indexes = append(p.t.Indexes, tidemark.Index{Name: p.keyName(column), Unique: true, Parts: []tidemark.IndexPart{{Column: column}}})
}

// attributes reads what follows the type of a column, in any order.
func (p *ddl) attributes(c *tidemark.Column) bool {
	for {
		t := p.peek()
		switch {
		case p.is(t, ","), p.is(t, ")"), t.kind == tEnd:
			return true
		case t.kind == tBad:
			return false
		}
		p.next()
		if !p.attribute(c, t) {
			return false
		}
	}
}

func (p *ddl) attribute(c *tidemark.Column, t token) bool {
	switch {
	case p.is(t, "NOT"):
		c.NotNull = c.NotNull || p.accept("NULL")
	case p.is(t, "DEFAULT"):
		return p.columnDefault(c)
	case p.is(t, "AUTO_INCREMENT"):
		c.Identity = &tidemark.Identity{}
	case p.is(t, "COMMENT"):
		c.Comment = p.str(p.next())
	case p.is(t, "COLLATE"):
		s, _ := p.name()
		c.Type.Collation = strings.ToLower(s)
	case p.is(t, "CHARSET"), p.is(t, "CHARACTER") && p.accept("SET"):
		s, _ := p.name()
		c.Type.Charset = strings.ToLower(s)
	case p.is(t, "ASCII"):
		c.Type.Charset = "latin1"
	case p.is(t, "UNICODE"):
		c.Type.Charset = "ucs2"
	case p.is(t, "BYTE"):
		c.Type.Charset = "binary"
	case p.is(t, "PRIMARY"), p.is(t, "KEY"):
		p.accept("KEY")
		p.t.Key = &tidemark.Index{Name: "PRIMARY", Unique: true, Parts: []tidemark.IndexPart{{Column: c.Name}}}
		c.NotNull = true
	case p.is(t, "UNIQUE"):
		p.accept("KEY")
		p.unique(c.Name)
	case p.is(t, "INVISIBLE"):
		c.Invisible = true
	case p.is(t, "ON"):
		if p.accept("UPDATE") {
			c.OnUpdate = true
		}
	case p.is(t, "GENERATED"):
		p.accept("ALWAYS")
	case p.is(t, "AS"):
		return p.generated(c)
	case p.is(t, "CHECK"):
		return p.accept("(") && p.columnCheck(c)
	case p.is(t, "CONSTRAINT"):
		if !p.is(p.peek(), "CHECK") {
			p.next()
		}
	case p.is(t, "FIRST"):
	case p.is(t, "AFTER"):
		p.next()
	case p.is(t, "("): // of an attribute that means nothing here
		_, ok := p.parens()
		return ok
	}
	return true
}

// generated reads what follows AS: an expression, or ROW START of system versioning.
func (p *ddl) generated(c *tidemark.Column) bool {
	if p.accept("ROW") {
		c.Generated, c.Virtual = "ROW "+strings.ToUpper(string(p.text(p.next()))), false
		return true
	}
	if !p.accept("(") {
		return false
	}
	start := p.i
	end, ok := p.parens()
	if !ok {
		return false
	}
	if c.Generated, ok = p.expression(start, end); !ok {
		return false
	}
	c.Virtual = true
	if p.accept("STORED") || p.accept("PERSISTENT") {
		c.Virtual = false
	} else {
		p.accept("VIRTUAL")
	}
	return true
}

// columnCheck reads the expression of a CHECK. MariaDB writes JSON as longtext
// with a check that it is JSON.
func (p *ddl) columnCheck(c *tidemark.Column) bool {
	start := p.i
	end, ok := p.parens()
	if !ok {
		return false
	}
	expr, ok := p.expression(start, end)
	if !ok {
		return false
	}
	if c.Type.Kind == tidemark.Text && strings.EqualFold(expr, "json_valid(`"+c.Name+"`)") {
		c.Type = tidemark.Type{Kind: tidemark.JSON, Native: "json"}
		return true
	}
	p.i = start
	return p.check("")
}

// columnDefault reads what follows DEFAULT.
func (p *ddl) columnDefault(c *tidemark.Column) bool {
	t := p.next()
	text := string(p.text(t))
	switch {
	case t.kind == tEnd || t.kind == tBad:
		return false
	case p.is(t, "NULL"):
		return true
	case t.kind == tString:
		c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: p.str(t)}
		return true
	case p.is(t, "-"), p.is(t, "+"):
		number := p.number()
		c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: strings.TrimPrefix(text, "+") + number}
		return true
	case p.is(t, "("):
		start := p.i
		end, ok := p.parens()
		if !ok {
			return false
		}
		return p.defaultExpression(c, start, end)
	case t.kind != tWord:
		if p.is(t, ".") {
			p.i = t.start
			c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: p.number()}
			return true
		}
		return false
	case text[0] >= '0' && text[0] <= '9' && !strings.HasPrefix(text, "0x"):
		p.i = t.start
		c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: p.number()}
		return true
	case p.is(t, "TRUE"), p.is(t, "FALSE"):
		c.Default = &tidemark.Default{Kind: tidemark.Literal, Text: map[bool]string{true: "1", false: "0"}[p.is(t, "TRUE")]}
		return true
	}
	return p.wordDefault(c, t)
}

// number reads the rest of a number: digits, a point, an exponent.
func (p *ddl) number() string {
	for p.i < len(p.d) && space[p.d[p.i]] {
		p.i++
	}
	start := p.i
	for p.i < len(p.d) {
		c := p.d[p.i]
		if c >= '0' && c <= '9' || c == '.' || c|0x20 == 'e' || (c == '-' || c == '+') && p.i > start && p.d[p.i-1]|0x20 == 'e' {
			p.i++
			continue
		}
		break
	}
	return string(p.d[start:p.i])
}

// wordDefault reads a default that begins with a word: b'0', x'00', 0x00, _utf8'x',
// or a function.
func (p *ddl) wordDefault(c *tidemark.Column, t token) bool {
	text := strings.ToLower(string(p.text(t)))
	if next := p.peek(); next.kind == tString && next.start == t.end || next.kind == tString && text[0] == '_' {
		p.next()
		switch value := p.str(next); text {
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
	start, end := t.start, t.end
	if p.accept("(") {
		if _, ok := p.parens(); !ok {
			return false
		}
		end = p.i
	} else if p.acceptAll("VALUE", "FOR") || p.acceptAll("NEXT", "VALUE", "FOR") {
		p.next()
		end = p.i
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

// expression gives the SQL between two places of the text; false where it is longer than any server takes.
func (p *ddl) expression(start, end int) (string, bool) {
	sql := squeeze(p.d[start:end], p.server, p.esc)
	if len(sql) > tidemark.MaxExpression {
		p.why = fmt.Sprintf("an expression of %d bytes, where servers take at most %d", len(sql), tidemark.MaxExpression)
		return "", false
	}
	return sql, true
}

// canonicalDefault gives a literal default as the canonical text of its type.
func canonicalDefault(s string, t *tidemark.Type) string {
	switch {
	case t.Kind == tidemark.Bit:
		if n := int(t.Length) - len(s); n > 0 && strings.Trim(s, "01") == "" {
			return strings.Repeat("0", n) + s
		}
	case t.Kind.Bytes() && !strings.HasPrefix(s, `\x`):
		return `\x` + hex.EncodeToString([]byte(s))
	case t.Kind == tidemark.Timestamp && len(s) >= 19 && !strings.HasPrefix(s, "0000-00-00") && !strings.HasSuffix(s, "+00"):
		return s + "+00"
	}
	return s
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
