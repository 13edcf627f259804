package history

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// A stmtKind classifies what a statement in the log does.
type stmtKind uint8

const (
	Other      stmtKind = iota // nothing that matters to a stream
	Begin                      // BEGIN, XA START
	Commit                     // COMMIT
	Rollback                   // ROLLBACK
	Savepoint                  // SAVEPOINT name
	RollbackTo                 // ROLLBACK TO name
	XA                         // XA END and the like; see Verb
	Truncate                   // TRUNCATE TABLE
	Table                      // other DDL of tables
	Schema                     // DROP and ALTER DATABASE
	Rows                       // INSERT and the like: logged as a statement instead of rows
)

// A Statement is what a statement's text alone reveals.
type Statement struct {
	Kind   stmtKind
	Name   string // of a savepoint or database; the identifier of an XA transaction as written
	Verb   string // of XA
	Tables []tidemark.TableID
	// Reshapes reports that columns may have other names or be different columns afterwards.
	Reshapes bool
}

// ReadStatement classifies a statement and finds the tables that it names. Servers log most
// statements as received; db is the session's database.
func ReadStatement(sql, db string) Statement {
	switch sql { // by far the most frequent
	case "BEGIN":
		return Statement{Kind: Begin}
	case "COMMIT":
		return Statement{Kind: Commit}
	}
	if len(sql) > 1<<16 {
		sql = sql[:1<<16] // the kind and the tables are at the beginning
	}
	r := &Words{db: db}
	r.Tokens = sqltext.Said(sqltext.Scan(sql))
	return r.read()
}

// A Words reads tokens, without blanks and comments.
type Words struct {
	Tokens []sqltext.Token
	At     int
	db     string
}

func (r *Words) Token() sqltext.Token { return sqltext.At(r.Tokens, r.At) }

// skip skips those of these words that come next, in this order.
func (r *Words) skip(words ...string) {
	for _, w := range words {
		if r.Token().Is(w) {
			r.At++
		}
	}
}

// takes skips a word if it comes next, and reports whether it did.
func (r *Words) takes(word string) bool {
	ok := r.Token().Is(word)
	if ok {
		r.At++
	}
	return ok
}

func (r *Words) read() Statement {
	verb := strings.ToUpper(r.Token().Text)
	r.At++
	switch verb {
	case "BEGIN":
		return Statement{Kind: Begin}
	case "START":
		if r.Token().Is("TRANSACTION") {
			return Statement{Kind: Begin}
		}
	case "COMMIT":
		return Statement{Kind: Commit}
	case "SAVEPOINT":
		return Statement{Kind: Savepoint, Name: r.Token().Name()}
	case "ROLLBACK":
		r.skip("WORK")
		if !r.takes("TO") {
			return Statement{Kind: Rollback}
		}
		r.skip("SAVEPOINT")
		return Statement{Kind: RollbackTo, Name: r.Token().Name()}
	case "XA":
		return r.xa()
	case "TRUNCATE":
		r.skip("TABLE")
		return Statement{Kind: Truncate, Tables: r.list()}
	case "CREATE", "DROP", "ALTER", "RENAME":
		return r.ddl(verb)
	case "INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "WITH":
		return Statement{Kind: Rows}
	case "SET":
		// MariaDB: SET STATEMENT name=value FOR statement
		if r.takes("STATEMENT") {
			for r.At < len(r.Tokens) && !r.takes("FOR") {
				r.At++
			}
			return r.read()
		}
	}
	return Statement{}
}

// xa reads XA verb identifier. It keeps the identifier as written, without blanks: the same server
// always writes it the same way.
func (r *Words) xa() Statement {
	s := Statement{Kind: XA, Verb: strings.ToUpper(r.Token().Text)}
	for r.At++; r.At < len(r.Tokens); r.At++ {
		if t := r.Token(); !t.Is("ONE") && !t.Is("PHASE") {
			s.Name += t.Text
		}
	}
	if s.Verb == "START" || s.Verb == "BEGIN" {
		s.Kind = Begin
	}
	return s
}

