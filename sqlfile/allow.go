package sqlfile

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/sqltext"
)

// A dump may hold any SQL, and an import runs with the rights of its account. So a statement is run
// only if it is known to be about tables, rows, views, routines, triggers, events or the session.
// A judge reads its beginning by a strict grammar, and what is run is the text that was judged
// (see sqltext.Dialect.Resolve), so that a server cannot read another statement in it.
//
// What a routine, view, event or trigger does later is not judged, because nothing runs it now.
// Rows that a server computes are judged, because they could call what the file has defined, and
// so are triggers, in case they fire while rows are loaded.

// systemDatabases belong to a server. information_schema does too, but it can only be read.
var systemDatabases = []string{"mysql", "sys", "performance_schema"}

// outsideEngines are storage engines whose tables are files that a statement names, or tables of
// other servers: a server opens them with its own rights.
var outsideEngines = []string{"connect", "federated", "s3", "sphinx", "spider"}

// A judge decides about a statement by the session before it.
type judge struct {
	session *Session
	vars    variables
}

// allow sets SQL of a statement, and Beyond, Unread and Refuse if it must not run.
func (s *Scanner) allow(st *Statement) {
	st.SQL = s.session.reader(nil).Resolve(st.Text, s.session.Server)
	if !s.opt.All {
		judge{s.session, s.vars}.decide(st)
	}
}

func (s judge) decide(st *Statement) {
	l := s.session.reader(st.SQL)
	first := l.Next()
	if first.Kind == sqltext.End {
		st.Kind = Void
		return
	}
	if IsSystem(st.Database) && st.Kind != Set && st.Kind != Other {
		return // all of that database is skipped
	}
	ok, what := false, ""
	switch st.Kind {
	case Set:
		what = s.settings(l)
		ok = what == ""
	case Insert:
		ok, st.Refuse = true, s.rowsFrom(st, l, first)
	case CreateTable:
		ok, st.Refuse = true, s.tableFrom(st)
	case CreateDatabase, DropTable, Keys, LockTables, Use, SetGTID, Transaction, Replication, Meta:
		return // not run as they are
	case Sequence:
		ok = s.objects(st, l, first) || s.setval(l, first)
	default:
		ok = s.objects(st, l, first)
	}
	if ok {
		return
	}
	if st.Beyond = what; what == "" {
		st.Beyond = s.label(st)
	}
	if loads := first.Is("LOAD") && !l.Peek().Is("INDEX"); loads || !slices.Contains(verbs, strings.ToUpper(first.Text)) {
		st.Unread = "is not known as a statement of a dump"
		if loads {
			st.Unread = "takes rows from another file, which is not read"
		}
	}
}

// verbs begin the statements that MySQL and MariaDB have. One that begins with none of them is
// damage, and not something to be skipped.
var verbs = strings.Fields(`ALTER ANALYZE BACKUP BEGIN BINLOG CACHE CALL CASE CHANGE CHECK CHECKSUM CLONE COMMIT CREATE DEALLOCATE DECLARE
	DELETE DESC DESCRIBE DO DROP EXECUTE EXPLAIN FLUSH FOR GET GRANT HANDLER HELP IF IMPORT INSERT INSTALL KILL LOAD LOCK LOOP OPTIMIZE
	PREPARE PURGE RELEASE RENAME REPAIR REPEAT REPLACE RESET RESIGNAL RESTART REVOKE ROLLBACK SAVEPOINT SELECT SET SHOW SHUTDOWN
	SIGNAL START STOP TABLE TRUNCATE UNINSTALL UNLOCK UPDATE USE VALUES WHILE WITH XA`)

