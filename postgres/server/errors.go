package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
)

// KindOfState returns what an SQLSTATE means for the user
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func KindOfState(code string) tidemark.Kind {
	switch code {
	case "42501", // insufficient privilege
		"25006": // read-only transaction: a standby
		return tidemark.Forbidden
	case "53100":
		return tidemark.Full
	case "3D000", "3F000", "42P01", "42703", "42704", "42883":
		return tidemark.NotFound
	case "42P04", "42P06", "42P07", "42710", "42723":
		return tidemark.Exists
	case "2BP01": // other objects depend on it
		return tidemark.NotEmpty
	case "57P01", "57P02", "57P03", "57P05", // shutdown, crash, start, idle session
		"57014",          // cancelled by another session
		"55P03", "55006", // a lock, or an object in use
		"25P03", "25P04", // idle-in-transaction and transaction timeout
		"58030": // I/O error
		return tidemark.Transient
	case "72000", // snapshot too old
		"XX001", "XX002": // corrupted data or index
		return tidemark.Lost
	case "54000", // a row, or its index entry, is too large
		"54001": // a trigger or a check calls itself
		return tidemark.BadRow
	case "HV00N": // a foreign server does not answer
		return tidemark.Transient
	case "24000", "25001", "25P01", "25P02": // our statements are out of order
		return tidemark.Bug
	}
	switch class := code[:min(2, len(code))]; class {
	case "08", "40", "53":
		return tidemark.Transient
	case "22", "23", "44", "P0", // the last one is RAISE in a trigger
		"09", "20", "21", "27", "2F", "38", "39": // what else a trigger or a function of the user ends with
		return tidemark.BadRow
	case "28":
		return tidemark.Denied
	case "0A":
		return tidemark.Unsupported
	case "42", "2B", "3D", "34", "26":
		return tidemark.Invalid
	default:
		if !strings.Contains(ownClasses, class) {
			return tidemark.BadRow // RAISE ... USING ERRCODE with a state of the user's own
		}
	}
	return tidemark.Refused
}

// ownClasses are the other classes of the server's own errors: each state outside of them was
// invented by a user.
const ownClasses = "00 01 02 03 0B 0F 0L 0P 0Z 24 25 2D 3B 3F 54 55 57 58 72 F0 HV XX"

// raisedIn matches the user's function in which an error arose, in the server's CONTEXT. DO blocks
// are ours.
var raisedIn = regexp.MustCompile(`(?:^|\n)(?:PL/\w+|SQL) function "?([^"\n(]+)"?[("]`)

// functionOf returns the name of the user's function that raised an error, or "".
func functionOf(where string) string {
	if m := raisedIn.FindStringSubmatch(where); m != nil && m[1] != "inline_code_block" {
		return m[1]
	}
	return ""
}

// KindOf returns what an error means that came while op was done. What a user's function raises is
// about the row that it was called for, whatever its state; an event trigger is called for none.
func KindOf(pg *pgconn.PgError, op string) tidemark.Kind {
	kind := KindOfState(pg.Code)
	if functionOf(pg.Where) == "" {
		return kind
	}
	ofRows := op == "write" || op == "apply" || op == "repair"
	switch class := pg.Code[:min(2, len(pg.Code))]; kind {
	case tidemark.BadRow:
		if ofRows || class == "22" || class == "23" || class == "44" {
			return kind
		}
	case tidemark.Bug, tidemark.Refused, tidemark.Invalid, tidemark.NotFound, tidemark.Unsupported, tidemark.Exists:
		if ofRows && !strings.Contains("58 F0 HV XX", class) { // those tell of the server, not of the row
			return tidemark.BadRow
		}
	default:
		return kind
	}
	return tidemark.Refused
}

var kindHints = map[tidemark.Kind]string{
	tidemark.Full: "Free space on the server's disk.",
}

var StateHints = map[string]string{
	"25006": "The server is a standby, or set to read only: give the address of the primary.",
	"53200": "Raise max_locks_per_transaction on the server if it ran out of locks, or else its memory.",
	"53300": "Wait until sessions end, use fewer lanes, or raise max_connections on the server.",
	"57P03": "The server is starting or stopping: try again in a moment.",
	"72000": "Set old_snapshot_threshold to -1 on the source, and start again.",
	"XX001": "The source's file is damaged: restore it from a backup, or leave this table out.",
	"XX002": "An index of the source is damaged: REINDEX it, and start again.",
	"42P01": "The table no longer exists: start again to read the catalogue anew.",
}

// Fail converts a session's error to tidemark.Error. Errors of that type are returned unchanged.
func (s *Server) Fail(ctx context.Context, op, object string, err error) error {
	return s.FailGrant(ctx, op, object, err, "")
}

