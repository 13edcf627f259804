package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/drda"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// An address is a server's location, the account, and how the connection is protected.
type address struct {
	host           string // host:port
	user, password string
	database       string
	tls            *tls.Config // nil: no TLS
	accept         []drda.Security
	exposed        bool // the login is encrypted, and nothing else
	timeout        time.Duration
	masked         string
}

const urlForm = "The form is db2://user:password@host:50000/DATABASE, with special characters of the password percent-encoded (@ is %40, / is %2F, # is %23, : is %3A)."

// urlOptions are the options of a URL.
var urlOptions = []string{"tls", "tls-ca", "plain-password", "connect-timeout"}

func parseURL(raw string) (address, error) {
	bad := func(cause, hint string) error {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "open", Object: tidemark.MaskURL(raw), Err: errors.New(cause), Hint: hint}
	}
	u, err := tidemark.ParseURL(raw)
	if err != nil {
		return address{}, bad(err.Error(), urlForm)
	}
	a := address{database: strings.Trim(u.Path, "/"), timeout: 10 * time.Second, masked: tidemark.MaskURL(raw), user: u.User.Username()}
	a.password, _ = u.User.Password()
	if a.database == "" || a.user == "" {
		return address{}, bad("a Db2 URL needs a user and a database", urlForm)
	}
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "50000"
	}
	a.host = net.JoinHostPort(host, port)
	query := u.Query()
	for key := range query {
		if !slices.Contains(urlOptions, key) {
			return address{}, bad(tidemark.UnknownOption(u, key), "Valid options are "+strings.Join(urlOptions, ", ")+".")
		}
	}
	if text := query.Get("connect-timeout"); text != "" {
		if seconds, err := strconv.Atoi(text); err == nil {
			text = fmt.Sprint(seconds) + "s"
		}
		if a.timeout, err = time.ParseDuration(text); err != nil || a.timeout <= 0 {
			return address{}, bad("connect-timeout is not a duration", "Write it as ?connect-timeout=10s.")
		}
	}
	plain := false
	if text := query.Get("plain-password"); text != "" {
		if plain, err = strconv.ParseBool(text); err != nil {
			return address{}, bad("plain-password is neither true nor false", "Write it as ?plain-password=true.")
		}
	}
	if a.tls, err = tlsOf(query.Get("tls"), query.Get("tls-ca"), host); err != nil {
		return address{}, bad(err.Error(), "tls is false, true, verify-ca or verify-full; tls-ca is a file of certificates.")
	}
	local := host == "localhost" || net.ParseIP(host).IsLoopback()
	switch {
	case a.tls != nil || local || plain:
		a.accept = []drda.Security{drda.Plain, drda.Encrypted}
	default:
		a.accept = []drda.Security{drda.Encrypted}
	}
	a.exposed = a.tls == nil && !local
	return a, nil
}

// tlsOf returns the TLS of a mode. Db2 has a port of its own for it, where it begins with the first
// byte: whether a server has it cannot be found out on the other port.
func tlsOf(mode, file, host string) (*tls.Config, error) {
	if mode == "" && file != "" {
		mode = "verify-full"
	}
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if file != "" {
		pem, err := plainfile.Read(file, plainfile.Large)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", file)
		}
	}
	switch mode {
	case "", "false":
		return nil, nil
	case "true":
		c.InsecureSkipVerify = true
	case "verify-ca":
		c.InsecureSkipVerify = true // the library would check the name too
		c.VerifyConnection = func(s tls.ConnectionState) error {
			opts := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool()}
			for _, cert := range s.PeerCertificates[1:] {
				opts.Intermediates.AddCert(cert)
			}
			_, err := s.PeerCertificates[0].Verify(opts)
			return err
		}
	case "verify-full":
	default:
		return nil, fmt.Errorf("unknown mode of TLS %q", mode)
	}
	return c, nil
}