// label names the kind of a statement, "CREATE USER", in words that a terminal can show.
func (s judge) label(st *Statement) string {
	l := s.session.reader(st.SQL)
	var words []string
	for len(words) < 2 {
		t := l.Next()
		if t.Kind != sqltext.Word || len(t.Text) > 24 || strings.Trim(strings.ToUpper(t.Text), "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
			break
		}
		if up := strings.ToUpper(t.Text); up != "OR" && (len(words) == 0 || up != "REPLACE") {
			words = append(words, up)
		}
	}
	switch {
	case len(words) == 0:
		return "unknown"
	case slices.Contains([]string{"ALTER", "CREATE", "DROP", "INSTALL", "LOAD", "RENAME", "RESET", "START", "STOP", "UNINSTALL"}, words[0]):
		label := strings.Join(words, " ")
		if name := systemIn(s.session.reader(st.SQL)); name != "" {
			label += " in " + name
		}
		return label
	}
	return words[0]
}

// IsSystem reports whether a database belongs to the server.
func IsSystem(database string) bool {
	return slices.Contains(systemDatabases, strings.ToLower(database)) || strings.EqualFold(database, "information_schema")
}

// systemIn returns the database of the server that the rest of a statement names, as in mysql.user;
// "" if none.
func systemIn(l *sqltext.Reader) string {
	for {
		t := l.Next()
		if t.Kind == sqltext.End || t.Kind == sqltext.Bad {
			return ""
		}
		if name := systemName(t, l.Peek()); name != "" {
			return name
		}
	}
}

// systemName returns the server's database that a token names, if a point follows it.
func systemName(t, next sqltext.Token) string {
	if t.Kind != sqltext.Word && t.Kind != sqltext.Name || !next.Punct('.') {
		return ""
	}
	name := strings.ToLower(t.Name())
	if t.Kind == sqltext.Word { // other bytes can be blanks in the session's character set
		for i := len(name) - 1; i >= 0; i-- {
			if name[i] >= 0x80 {
				name = name[i+1:]
				break
			}
		}
	}
	if slices.Contains(systemDatabases, name) {
		return name
	}
	return ""
}

// objects reports whether a statement creates, alters or drops a table's or a program's definition,
// and reads its name.
func (s judge) objects(st *Statement, l *sqltext.Reader, verb sqltext.Token) bool {
	switch strings.ToUpper(verb.Text) {
	case "CREATE":
		return s.creates(st, l)
	case "DROP":
		return oneOf(l, "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "PACKAGE", "EVENT", "SEQUENCE", "INDEX") && systemIn(l) == ""
	case "ALTER":
		for oneOf(l, "ONLINE", "IGNORE") {
		}
		return modifiers(l) && oneOf(l, "TABLE", "VIEW", "PROCEDURE", "FUNCTION", "EVENT", "SEQUENCE") && systemIn(l) == "" && s.outside(st) == ""
	case "RENAME":
		return oneOf(l, "TABLE", "TABLES") && systemIn(l) == ""
	case "ANALYZE":
		oneOf(l, "NO_WRITE_TO_BINLOG", "LOCAL")
		return oneOf(l, "TABLE", "TABLES") && systemIn(l) == ""
	}
	return false
}

// oneOf consumes the next token if it is one of these words.
func oneOf(l *sqltext.Reader, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return l.Accept(w) })
}

// modifiers reads what may stand between CREATE and the kind of object; false if it is malformed.
func modifiers(l *sqltext.Reader) bool {
	for {
		switch {
		case l.Accept("ALGORITHM"):
			if !l.Accept("=") || l.Next().Kind != sqltext.Word {
				return false
			}
		case l.Accept("SQL", "SECURITY"):
			if !oneOf(l, "DEFINER", "INVOKER") {
				return false
			}
		case l.Accept("DEFINER"):
			if !l.Accept("=") || !account(l) {
				return false
			}
		default:
			return true
		}
	}
}

// account reads user, user@host or CURRENT_USER().
func account(l *sqltext.Reader) bool {
	part := func() bool {
		t := l.Next()
		return t.Kind == sqltext.Word || t.Kind == sqltext.Name || t.Kind == sqltext.String
	}
	if !part() {
		return false
	}
	l.Accept("(", ")")
	if at := l.Peek(); at.Kind == sqltext.Word && at.Text[0] == '@' {
		return l.Next().Text != "@" || part()
	}
	return true
}

