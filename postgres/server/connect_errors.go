package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/door"
)

// connectFailed classifies the error of a failed connection.
func (s *Server) connectFailed(ctx context.Context, err error) error {
	var own *tidemark.Error
	if errors.As(err, &own) {
		return own
	}
	err = withoutTLS(err)
	out := &tidemark.Error{Op: "connect", Object: s.Object, Err: errors.New(PlainCause(err))}
	var pg *pgconn.PgError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		out.Kind, out.Err = tidemark.Cancelled, context.Cause(ctx)
	case errors.As(err, &pg):
		out.Kind, out.Hint = s.refused(pg)
		if pg.Code == "28P01" && s.Config.Password == "" {
			out.Err, out.Hint = errors.New("the server asks for a password, and none was given"), s.noPassword()
		}
		full := poolIsFull(pg)
		if full {
			out.Kind, out.Hint = tidemark.Transient, poolHint
		}
		if full || pg.Code == "53300" {
			out.Err = fmt.Errorf("%w: %s", tidemark.ErrNoConnection, PlainCause(err))
		}
	case isCleartext(err):
		out.Kind, out.Err, out.Hint = tidemark.Denied, errCleartext, cleartextHint
	case pgconn.Timeout(err) && (!errors.As(err, &op) || op.Op != "dial") && s.open.Load() > 0:
		// A pooler lets clients wait until a session is free. Others of ours are open, and work.
		out.Kind, out.Hint = tidemark.Transient, poolHint
		out.Err = fmt.Errorf("%w: %d sessions are open, and another login did not end within %s", tidemark.ErrNoConnection, s.open.Load(), s.Config.ConnectTimeout)
	case pgconn.Timeout(err) && (!errors.As(err, &op) || op.Op != "dial"):
		out.Kind, out.Err = tidemark.Unreachable, fmt.Errorf("the server did not complete the login within %s", s.Config.ConnectTimeout)
		out.Hint = "Check host and port: it may be another kind of server, or one that is overloaded. connect_timeout=SECONDS in the URL gives it longer."
		s.wrongDoor(ctx, out)
	case tlsTrouble(err):
		out.Kind, out.Hint = tidemark.Unreachable, tlsHint(err)
		s.wrongDoor(ctx, out)
	case errors.As(err, &dns):
		out.Kind, out.Err = tidemark.Unreachable, fmt.Errorf("no such host: %s", dns.Name)
		out.Hint = "Check the host name in the URL."
	case errors.As(err, &op), pgconn.Timeout(err):
		out.Kind = tidemark.Unreachable
		out.Hint = "Check host and port, that the server runs and listens there (listen_addresses), and that no firewall blocks the connection."
	case Broken(err):
		out.Kind, out.Hint = tidemark.Transient, "The server accepted the connection and closed it: it may be starting, or not be PostgreSQL."
		s.wrongDoor(ctx, out)
	case s.Config.ValidateConnect != nil:
		out.Kind, out.Hint = tidemark.Unreachable, "target_session_attrs asks for another kind of server: give the address of one, or leave it out."
	default:
		out.Kind, out.Hint = tidemark.Unreachable, "Check host and port: it may be another kind of server, or a proxy."
		s.wrongDoor(ctx, out)
	}
	return tidemark.HideLogin(out, s.Config.User)
}

const poolHint = "Give the pooler more sessions (default_pool_size, max_client_conn), use fewer lanes, or connect to the server itself."

// withoutTLS leaves out attempts that the server refused since it has no TLS, where another attempt
// without TLS failed as well: its error is what has to be corrected.
func withoutTLS(err error) error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return err
	}
	var rest []error
	for _, e := range joined.Unwrap() {
		if !strings.Contains(e.Error(), noTLS) {
			rest = append(rest, e)
		}
	}
	if len(rest) == 0 {
		return err
	}
	return errors.Join(rest...)
}

const noTLS = "server refused TLS connection"

// noPassword says where a password was looked for.
func (s *Server) noPassword() string {
	host := s.Config.Host
	if strings.HasPrefix(host, "/") {
		host = "localhost"
	}
	return fmt.Sprintf("No line of %s matches %s:%d:%s:%s. Add one (HOST:PORT:DATABASE:USER:PASSWORD), or set PGPASSWORD.", s.passfile, host, s.Config.Port, s.Config.Database, s.Config.User)
}

// poolIsFull reports whether pgbouncer has no session left, or takes no more clients. Their code,
// 08P01, has other meanings too.
func poolIsFull(pg *pgconn.PgError) bool {
	return pg.Message == "query_wait_timeout" || strings.HasPrefix(pg.Message, "no more connections allowed")
}

// wrongDoor reports that another kind of server listens at the address.
func (s *Server) wrongDoor(ctx context.Context, out *tidemark.Error) {
	if strings.HasPrefix(s.Config.Host, "/") {
		return
	}
	switch kind := door.Knock(ctx, "tcp", net.JoinHostPort(s.Config.Host, strconv.Itoa(int(s.Config.Port)))); kind {
	case door.Unknown, door.PostgreSQL:
	case door.MySQL:
		out.Kind, out.Err = tidemark.Invalid, errors.New("a MySQL or MariaDB server listens there")
		out.Hint = "Write mysql:// at the beginning of the URL, or correct host and port."
	default:
		out.Kind, out.Err = tidemark.Invalid, fmt.Errorf("%s listens there, not PostgreSQL", kind)
		out.Hint = "Correct host and port in the URL."
	}
}

// refused explains why a reachable server refused the connection.
func (s *Server) refused(pg *pgconn.PgError) (tidemark.Kind, string) {
	switch pg.Code {
	case "28P01":
		return tidemark.Denied, "Check user and password; the password may stand in the URL, in PGPASSWORD or in the password file."
	case "28000":
		if strings.Contains(pg.Message, "pg_hba.conf") {
			return tidemark.Denied, pgHBAHint(pg.Message)
		}
		return tidemark.Denied, "Check the user name."
	case "3D000":
		flags := ""
		if !strings.HasPrefix(s.Config.Host, "/") {
			flags = fmt.Sprintf(" -h %s -p %d", s.Config.Host, s.Config.Port)
		}
		return tidemark.NotFound, fmt.Sprintf("Correct the name in the URL; a target's database must exist: createdb%s -U %s %s", flags, QuoteShell(s.Config.User), QuoteShell(s.Config.Database))
	case "42501":
		return tidemark.Forbidden, s.grantHint(pg, "CONNECT ON DATABASE "+QuoteIdent(s.Config.Database))
	}
	kind := KindOfState(pg.Code)
	return kind, s.hint(pg, kind, "")
}

// pgHBAHint says what to do about a connection that pg_hba.conf has no line for.
func pgHBAHint(message string) string {
	if strings.Contains(message, "no encryption") {
		return "Let this client in with a line in the server's pg_hba.conf, or use TLS: sslmode=verify-full."
	}
	return "Let this client in with a line in the server's pg_hba.conf."
}

func tlsTrouble(err error) bool {
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &cert) || errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &record) ||
		errors.As(err, &alert) || strings.Contains(err.Error(), noTLS)
}

func tlsHint(err error) string {
	if strings.Contains(err.Error(), noTLS) {
		return "The server, or a proxy before it, has no TLS: switch it on there (ssl = on)."
	}
	var host x509.HostnameError
	if errors.As(err, &host) {
		return "The certificate is for another name: use that name in the URL."
	}
	return "The server's certificate is not trusted: give sslrootcert=FILE with the authority that signed it."
}