// FailGrant is Fail for a statement that needs a privilege: grant is the text between GRANT and TO,
// such as `SELECT ON TABLE shop.item`.
func (s *Server) FailGrant(ctx context.Context, op, object string, err error, grant string) error {
	var own *tidemark.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	out := &tidemark.Error{Op: op, Object: object, Err: Said(err)}
	var pg *pgconn.PgError
	switch {
	case ctx.Err() != nil:
		out.Kind, out.Err = tidemark.Cancelled, context.Cause(ctx)
	case errors.As(err, &pg):
		out.Kind = KindOf(pg, op)
		if pg.Code == "42P16" && pg.Routine == "index_check_primary_key" {
			out.Kind = tidemark.Exists // the text is in the server's language, the routine is not
		}
		if pg.Routine == "CheckXLogRemoved" || pg.Routine == "WalSndSegmentOpen" {
			out.Kind = tidemark.Transient // log is gone that a session was to read; its slot knows whether for good
		}
		if overTempLimit(pg) {
			out.Kind = tidemark.Refused
		}
		if pg.Code == "55000" && pg.Routine == "transformIndexConstraint" {
			out.Kind = tidemark.Exists // the index has its constraint already
		}
		if pg.Code == "23505" && pg.SchemaName == "pg_catalog" {
			out.Kind = tidemark.Exists // another session created the same object, and committed it while we waited
		}
		out.Hint = s.hint(pg, out.Kind, grant)
	case Broken(err):
		out.Kind = tidemark.Transient
	case errors.As(err, new(Refusal)): // the caller then tries another way
		out.Kind = tidemark.Bug
	default: // neither a server error nor a network error: the answer was not understood
		out.Kind, out.Hint = tidemark.Unreachable, s.malformedHint()
	}
	return out
}

// malformedHint is for malformed answers: unreadable ones, and ones with other rows and columns
// than requested.
func (s *Server) malformedHint() string {
	return fmt.Sprintf("The server at %s, or a proxy in between, violates the protocol: try it with psql, and report this if psql works.", net.JoinHostPort(s.Config.Host, strconv.Itoa(int(s.Config.Port))))
}

// overTempLimit reports that a session may not sort as much on disk: each attempt will need it.
func overTempLimit(pg *pgconn.PgError) bool {
	return pg.Code == "53400" && strings.HasPrefix(pg.Routine, "FileWrite") // FileWriteV since PostgreSQL 17
}

func (s *Server) hint(pg *pgconn.PgError, kind tidemark.Kind, grant string) string {
	raised := functionOf(pg.Where)
	if raised != "" && Unresolved(pg.Code) && pg.Routine != "exec_stmt_raise" {
		return fmt.Sprintf("The function %s names something that is missing, or whose schema it does not name, and this session has no search path: run ALTER FUNCTION ... SET search_path.", raised)
	}
	if h := StateHints[pg.Code]; h != "" && (raised == "" || kind == tidemark.Transient || kind == tidemark.Forbidden) {
		return h
	}
	if overTempLimit(pg) {
		return fmt.Sprintf("Raise it, as a superuser: ALTER ROLE %s IN DATABASE %s SET temp_file_limit = -1;", QuoteIdent(s.Config.User), QuoteIdent(s.Config.Database))
	}
	switch kind {
	case tidemark.Forbidden:
		return s.grantHint(pg, grant)
	case tidemark.BadRow:
		return rowHint(pg.Where)
	}
	if h := kindHints[kind]; h != "" {
		return h
	}
	switch h := strings.TrimSpace(pg.Hint); {
	case h != "" || kind != tidemark.Refused:
		return h
	case raised != "":
		return fmt.Sprintf("The function %s of the server raised this (SQLSTATE %s): see there what it asks for.", raised, pg.Code)
	}
	return fmt.Sprintf("The server itself reports this (SQLSTATE %s): remove the cause there; its log may say more.", pg.Code)
}

var deniedFor = regexp.MustCompile(`^permission denied (?:for|to access) (table|relation|view|materialized view|sequence|schema|database|function|large object|foreign table|foreign server|tablespace|type|language) "?(.+?)"?$`)

