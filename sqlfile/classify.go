package sqlfile

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// size formats a number of bytes for a message.
func size(n int) string {
	switch {
	case n >= 1<<20:
		return strconv.Itoa(n>>20) + " MB"
	case n >= 1<<10:
		return strconv.Itoa(n>>10) + " kB"
	}
	return strconv.Itoa(n) + " bytes"
}

// snippet returns the beginning of text for a message, in quotes.
func snippet(b []byte) string {
	if len(b) > 30 {
		return strconv.Quote(string(b[:30])) + "..."
	}
	return strconv.Quote(string(b))
}

// classify determines what a statement does and whether it may run, and applies it to the scanner's
// state.
func (s *Scanner) classify(st *Statement) {
	s.recognise(st)
	s.allow(st)
	switch st.Kind {
	case Set:
		if st.Beyond == "" {
			s.session = s.session.set(st.SQL, s.vars)
		}
		if c := s.session.Charset; trap(c) {
			s.fail = &tidemark.Error{Kind: tidemark.Unsupported, Op: "read", Object: s.opt.Name, Err: errors.New(at(st.Offset, st.Line, "the text is in "+c+", where a backslash can be half of a character")), Hint: "Make the dump with --default-character-set=utf8mb4."}
		}
	case Insert:
		s.filled[foldedID(st)] = true
		if s.session.lacksBeginning(st.Text) {
			st.Refuse, st.Remedy = "lacks the beginning of its first row, as mysqldump writes it where the first column of a table is generated", hintBegin
		}
	}
}

// foldedID names a statement's table as the maps of tables do, in any spelling.
func foldedID(st *Statement) tidemark.TableID {
	return tidemark.TableID{Schema: strings.ToLower(st.Database), Name: strings.ToLower(st.Table)}
}

// recognise determines what a statement does.
func (s *Scanner) recognise(st *Statement) {
	l := s.session.reader(st.Text)
	st.Database = s.session.Database
	t := l.Next()
	switch strings.ToUpper(t.Text) {
	case "SET":
		st.Kind = Set
		if low := strings.ToLower(string(st.Text[:min(len(st.Text), 200)])); strings.Contains(low, "gtid_purged") || strings.Contains(low, "gtid_slave_pos") {
			st.Kind = SetGTID
			s.position.read(string(st.Text))
		}
		if setsLog(l) {
			st.Kind = SetGTID
		}
	case "USE":
		st.Kind = Use
		st.Database, _ = l.Ident(l.Next())
		next := *s.session
		next.Database = st.Database
		s.session = &next
	case "INSERT", "REPLACE":
		st.Kind = Insert
		for l.Accept("LOW_PRIORITY") || l.Accept("HIGH_PRIORITY") || l.Accept("DELAYED") || l.Accept("IGNORE") {
		}
		l.Accept("INTO")
		readName(st, l)
	case "CREATE":
		s.classifyCreate(st, l)
	case "DROP":
		classifyDrop(st, l)
	case "ALTER":
		s.classifyAlter(st, l)
	case "LOCK", "UNLOCK":
		if l.Accept("TABLES") || l.Accept("TABLE") {
			st.Kind = LockTables
		}
	case "UPDATE", "DELETE":
		st.Kind = Insert // changes rows in its place
		for oneOf(l, "LOW_PRIORITY", "QUICK", "IGNORE") {
		}
		l.Accept("FROM")
		readName(st, l)
	case "TRUNCATE":
		l.Accept("TABLE")
		readName(st, l)
		if st.Kind = DropTable; s.filled[foldedID(st)] {
			st.Kind = Insert
		}
	case "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE":
		st.Kind = Transaction
	case "BEGIN", "START":
		switch {
		case l.Accept("SLAVE"), l.Accept("REPLICA"):
			st.Kind = Replication
		case l.Accept("TRANSACTION"), l.Accept("WORK"), l.Peek().Kind == sqltext.End:
			st.Kind = Transaction
		}
	case "CHANGE":
		st.Kind = Replication
		s.position.read(string(st.Text))
	case "SELECT", "DO":
		if l.Accept("SETVAL") {
			st.Kind = Sequence
		}
	}
}

