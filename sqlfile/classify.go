package sqlfile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// size gives a number of bytes for a message.
func size(n int) string {
	switch {
	case n >= 1<<20:
		return strconv.Itoa(n>>20) + " MB"
	case n >= 1<<10:
		return strconv.Itoa(n>>10) + " kB"
	}
	return strconv.Itoa(n) + " bytes"
}

// snippet gives the beginning of text for a message, in quotes.
func snippet(b []byte) string {
	if len(b) > 30 {
		return strconv.Quote(string(b[:30])) + "..."
	}
	return strconv.Quote(string(b))
}

// classify finds what a statement does, and lets it take effect on what the
// scanner knows.
func (s *Scanner) classify(st *Statement) {
	l := &lexer{d: st.Text, server: s.session.Server, esc: s.session.esc(), ansi: s.session.AnsiQuotes}
	st.Database = s.session.Database
	t := l.next()
	switch strings.ToUpper(string(l.text(t))) {
	case "SET":
		s.classifySet(st, l)
	case "USE":
		st.Kind = Use
		st.Database, _ = l.ident(l.next())
		next := *s.session
		next.Database = st.Database
		s.session = &next
	case "INSERT", "REPLACE":
		st.Kind = Insert
		for l.accept("LOW_PRIORITY") || l.accept("HIGH_PRIORITY") || l.accept("DELAYED") || l.accept("IGNORE") {
		}
		l.accept("INTO")
		s.name(st, l)
	case "CREATE":
		s.classifyCreate(st, l)
	case "DROP":
		s.classifyDrop(st, l)
	case "ALTER":
		s.classifyAlter(st, l)
	case "LOCK", "UNLOCK":
		if l.accept("TABLES") || l.accept("TABLE") {
			st.Kind = LockTables
		}
	case "BEGIN", "START", "COMMIT", "ROLLBACK":
		st.Kind = Transaction
		if l.accept("SLAVE") || l.accept("REPLICA") {
			st.Kind = Replication
		}
	case "CHANGE":
		st.Kind = Replication
		s.position.read(string(st.Text))
	case "SELECT", "DO":
		if l.accept("SETVAL") {
			st.Kind = Sequence
		}
	}
}

func (s *Scanner) classifySet(st *Statement, l *lexer) {
	st.Kind = Set
	low := strings.ToLower(string(st.Text[:min(len(st.Text), 200)]))
	if strings.Contains(low, "gtid_purged") || strings.Contains(low, "gtid_slave_pos") {
		st.Kind = SetGTID
		s.position.read(string(st.Text))
		return
	}
	from := 0
	if t := (&lexer{d: st.Text, server: l.server, esc: l.esc}).next(); t.kind == tWord {
		from = t.start
	}
	s.session = s.session.set(st.Text[from:], s.vars)
	if c := s.session.Charset; trap(c) {
		s.fail = tidemark.Errorf(tidemark.Unsupported, "read", s.opt.Name,
			at(st.Offset, st.Line, "the text is in "+c+", where a backslash can be half of a character"),
			"Make the dump with --default-character-set=utf8mb4.")
	}
}

// name reads the table that a statement is about.
func (s *Scanner) name(st *Statement, l *lexer) bool {
	name, ok := l.ident(l.next())
	if ok && l.accept(".") {
		st.Database = name
		name, ok = l.ident(l.next())
	}
	if ok {
		st.Table = name
	}
	return ok
}

