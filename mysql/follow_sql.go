package mysql

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A stmtKind says what a statement of the log does.
type stmtKind uint8

const (
	stmtOther    stmtKind = iota // nothing that a stream has to know
	stmtBegin                    // BEGIN, XA START
	stmtCommit                   // COMMIT
	stmtRollback                 // ROLLBACK
	stmtSave                     // SAVEPOINT name
	stmtBack                     // ROLLBACK TO name
	stmtXA                       // XA END and the like; name is the verb
	stmtTruncate                 // TRUNCATE TABLE
	stmtTable                    // other DDL of tables
	stmtSchema                   // DROP and ALTER DATABASE
	stmtRows                     // INSERT and the like: the statement in place of its rows
)

// A stmt is what is known of a statement without running it.
type stmt struct {
	kind   stmtKind
	name   string // of a savepoint or database; the identifier of an XA transaction as it is written
	verb   string // of XA
	tables []tidemark.TableID
	// reshapes says that columns may have other names or be others afterwards.
	reshapes bool
}

// readStmt finds out what a statement is and which tables it names. Servers write most
// statements to their log as they were given; db is the session's database.
func readStmt(sql, db string) stmt {
	switch sql { // by far the most
	case "BEGIN":
		return stmt{kind: stmtBegin}
	case "COMMIT":
		return stmt{kind: stmtCommit}
	}
	if len(sql) > 1<<16 {
		sql = sql[:1<<16] // what it is and whom it touches stands at the beginning
	}
	r := &stmtReader{db: db}
	for _, t := range scanSQL(sql) {
		switch t.kind {
		case spaceToken, commentToken, openToken, closeToken:
		default:
			r.tokens = append(r.tokens, t)
		}
	}
	return r.read()
}

// A stmtReader reads tokens that say something.
type stmtReader struct {
	tokens []token
	i      int
	db     string
}

func (r *stmtReader) token() token { return at(r.tokens, r.i) }

// skip passes over these words, as far as they are there, in this order.
func (r *stmtReader) skip(words ...string) {
	for _, w := range words {
		if r.token().is(w) {
			r.i++
		}
	}
}

// takes passes over a word and reports whether it was there.
func (r *stmtReader) takes(word string) bool {
	ok := r.token().is(word)
	if ok {
		r.i++
	}
	return ok
}

func (r *stmtReader) read() stmt {
	verb := strings.ToUpper(r.token().text)
	r.i++
	switch verb {
	case "BEGIN":
		return stmt{kind: stmtBegin}
	case "START":
		if r.token().is("TRANSACTION") {
			return stmt{kind: stmtBegin}
		}
	case "COMMIT":
		return stmt{kind: stmtCommit}
	case "SAVEPOINT":
		return stmt{kind: stmtSave, name: r.token().name()}
	case "ROLLBACK":
		r.skip("WORK")
		if !r.takes("TO") {
			return stmt{kind: stmtRollback}
		}
		r.skip("SAVEPOINT")
		return stmt{kind: stmtBack, name: r.token().name()}
	case "XA":
		return r.xa()
	case "TRUNCATE":
		r.skip("TABLE")
		return stmt{kind: stmtTruncate, tables: r.list()}
	case "CREATE", "DROP", "ALTER", "RENAME":
		return r.ddl(verb)
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH":
		return stmt{kind: stmtRows}
	case "SET":
		// MariaDB: SET STATEMENT name=value FOR statement
		if r.takes("STATEMENT") {
			for r.i < len(r.tokens) && !r.takes("FOR") {
				r.i++
			}
			return r.read()
		}
	}
	return stmt{}
}

// xa reads XA verb identifier, of which the identifier is kept as it stands without
// blanks: the same server writes it the same way each time.
func (r *stmtReader) xa() stmt {
	s := stmt{kind: stmtXA, verb: strings.ToUpper(r.token().text)}
	for r.i++; r.i < len(r.tokens); r.i++ {
		if t := r.token(); !t.is("ONE") && !t.is("PHASE") {
			s.name += t.text
		}
	}
	if s.verb == "START" || s.verb == "BEGIN" {
		s.kind = stmtBegin
	}
	return s
}