// creates reads CREATE up to the object's name and what must follow it.
func (s judge) creates(st *Statement, l *sqltext.Reader) bool {
	l.Accept("OR", "REPLACE")
	if !modifiers(l) {
		return false
	}
	aggregate := l.Accept("AGGREGATE")
	noun := strings.ToUpper(l.Next().Text)
	if aggregate && noun != "FUNCTION" {
		return false
	}
	switch noun {
	case "UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR":
		return l.Accept("INDEX") && systemIn(l) == ""
	case "INDEX", "SEQUENCE":
		return systemIn(l) == ""
	case "PACKAGE":
		l.Accept("BODY")
	case "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT":
	default:
		return false
	}
	l.Accept("IF", "NOT", "EXISTS")
	name := Statement{}
	if !readName(&name, l) || IsSystem(name.Database) {
		return false
	}
	if name.Database != "" {
		st.Database = name.Database
	}
	switch noun {
	case "VIEW":
		return l.Peek().Is("(") || l.Peek().Is("AS")
	case "PROCEDURE", "FUNCTION":
		return l.Peek().Is("(") // CREATE FUNCTION f RETURNS INT SONAME 'x.so' loads a library
	case "EVENT":
		return l.Peek().Is("ON")
	case "TRIGGER":
		return s.fires(st, l)
	}
	return true
}

// fires reads a trigger up to its body, and judges that in case rows fire it.
func (s judge) fires(st *Statement, l *sqltext.Reader) bool {
	if !oneOf(l, "BEFORE", "AFTER") || l.Next().Kind != sqltext.Word || !l.Accept("ON") {
		return false
	}
	on := Statement{}
	if !readName(&on, l) || IsSystem(on.Database) || !l.Accept("FOR", "EACH", "ROW") {
		return false
	}
	st.Refuse = s.session.impure(l, inBody)
	return true
}

// setval reads SELECT or DO SETVAL(sequence, values), by which mariadb-dump writes sequences.
func (s judge) setval(l *sqltext.Reader, verb sqltext.Token) bool {
	name := Statement{}
	if !verb.Is("SELECT") && !verb.Is("DO") || !l.Accept("SETVAL", "(") || !readName(&name, l) || IsSystem(name.Database) {
		return false
	}
	for !l.Accept(")") {
		if t := l.Next(); t.Kind != sqltext.Word && !t.Is(",") && !t.Is("-") {
			return false
		}
	}
	return l.Next().Kind == sqltext.End
}

// rowsFrom judges a statement about rows that a server evaluates.
func (s judge) rowsFrom(st *Statement, l *sqltext.Reader, verb sqltext.Token) string {
	switch {
	case st.Table == "":
		return "names no table that can be read"
	case verb.Is("TRUNCATE"):
		return "empties its table after rows of it"
	}
	oneWord := verb.Is("INSERT") || verb.Is("REPLACE")
	for oneOf(l, "LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE") {
	}
	oneOf(l, "INTO", "FROM")
	readName(&Statement{}, l)
	if !oneWord && !l.Peek().Is("SET") && !l.Peek().Is("WHERE") && !l.Peek().Is("ORDER") && !l.Peek().Is("LIMIT") && l.Peek().Kind != sqltext.End {
		return "changes rows of more than one table, or under another name"
	}
	if oneWord {
		l.Accept("PARTITION")
		oneOf(l, "VALUES", "VALUE", "SELECT", "SET", "(")
	}
	return s.session.impure(l, inRows)
}