// classifyCreate handles CREATE, of which dumps write parts into conditional
// comments: CREATE ALGORITHM=... DEFINER=... SQL SECURITY ... VIEW v.
func (s *Scanner) classifyCreate(st *Statement, l *lexer) {
	if l.accept("OR") {
		l.accept("REPLACE")
	}
	temporary := l.accept("TEMPORARY")
	switch {
	case l.accept("TABLE"):
		if temporary {
			return
		}
		st.Kind = CreateTable
		st.Def, st.DefErr = ParseCreateTable(st.Text, s.session)
		if st.Def == nil {
			return
		}
		st.Table, st.Database = st.Def.Name, st.Def.Schema
		s.tables[st.Def.TableID] = st.Def
		if zoned := func(c tidemark.Column) bool { return c.Type.Kind == tidemark.Timestamp }; s.session.TimeZone == "" && slices.ContainsFunc(st.Def.Columns, zoned) {
			s.note(tidemark.Finding{Severity: tidemark.Warning, Text: "the file has timestamps and does not say in which time zone: UTC is assumed",
				Hint: "mysqldump says it with --tz-utc, which is its default."})
		}
		return
	case l.accept("DATABASE"), l.accept("SCHEMA"):
		st.Kind = CreateDatabase
		l.acceptAll("IF", "NOT", "EXISTS")
		st.Database, _ = l.ident(l.next())
		return
	case l.accept("INDEX"), l.acceptAll("UNIQUE", "INDEX"), l.acceptAll("FULLTEXT", "INDEX"), l.acceptAll("SPATIAL", "INDEX"):
		st.Kind = AlterTable
		for t := l.next(); t.kind != tEnd && t.kind != tBad; t = l.next() {
			if l.is(t, "ON") {
				s.name(st, l)
				return
			}
		}
		return
	}
	for n := 0; n < 40; n++ {
		t := l.next()
		if t.kind == tEnd || t.kind == tBad {
			return
		}
		if t.kind == tWord && s.object(st, l, t) {
			return
		}
	}
}

// object recognises the word that says what kind of object is created or dropped.
func (s *Scanner) object(st *Statement, l *lexer, t token) bool {
	switch strings.ToUpper(string(l.text(t))) {
	case "VIEW":
		st.Kind = View
	case "TRIGGER":
		st.Kind = Trigger
		l.acceptAll("IF", "NOT", "EXISTS")
		l.acceptAll("IF", "EXISTS")
		l.next()
		for t := l.next(); t.kind != tEnd && t.kind != tBad; t = l.next() {
			if l.is(t, "ON") {
				s.name(st, l)
				break
			}
		}
		return true
	case "PROCEDURE", "FUNCTION", "PACKAGE":
		st.Kind = Routine
		return true
	case "EVENT":
		st.Kind = Event
		return true
	case "SEQUENCE":
		st.Kind = Sequence
	default:
		return false
	}
	l.acceptAll("IF", "NOT", "EXISTS")
	l.acceptAll("IF", "EXISTS")
	s.name(st, l)
	return true
}

func (s *Scanner) classifyDrop(st *Statement, l *lexer) {
	l.accept("TEMPORARY")
	switch {
	case l.accept("TABLE"):
		st.Kind = DropTable
		l.acceptAll("IF", "EXISTS")
		s.name(st, l)
	case l.accept("DATABASE"), l.accept("SCHEMA"):
		st.Kind = CreateDatabase
		l.acceptAll("IF", "EXISTS")
		st.Database, _ = l.ident(l.next())
	default:
		s.object(st, l, l.next())
	}
}

func (s *Scanner) classifyAlter(st *Statement, l *lexer) {
	l.accept("IGNORE")
	if !l.accept("TABLE") {
		if l.accept("DATABASE") || l.accept("SCHEMA") {
			st.Kind = CreateDatabase
			st.Database, _ = l.ident(l.next())
		}
		return
	}
	st.Kind = AlterTable
	if !s.name(st, l) {
		return
	}
	if l.acceptAll("DISABLE", "KEYS") || l.acceptAll("ENABLE", "KEYS") {
		st.Kind = Keys
		return
	}
	id := tidemark.TableID{Schema: st.Database, Name: st.Table}
	t := s.tables[id]
	if t == nil {
		return
	}
	changed, ok := alter(t, l, s.session)
	if !ok {
		s.note(tidemark.Finding{Severity: tidemark.Warning, Object: "table " + t.String(),
			Text: "an ALTER TABLE of the file is not understood: " + snippet(st.Text)})
		return
	}
	s.tables[id] = changed
}
