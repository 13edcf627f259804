package sqlfile

import (
	"bytes"
	"strings"
)

// A clause is one definition of a CREATE TABLE.
type clause struct {
	from, stop int // in the text: after the comma before it, and of what ends it
	start, end int // of its words
	kind       clauseKind
	alone      bool // FULLTEXT and SPATIAL are built one at a time
	first      string
	columns    string // of a key: its list, in lower case, for looking up names
	auto       string // of a column: its name, if it is AUTO_INCREMENT
}

type clauseKind uint8

const (
	stays clauseKind = iota // columns, checks, and what is not understood
	primary
	uniqueKey
	plainKey
	foreignKey
)

// SplitKeys takes the secondary keys and foreign keys out of a CREATE TABLE, and
// gives the ALTER TABLE statements that add them when the table has its rows:
// first all plain keys in one (one pass over the table), then each FULLTEXT and
// SPATIAL key, then the foreign keys. The primary key stays, and a key that an
// AUTO_INCREMENT column needs, and unique keys where there is no primary key,
// because InnoDB orders the rows by the first of them. Definitions in conditional
// comments stay too. Text that is no CREATE TABLE with keys comes back as it is.
//
// Rows loaded by INSERT IGNORE or REPLACE need their unique keys in place: do not
// split the tables of such a file.
func SplitKeys(create []byte) (bare []byte, alters [][]byte) {
	l := &lexer{d: create, esc: true}
	name, ok := createName(l)
	if ok && name[0] == '"' { // made for ANSI_QUOTES, which may be over when the keys are added
		create = backticks(create)
		l = &lexer{d: create, esc: true}
		name, ok = createName(l)
	}
	if !ok {
		return create, nil
	}
	clauses, ok := clauses(l)
	if !ok {
		return create, nil
	}
	stay(clauses)
	var keys, fks [][]byte
	bare = append(bare, create[:clauses[0].from]...)
	kept := 0
	for _, c := range clauses {
		text := create[c.start:c.end]
		switch {
		case c.kind == stays || c.kind == primary:
			if kept++; kept > 1 {
				bare = append(bare, ',')
			}
			bare = append(bare, create[c.from:c.stop]...)
		case c.kind == foreignKey:
			fks = append(fks, text)
		case c.alone:
			alters = append(alters, alterAdd(name, [][]byte{text}))
		default:
			keys = append(keys, text)
		}
	}
	if len(keys) > 0 {
		alters = append([][]byte{alterAdd(name, keys)}, alters...)
	}
	if len(fks) > 0 {
		alters = append(alters, alterAdd(name, fks))
	}
	if kept == 0 || len(alters) == 0 {
		return create, nil
	}
	last := clauses[len(clauses)-1]
	if last.kind != stays && last.kind != primary {
		bare = append(bare, create[last.end:last.stop]...) // the end of the line
	}
	return append(bare, create[last.stop:]...), alters
}

// backticks writes names in double quotes as names in backticks.
func backticks(text []byte) []byte {
	l := &lexer{d: text, esc: true, ansi: true}
	var out []byte
	last := 0
	for t := l.next(); t.kind != tEnd && t.kind != tBad; t = l.next() {
		if t.kind == tName && text[t.start] == '"' {
			out = append(out, text[last:t.start]...)
			out = append(out, "`"+strings.ReplaceAll(unquoteName(l.text(t)), "`", "``")+"`"...)
			last = t.end
		}
	}
	return append(out, text[last:]...)
}

// alterAdd makes one statement that adds definitions.
func alterAdd(name []byte, defs [][]byte) []byte {
	var b bytes.Buffer
	b.WriteString("ALTER TABLE ")
	b.Write(name)
	for i, d := range defs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(" ADD ")
		b.Write(d)
	}
	return b.Bytes()
}

// createName reads up to the ( of the definitions and gives the table's name as
// it is written.
func createName(l *lexer) ([]byte, bool) {
	if !l.accept("CREATE") {
		return nil, false
	}
	l.acceptAll("OR", "REPLACE")
	if !l.accept("TABLE") {
		return nil, false
	}
	l.acceptAll("IF", "NOT", "EXISTS")
	start := l.next()
	end := start.end
	if l.accept(".") {
		end = l.next().end
	}
	return l.d[start.start:end], l.accept("(")
}