// outside returns the storage engine that a statement about a table names, if it is such a one;
// "" if it names none, or if no server runs the statement.
func (s judge) outside(st *Statement) string {
	if s.session.Server == (sqltext.Server{}) {
		return ""
	}
	for l := s.session.reader(st.SQL); ; {
		t := l.Next()
		if t.Kind == sqltext.End || t.Kind == sqltext.Bad {
			return ""
		}
		if !t.Is("ENGINE") && !t.Is("TYPE") {
			continue
		}
		l.Accept("=")
		if name, _ := l.Ident(l.Peek()); slices.Contains(outsideEngines, strings.ToLower(name)) {
			return strings.ToUpper(name)
		}
	}
}

// tableFrom judges a CREATE TABLE: its rows must not come from a query, unless its columns do too,
// nor from outside.
func (s judge) tableFrom(st *Statement) string {
	if name := systemIn(s.session.reader(st.SQL)); name != "" {
		return "names database " + name
	}
	if name := s.outside(st); name != "" {
		return "makes a table of storage engine " + name + ", which opens files or other servers with the target's rights"
	}
	l := s.session.reader(st.SQL)
	for {
		switch t := l.Next(); {
		case t.Kind == sqltext.End || t.Kind == sqltext.Bad:
			return ""
		case !t.Is("SELECT") && !t.Is("WITH") && !t.Is("TABLE"):
		case t.Is("SELECT") && st.Def != nil:
			return "takes rows from a query"
		case st.Def == nil && t.Is("SELECT"):
			return s.session.impure(l, inRows)
		}
	}
}

// Where an expression stands.
const (
	inRows = iota // rows, to the end of the statement
	inSet         // SET, to the next comma
	inBody        // the body of a trigger
)

// bodyWords begin what a trigger must not do while rows are loaded.
var bodyWords = []string{"CALL", "EXECUTE", "GLOBAL", "OUTFILE", "DUMPFILE", "PERSIST", "PERSIST_ONLY", "PREPARE"}

// impure says why a server must not evaluate what follows for us; "" if it only computes from the
// rows of tables and from functions that have no effect.
func (s *Session) impure(l *sqltext.Reader, where int) string {
	var last [4]sqltext.Token // the newest first
	for depth := 0; ; {
		t := l.Peek()
		switch {
		case t.Kind == sqltext.End || where == inSet && depth == 0 && t.Is(","):
			return ""
		case t.Kind == sqltext.Bad:
			return "cannot be read to its end"
		}
		l.Next()
		next := l.Peek()
		switch {
		case systemName(t, next) != "":
			return "names database " + systemName(t, next)
		case t.Is("INTO") && where != inBody:
			return "has an INTO"
		case t.Is(":") && next.Is("=") && where != inBody:
			return "sets a variable"
		case where == inBody && t.Kind == sqltext.Word && (t.Text[0] == '@' || slices.Contains(bodyWords, strings.ToUpper(t.Text))):
			return "has " + plainWord(t)
		case t.Is("("):
			depth++
			if !s.opens(last) {
				return "calls " + plainWord(last[0])
			}
		case t.Is(")"):
			depth--
		}
		last = [4]sqltext.Token{t, last[0], last[1], last[2]}
	}
}

// opens reports whether a parenthesis after these tokens, the newest first, calls nothing, or a
// function that only computes.
func (s *Session) opens(last [4]sqltext.Token) bool {
	name := last[0]
	if name.Kind != sqltext.Word && name.Kind != sqltext.Name {
		return true
	}
	before := last[1]
	if before.Punct('.') {
		before = last[3]
		if !before.Is("INTO") {
			return false // a function of a database
		}
	}
	switch {
	case before.Is("AS"), before.Is("INTO"), before.Is("WITH"), before.Is("RECURSIVE"):
		return true // the columns of a row, table or query
	case name.Kind == sqltext.Name:
		return false
	}
	return computes(name.Text, s.Server)
}

// plainWord is a token for a message.
func plainWord(t sqltext.Token) string {
	name := t.Name()
	if len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "a function"
	}
	return name
}