// ddl reads CREATE, DROP, ALTER and RENAME.
func (r *Words) ddl(verb string) Statement {
	r.skip("OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE")
	if r.takes("TEMPORARY") {
		return Statement{} // its rows are in no log
	}
	index := false
	for _, w := range []string{"UNIQUE", "FULLTEXT", "SPATIAL"} {
		index = r.takes(w) || index
	}
	switch {
	case r.takes("INDEX") || index:
		for r.At < len(r.Tokens) && !r.takes("ON") {
			r.At++
		}
		return Statement{Kind: Table, Tables: r.list()[:1:1]}
	case r.takes("DATABASE") || r.takes("SCHEMA"):
		r.skip("IF", "EXISTS")
		if verb == "CREATE" {
			return Statement{}
		}
		return Statement{Kind: Schema, Name: r.schema()}
	case !r.takes("TABLE") && !r.takes("TABLES"):
		return Statement{} // views, programs, users, ...
	}
	r.skip("IF", "NOT", "EXISTS")
	out := Statement{Kind: Table, Reshapes: true}
	switch verb {
	case "RENAME":
		for len(out.Tables) == 0 || r.Token().Punct(',') {
			if len(out.Tables) > 0 {
				r.At++
			}
			out.Tables = append(out.Tables, r.table())
			for r.At < len(r.Tokens) && !r.takes("TO") {
				r.At++
			}
			out.Tables = append(out.Tables, r.table())
		}
	case "DROP":
		out.Tables = r.list()
	default:
		out.Tables = append(out.Tables, r.table())
		if verb == "ALTER" {
			r.alter(&out)
		}
	}
	return out
}

// alter reads what ALTER TABLE does to columns and to the table's name.
func (r *Words) alter(out *Statement) {
	out.Reshapes = false
	next := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return sqltext.At(r.Tokens, r.At+1).Is(w) })
	}
	depth := 0
	for ; r.At < len(r.Tokens); r.At++ {
		switch t := r.Token(); {
		case t.Punct('('):
			depth++
		case t.Punct(')'):
			depth--
		case depth > 0:
		case t.Is("RENAME") && !next("COLUMN", "INDEX", "KEY", "CONSTRAINT"):
			r.At++
			r.skip("TO", "AS")
			out.Tables = append(out.Tables, r.table())
			out.Reshapes = true
			r.At--
		case t.Is("ADD") || t.Is("DROP"):
			out.Reshapes = out.Reshapes || !next("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "CONSTRAINT", "FOREIGN", "PRIMARY", "CHECK", "PARTITION")
		case t.Is("CHANGE") || t.Is("MODIFY") || t.Is("CONVERT") || t.Is("CHARACTER") || t.Is("CHARSET") || t.Is("COLUMN"):
			out.Reshapes = true
		}
	}
}

// schema reads a database's name, which ALTER DATABASE may omit.
func (r *Words) schema() string {
	for _, w := range []string{"DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "READ", "COMMENT"} {
		if r.Token().Is(w) {
			return r.db
		}
	}
	return r.Name()
}

// table reads a table's name.
func (r *Words) table() tidemark.TableID {
	id := tidemark.TableID{Schema: r.db, Name: r.Name()}
	if r.Token().Punct('.') {
		r.At++
		id.Schema, id.Name = id.Name, r.Name()
	}
	return id
}

// Name reads an identifier; with ANSI_QUOTES it may look like a string.
func (r *Words) Name() string {
	t := r.Token()
	r.At++
	if t.Kind == sqltext.String && len(t.Text) >= 2 && t.Text[0] == '"' {
		return strings.ReplaceAll(t.Text[1:len(t.Text)-1], `""`, `"`)
	}
	return t.Name()
}

// list reads one or more table names.
func (r *Words) list() []tidemark.TableID {
	out := []tidemark.TableID{r.table()}
	for r.Token().Punct(',') {
		r.At++
		out = append(out, r.table())
	}
	return out
}

// SchemaOf returns the database named in a statement, or else the session's.
func SchemaOf(named, db string) string {
	if named != "" {
		return named
	}
	return db
}
