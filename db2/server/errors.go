package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/drda"
)

// loginFailed makes the error of a connection that could not be made.
func (e *Server) loginFailed(err error, reached bool) error {
	out := &tidemark.Error{Op: "connect", Object: e.Masked, Err: err}
	var unknown x509.UnknownAuthorityError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case !reached:
		out.Kind, out.Hint = tidemark.Unreachable, "Check host and port, and that the server accepts TCP/IP connections (db2set DB2COMM, dbm cfg SVCENAME)."
	case errors.As(err, &unknown), errors.As(err, &verify):
		out.Kind, out.Hint = tidemark.Denied, "Give the certificate of the server's authority with ?tls-ca=FILE."
	case errors.As(err, &record):
		out.Kind, out.Hint = tidemark.Unreachable, "The port does not speak TLS: Db2 has another one for it (dbm cfg SSL_SVCENAME)."
	case errors.Is(err, drda.ErrRefused):
		out.Kind, out.Hint = tidemark.Denied, "Check user and password; Db2 takes accounts of the operating system, or of its plug-in."
	case errors.Is(err, drda.ErrNoDatabase):
		out.Kind, out.Hint = tidemark.NotFound, "db2 list db directory on the server shows its databases."
	case errors.Is(err, drda.ErrNoWay):
		out.Kind, out.Hint = tidemark.Denied, "Use TLS (?tls=verify-full), or allow a plain password with ?plain-password=true. Kerberos and plug-ins are not supported."
	case drda.StateOf(err) != "":
		return e.Fail("connect", e.Masked, err)
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded):
		out.Kind, out.Hint = tidemark.Unreachable, "Is this a Db2 server's port? With TLS it is another one; ?connect-timeout=30s waits longer."
	case strings.Contains(err.Error(), "supported"):
		out.Kind = tidemark.Unsupported
	default:
		out.Kind, out.Hint = tidemark.Unreachable, "Check that the port is that of a Db2 server, and whether it needs ?tls=."
	}
	return out
}

// A remark is what follows from an SQLSTATE, or from its class.
type remark struct {
	kind tidemark.Kind
	hint string
}

// states has Db2's SQLSTATEs, by classes of two characters where nothing more special is known. The
// few that are not Db2's are Derby's.
var states = map[string]remark{
	"08":    {tidemark.Transient, ""},
	"08004": {tidemark.Denied, "The user needs the authority CONNECT: GRANT CONNECT ON DATABASE TO USER name."},
	"22":    {tidemark.BadRow, ""},
	"23":    {tidemark.BadRow, ""},
	"28":    {tidemark.Denied, "Check user and password."},
	"40":    {tidemark.Transient, "Another transaction holds a lock for long, or a deadlock was resolved: try again."},
	"42501": {tidemark.Forbidden, "Grant the privilege that the message names, or DATAACCESS."},
	"42502": {tidemark.Forbidden, "Grant the privilege that the message names, or DATAACCESS."},
	"42500": {tidemark.Forbidden, "Grant the privilege that the message names, or DATAACCESS."},
	"42504": {tidemark.Forbidden, "Grant the privilege that the message names, or DATAACCESS."},
	"42519": {tidemark.Forbidden, ""},
	"42704": {tidemark.NotFound, ""},
	"42705": {tidemark.NotFound, ""},
	"42X05": {tidemark.NotFound, ""},
	"42Y55": {tidemark.NotFound, ""},
	"42710": {tidemark.Exists, ""},
	"42889": {tidemark.Exists, ""}, // a primary key of the table
	"42Z93": {tidemark.Exists, ""}, // Derby: a constraint with the same columns, which it looks for before the name
	"X0Y32": {tidemark.Exists, ""},
	"X0Y68": {tidemark.Exists, ""},
	"42893": {tidemark.NotEmpty, "Something depends on the table: drop it first, or copy it too."},
	"X0Y25": {tidemark.NotEmpty, "Something depends on the table: drop it first, or copy it too."},
	"42":    {tidemark.Invalid, ""},
	"54":    {tidemark.Unsupported, ""},
	"55019": {tidemark.Invalid, "The table's state does not allow this: db2 load query table, or SET INTEGRITY, shows and ends it."},
	"57007": {tidemark.Invalid, "The table's state does not allow this: db2 load query table, or SET INTEGRITY, shows and ends it."},
	"57016": {tidemark.Invalid, "The table's state does not allow this: REORG TABLE, or the end of a LOAD, is needed first."},
	"57011": {tidemark.Full, "The log, a table space or memory is full: the message has the reason."},
	"57014": {tidemark.Transient, ""},
	"57019": {tidemark.Transient, "The database does not accept connections now: it may be quiesced, starting or being restored."},
	"57020": {tidemark.Transient, "The database does not accept connections now: it may be quiesced, starting or being restored."},
	"57033": {tidemark.Transient, "Another transaction holds a lock for long: try again."},
	"57":    {tidemark.Transient, ""},
	"58":    {tidemark.Transient, ""},
}

// noConnection are SQLSTATEs of a server that accepts no further session.
var noConnection = map[string]bool{"57030": true}

// Fail converts an error of the protocol or the server to an Error. An Error is returned unchanged.
func (e *Server) Fail(op, object string, err error) error {
	var already *tidemark.Error
	if err == nil || errors.As(err, &already) || errors.Is(err, context.Canceled) {
		return err
	}
	out := &tidemark.Error{Op: op, Object: object, Kind: tidemark.Transient, Err: err}
	var sql *drda.Error
	var refused *drda.ProtocolError
	switch {
	case errors.As(err, &sql):
		r, known := states[sql.State]
		if !known && len(sql.State) == 5 {
			r, known = states[sql.State[:2]]
		}
		if out.Kind, out.Hint = r.kind, r.hint; !known {
			out.Kind = tidemark.Unsupported
		}
		if noConnection[sql.State] {
			out.Kind, out.Err = tidemark.Transient, errors.Join(err, tidemark.ErrNoConnection)
		}
	case errors.As(err, &refused):
		out.Kind, out.Hint = tidemark.Unsupported, "The server does not understand a request: please report it with the server's version."
	}
	return out
}