// grantHint names the missing GRANT. The server's message has only a name without its schema, so
// the caller's grant takes precedence, unless the message is about another kind of object.
func (s *Server) grantHint(pg *pgconn.PgError, grant string) string {
	user := QuoteIdent(s.Config.User)
	if strings.Contains(pg.Message, "row-level security") {
		return fmt.Sprintf("The table has row security: run ALTER ROLE %s BYPASSRLS, or connect as its owner.", user)
	}
	if m := deniedFor.FindStringSubmatch(pg.Message); m != nil {
		switch m[1] {
		case "schema":
			privilege := "USAGE"
			if strings.HasPrefix(grant, "CREATE ON SCHEMA") {
				privilege = "CREATE"
			}
			grant = privilege + " ON SCHEMA " + QuoteIdent(m[2])
		case "database":
			privilege := "CREATE"
			if strings.HasPrefix(grant, "CONNECT") {
				privilege = "CONNECT"
			}
			grant = privilege + " ON DATABASE " + QuoteIdent(m[2])
		case "large object":
			grant = "SELECT ON LARGE OBJECT " + m[2]
		case "function", "type", "language", "sequence", "tablespace":
			privilege := map[string]string{"function": "EXECUTE", "sequence": "SELECT", "tablespace": "CREATE"}[m[1]]
			if privilege == "" {
				privilege = "USAGE"
			}
			grant = privilege + " ON " + strings.ToUpper(m[1]) + " " + m[2]
		}
	}
	if grant == "" {
		if strings.HasPrefix(pg.Message, "must be owner of") {
			return "Connect as the owner, or as a member of the role that owns it."
		}
		if strings.HasPrefix(pg.Message, "must be superuser") {
			return "Connect as a superuser, or leave this object out."
		}
		return fmt.Sprintf("The role %s lacks a privilege for this.", user)
	}
	return fmt.Sprintf("Run this as the owner: GRANT %s TO %s;", grant, user)
}

// CopyWhere matches the position that COPY reports: `COPY item, line 3, column price: "x"`.
var CopyWhere = regexp.MustCompile(`COPY .*?, line (\d+)(?:, column ((?:[^:]|::)+?))?(?:: (.*))?(?:\n|$)`)

// rowHint names the row and what can be done about it.
func rowHint(where string) string {
	const advice = "correct it at the source, or have bad rows rejected"
	raised := functionOf(where)
	if raised != "" {
		raised = "the function " + raised + " refuses it; "
	}
	m := CopyWhere.FindStringSubmatch(where)
	if m == nil {
		all := raised + advice
		return strings.ToUpper(all[:1]) + all[1:] + "."
	}
	at := "row " + m[1] + " of the range"
	if m[2] != "" {
		at += ", column " + m[2]
	}
	if m[3] != "" {
		value := []rune(strings.ToValidUTF8(m[3], "?"))
		if len(value) > 120 {
			value = append(value[:120], []rune("...")...)
		}
		at += ": " + string(value)
	}
	return "It is " + at + "; " + raised + advice + "."
}

// Broken reports whether the connection is lost; a refused statement does not count.
func Broken(err error) bool {
	var netErr net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.As(err, &netErr)
}

// Ended reports whether the server ended the session with this error.
func Ended(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return Broken(err)
	}
	return strings.HasPrefix(pg.Code, "57P") || pg.Code == "25P03" || pg.Code == "25P04" || strings.HasPrefix(pg.Code, "08") ||
		pg.Severity == "FATAL" || pg.SeverityUnlocalized == "FATAL"
}

// BadRow reports whether the server refused a value, rather than the statement.
func BadRow(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && KindOf(pg, "write") == tidemark.BadRow
}

func SQLState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// Unresolved reports whether a SQLSTATE is that of a function, table or other object that does not
// exist by its name: what a function calls without a schema, for one.
func Unresolved(state string) bool { return state == "42883" || state == "42P01" || state == "42704" }

// A serverError is the message of a server or of the driver, with its SQLSTATE.
type serverError struct{ text, state string }

// Said returns the message of a server or of the driver with its SQLSTATE, without the driver's
// wrapping and without secrets.
func Said(err error) error { return &serverError{PlainCause(err), SQLState(err)} }

func (s *serverError) Error() string    { return s.text }
func (s *serverError) SQLState() string { return s.state }

// PlainCause returns an error's text without the driver's wrapping and without secrets.
func PlainCause(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		text := pg.Message
		if pg.Detail != "" {
			text += " (" + strings.TrimSuffix(strings.TrimSpace(pg.Detail), ".") + ")"
		}
		return tidemark.MaskText(strings.Join(strings.Fields(text), " "))
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed the connection"
	case errors.Is(err, net.ErrClosed), errors.Is(err, pgconn.ErrConnClosed):
		return "the connection is closed"
	}
	return tidemark.MaskText(innermost(err).Error())
}

// innermost returns the root cause of err; of joined errors it follows the first.
func innermost(err error) error {
	for {
		if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
			err = joined.Unwrap()[0]
			continue
		}
		var op *net.OpError
		if o, ok := err.(*net.OpError); ok {
			op = o
		}
		inner := errors.Unwrap(err)
		if op != nil || inner == nil {
			return err
		}
		err = inner
	}
}

func QuoteShell(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// A Refusal is our reason, not the server's, to stop: the caller then tries another way.
type Refusal string

func (r Refusal) Error() string { return string(r) }