// clauses cuts the definitions.
func clauses(l *lexer) (out []clause, ok bool) {
	for {
		c, ok := nextClause(l)
		if !ok {
			return nil, false
		}
		out = append(out, c)
		if l.d[c.stop] == ')' {
			return out, true
		}
	}
}

// nextClause reads one definition and what ends it. One that holds a mark of a
// conditional comment is for the server to read.
func nextClause(l *lexer) (c clause, ok bool) {
	c.from = l.i
	t := l.next()
	if l.is(t, ",") || l.is(t, ")") {
		return c, false
	}
	c.start = t.start
	c.classify(l, t)
	depth, list := 0, 0
	for ; ; t = l.next() {
		switch {
		case t.kind == tEnd || t.kind == tBad:
			return c, false
		case l.is(t, "("):
			if depth++; depth == 1 && c.columns == "" {
				list = t.end
			}
		case depth == 0 && (l.is(t, ",") || l.is(t, ")")):
			c.stop = t.start
			if inside := l.d[c.from:c.stop]; bytes.Contains(inside, []byte("/*")) || bytes.Contains(inside, []byte("*/")) {
				c.kind = stays
			}
			return c, true
		case l.is(t, ")"):
			if depth--; depth == 0 && c.columns == "" {
				c.columns = strings.ToLower(string(l.d[list:t.start]))
			}
		case depth == 0 && l.is(t, "AUTO_INCREMENT"):
			c.auto = c.first
		case depth == 0 && l.is(t, "PRIMARY") && c.kind == stays:
			c.kind = primary
		}
		c.end = t.end
	}
}

// classify says what a definition that begins with t is, by its first words.
func (c *clause) classify(l *lexer, t token) {
	at := l.i
	defer func() { l.i = at }()
	if t.kind != tWord {
		c.first, _ = l.ident(t)
		return
	}
	if l.is(t, "CONSTRAINT") {
		if t = l.next(); !l.is(t, "PRIMARY") && !l.is(t, "UNIQUE") && !l.is(t, "FOREIGN") && !l.is(t, "CHECK") {
			t = l.next()
		}
	}
	switch {
	case l.is(t, "PRIMARY") && l.accept("KEY"):
		c.kind = primary
	case l.is(t, "UNIQUE"):
		c.kind = uniqueKey
	case l.is(t, "KEY"), l.is(t, "INDEX"):
		c.kind = plainKey
	case l.is(t, "FULLTEXT"), l.is(t, "SPATIAL"):
		c.kind, c.alone = plainKey, true
	case l.is(t, "FOREIGN") && l.accept("KEY"):
		c.kind = foreignKey
	default:
		c.first, _ = l.ident(t)
	}
}

// stay marks the keys that must not be taken out.
func stay(clauses []clause) {
	auto, hasPrimary, done := "", false, false
	for _, c := range clauses {
		if c.auto != "" {
			auto = strings.ToLower(c.auto)
		}
		if c.kind == primary {
			hasPrimary = true
			done = done || leads(c, auto) || strings.EqualFold(c.first, auto)
		}
	}
	for i := range clauses {
		c := &clauses[i]
		if c.kind == uniqueKey && !hasPrimary {
			c.kind = stays
			done = done || auto != "" && leads(*c, auto)
		}
	}
	if auto == "" || done {
		return
	}
	for _, rule := range []func(clause, string) bool{leads, holds} {
		for i := range clauses {
			if c := &clauses[i]; (c.kind == plainKey && !c.alone || c.kind == uniqueKey) && rule(*c, auto) {
				c.kind = stays
				return
			}
		}
	}
}

// leads reports whether a key begins with the column.
func leads(c clause, column string) bool {
	first, _, _ := strings.Cut(c.columns, ",")
	return column != "" && strings.Trim(strings.TrimSpace(first), "`\"") == column
}

// holds reports whether a key has the column at all: enough for MyISAM.
func holds(c clause, column string) bool {
	for part := range strings.SplitSeq(c.columns, ",") {
		if strings.Trim(strings.TrimSpace(part), "`\"") == column {
			return true
		}
	}
	return false
}