// ddl reads CREATE, DROP, ALTER and RENAME.
func (r *stmtReader) ddl(verb string) stmt {
	r.skip("OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE")
	if r.takes("TEMPORARY") {
		return stmt{} // whose rows are in no log
	}
	index := false
	for _, w := range []string{"UNIQUE", "FULLTEXT", "SPATIAL"} {
		index = r.takes(w) || index
	}
	switch {
	case r.takes("INDEX") || index:
		for r.i < len(r.tokens) && !r.takes("ON") {
			r.i++
		}
		return stmt{kind: stmtTable, tables: r.list()[:1:1]}
	case r.takes("DATABASE") || r.takes("SCHEMA"):
		r.skip("IF", "EXISTS")
		if verb == "CREATE" {
			return stmt{}
		}
		return stmt{kind: stmtSchema, name: r.schema()}
	case !r.takes("TABLE") && !r.takes("TABLES"):
		return stmt{} // views, programs, users, ...
	}
	r.skip("IF", "NOT", "EXISTS")
	out := stmt{kind: stmtTable, reshapes: true}
	switch verb {
	case "RENAME":
		for len(out.tables) == 0 || r.token().punct(',') {
			if len(out.tables) > 0 {
				r.i++
			}
			out.tables = append(out.tables, r.table())
			for r.i < len(r.tokens) && !r.takes("TO") {
				r.i++
			}
			out.tables = append(out.tables, r.table())
		}
	case "DROP":
		out.tables = r.list()
	default:
		out.tables = append(out.tables, r.table())
		if verb == "ALTER" {
			r.alter(&out)
		}
	}
	return out
}

// alter reads what ALTER TABLE does, as far as columns and the table's name are
// concerned.
func (r *stmtReader) alter(out *stmt) {
	out.reshapes = false
	next := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return at(r.tokens, r.i+1).is(w) })
	}
	depth := 0
	for ; r.i < len(r.tokens); r.i++ {
		switch t := r.token(); {
		case t.punct('('):
			depth++
		case t.punct(')'):
			depth--
		case depth > 0:
		case t.is("RENAME") && !next("COLUMN", "INDEX", "KEY", "CONSTRAINT"):
			r.i++
			r.skip("TO", "AS")
			out.tables = append(out.tables, r.table())
			out.reshapes = true
			r.i--
		case t.is("ADD") || t.is("DROP"):
			out.reshapes = out.reshapes || !next("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "PRIMARY", "CHECK", "PARTITION")
		case t.is("CHANGE") || t.is("MODIFY") || t.is("CONVERT") || t.is("CHARACTER") || t.is("CHARSET") || t.is("COLUMN"):
			out.reshapes = true
		}
	}
}

// schema reads a database's name, which ALTER DATABASE may leave out.
func (r *stmtReader) schema() string {
	for _, w := range []string{"DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "READ", "COMMENT"} {
		if r.token().is(w) {
			return r.db
		}
	}
	return r.name()
}

// table reads a table's name.
func (r *stmtReader) table() tidemark.TableID {
	id := tidemark.TableID{Schema: r.db, Name: r.name()}
	if r.token().punct('.') {
		r.i++
		id.Schema, id.Name = id.Name, r.name()
	}
	return id
}

// name reads an identifier; with ANSI_QUOTES it may look like a string.
func (r *stmtReader) name() string {
	t := r.token()
	r.i++
	if t.kind == stringToken && len(t.text) >= 2 && t.text[0] == '"' {
		return strings.ReplaceAll(t.text[1:len(t.text)-1], `""`, `"`)
	}
	return t.name()
}

// list reads names of tables, at least one.
func (r *stmtReader) list() []tidemark.TableID {
	out := []tidemark.TableID{r.table()}
	for r.token().punct(',') {
		r.i++
		out = append(out, r.table())
	}
	return out
}
