package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/door"
)

// connectError classifies failures before a session exists.
func (e *Server) connectError(ctx context.Context, err error) error {
	out := &tidemark.Error{Op: "connect", Object: e.Masked, Kind: tidemark.Unreachable, Err: err,
		Hint: "Check that the server runs at " + e.to.host + " and that no firewall blocks the connection."}
	if cause := ctx.Err(); cause != nil {
		out.Kind, out.Hint, out.Err = tidemark.Cancelled, "", cause
		return out
	}
	var my *gomysql.MyError
	var dial *dialError
	var reveal *revealError
	var another *doorError
	switch {
	case errors.As(err, &another):
		other(out, another)
	case errors.As(err, &my):
		out.Err = &serverError{my}
		out.Kind, out.Hint = e.KindOf(my)
		var l *loginError
		switch errors.As(err, &l); {
		case my.Code == 1049:
			out.Hint = "Correct the name in the URL; a target's database must exist: CREATE DATABASE " + Quote(e.to.db) + "."
		case my.Code == 1045 && l != nil && l.offered && !l.used:
			out.Hint = "Check the user and the password in the URL. This connection had no TLS: a user that is REQUIRE SSL needs ?tls=verify-ca&tls-ca=FILE."
		}
	case errors.As(err, &dial):
		dialFailed(out, dial, e.to.timeout)
	case timedOut(err):
		out.Err = fmt.Errorf("the server did not complete the login within %s", e.to.timeout)
		e.wrongDoor(ctx, out)
	case errors.Is(err, errNoTLS):
		out.Kind, out.Err, out.Hint = tidemark.Unsupported, errNoTLS, "Set the server, or the proxy before it, up for TLS."
	case errors.As(err, &reveal):
		l := &loginError{}
		errors.As(err, &l)
		e.to.refused(out, reveal, l.id)
	case errors.Is(err, errPlugin):
		out.Kind, out.Err, out.Hint = tidemark.Unsupported, errors.Unwrap(err), "Give the user caching_sha2_password, mysql_native_password or ed25519."
	case isTLS(err):
		out.Kind, out.Err, out.Hint = tidemark.Denied, errors.New(certificateTrouble(err)), "The server's certificate is not trusted: set tls-ca to the authority that signed it, and use the name that it is for."
	case errors.Is(err, errForeign), errors.Is(err, ErrMalformed):
		out.Err, out.Hint = errors.Unwrap(err), "Check host and port: it may be another kind of server, or a proxy."
		e.wrongDoor(ctx, out)
	case Broken(err):
		out.Kind, out.Err = tidemark.Transient, errors.New("the server closed the connection while logging in")
		e.wrongDoor(ctx, out)
	}
	return tidemark.HideLogin(out, e.to.user)
}

func timedOut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

func dialFailed(out *tidemark.Error, dial *dialError, limit time.Duration) {
	var dns *net.DNSError
	switch {
	case errors.As(dial.error, &dns):
		out.Err = fmt.Errorf("there is no host %s", dns.Name)
		out.Hint = "Correct the host name in the URL."
	case timedOut(dial.error):
		out.Err = fmt.Errorf("no answer within %s", limit)
	default:
		out.Err = dial.error
	}
}

// wrongDoor reports that another kind of server listens at the address.
func (e *Server) wrongDoor(ctx context.Context, out *tidemark.Error) {
	kind := door.Knock(ctx, e.to.network, e.to.host)
	if kind != door.Unknown && kind != door.MySQL {
		other(out, &doorError{kind})
	}
}

func other(out *tidemark.Error, err *doorError) {
	out.Kind, out.Err, out.Hint = tidemark.Invalid, err, "Correct host and port in the URL."
	if err.Kind == door.PostgreSQL {
		out.Hint = "Write postgres:// at the beginning of the URL, or correct host and port."
	}
}

// isTLS reports whether TLS or its certificates caused the error.
func isTLS(err error) bool {
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &cert) || errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) || errors.As(err, &record) || errors.As(err, &alert)
}

// certificateTrouble describes a certificate error in a few words.
func certificateTrouble(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return "its certificate is signed by an unknown authority"
	case errors.As(err, &host):
		return "its certificate is for another host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or is not valid yet"
	}
	return "its certificate is not valid: " + tidemark.MaskText(err.Error())
}