// setsLog reports whether a SET is about sql_log_bin. mysqldump writes that beside GTIDs.
func setsLog(l *sqltext.Reader) bool {
	oneOf(l, "SESSION", "LOCAL", "@@SESSION", "@@LOCAL")
	l.Accept(".")
	return oneOf(l, "sql_log_bin", "@@sql_log_bin")
}

// readName reads the table that a statement is about.
func readName(st *Statement, l *sqltext.Reader) bool {
	name, ok := l.Ident(l.Next())
	if ok && l.Accept(".") {
		st.Database = name
		name, ok = l.Ident(l.Next())
	}
	if ok {
		st.Table = name
	}
	return ok
}

// classifyCreate handles CREATE, parts of which dumps write in conditional comments: CREATE
// ALGORITHM=... DEFINER=... SQL SECURITY ... VIEW v.
func (s *dumpState) classifyCreate(st *Statement, l *sqltext.Reader) {
	if l.Accept("OR") {
		l.Accept("REPLACE")
	}
	temporary := l.Accept("TEMPORARY")
	switch {
	case l.Accept("TABLE"):
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
			s.note(tidemark.Finding{Severity: tidemark.Warning, Text: "the file has timestamps without their time zone: UTC is assumed",
				Hint: "By default (--tz-utc) mysqldump writes it."})
		}
		return
	case l.Accept("DATABASE"), l.Accept("SCHEMA"):
		st.Kind = CreateDatabase
		l.Accept("IF", "NOT", "EXISTS")
		st.Database, _ = l.Ident(l.Next())
		return
	case l.Accept("INDEX"), l.Accept("UNIQUE", "INDEX"), l.Accept("FULLTEXT", "INDEX"), l.Accept("SPATIAL", "INDEX"):
		st.Kind = AlterTable
		for t := l.Next(); t.Kind != sqltext.End && t.Kind != sqltext.Bad; t = l.Next() {
			if t.Is("ON") {
				readName(st, l)
				return
			}
		}
		return
	}
	for n := 0; n < 40; n++ {
		t := l.Next()
		if t.Kind == sqltext.End || t.Kind == sqltext.Bad {
			return
		}
		if t.Kind == sqltext.Word && object(st, l, t) {
			return
		}
	}
}

// object recognises the word for the kind of object that is created or dropped.
func object(st *Statement, l *sqltext.Reader, t sqltext.Token) bool {
	switch strings.ToUpper(t.Text) {
	case "VIEW":
		st.Kind = View
	case "TRIGGER":
		st.Kind = Trigger
		l.Accept("IF", "NOT", "EXISTS")
		l.Accept("IF", "EXISTS")
		l.Next()
		for t := l.Next(); t.Kind != sqltext.End && t.Kind != sqltext.Bad; t = l.Next() {
			if t.Is("ON") {
				readName(st, l)
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
	l.Accept("IF", "NOT", "EXISTS")
	l.Accept("IF", "EXISTS")
	readName(st, l)
	return true
}

func classifyDrop(st *Statement, l *sqltext.Reader) {
	l.Accept("TEMPORARY")
	switch {
	case l.Accept("TABLE"):
		st.Kind = DropTable
		l.Accept("IF", "EXISTS")
		readName(st, l)
	case l.Accept("DATABASE"), l.Accept("SCHEMA"):
		st.Kind = CreateDatabase
		l.Accept("IF", "EXISTS")
		st.Database, _ = l.Ident(l.Next())
	default:
		object(st, l, l.Next())
	}
}

func (s *dumpState) classifyAlter(st *Statement, l *sqltext.Reader) {
	l.Accept("IGNORE")
	if !l.Accept("TABLE") {
		if l.Accept("DATABASE") || l.Accept("SCHEMA") {
			st.Kind = CreateDatabase
			st.Database, _ = l.Ident(l.Next())
		}
		return
	}
	st.Kind = AlterTable
	if !readName(st, l) {
		return
	}
	if l.Accept("DISABLE", "KEYS") || l.Accept("ENABLE", "KEYS") {
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
	s.tables[id], st.Altered = changed, changed
}
