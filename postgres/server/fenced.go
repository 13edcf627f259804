package server

import (
	"errors"

	"github.com/tidemarkdb/tidemark"
)

// FencedSQL is an expression: whether the sessions of this database are read-only by default, as
// tidemark cutover --fence leaves a source. Ours are not, so that nothing else would stop a copy
// into it. A role's or the server's own setting does not count.
const FencedSQL = `EXISTS (SELECT FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase, unnest(s.setconfig) c
	WHERE d.datname = current_database() AND s.setrole = 0 AND c ~ '^default_transaction_read_only=' AND split_part(c, '=', 2)::bool)`

// Unfence is the SQL that lets a database be written again; in a session on it, an ALTER DATABASE
// alone would be refused.
func Unfence(database string) string {
	return "BEGIN READ WRITE; ALTER DATABASE " + QuoteIdent(database) + " RESET default_transaction_read_only; COMMIT;"
}

// Fenced is the error of a copy into such a database.
func (s *Server) Fenced() *tidemark.Error {
	return &tidemark.Error{Kind: tidemark.Invalid, Op: "write", Object: "database " + s.Config.Database, Err: errors.New("is read-only (ALTER DATABASE ... SET default_transaction_read_only), as cutover --fence leaves the old source"),
		Hint: "Nothing was changed. If it is to be a target all the same, let it be written first: " + Unfence(s.Config.Database)}
}
