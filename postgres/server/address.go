package server

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"sort"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

const urlForm = "Write it as postgres://user@host:5432/database, with special characters of the password percent-encoded (@ is %40, / is %2F, # is %23, : is %3A); the password may also stand in the password file or in PGPASSWORD."

// foreignOptions are those of other engines' URLs and of other programs, with what they
// are called here. The driver would hand them to the server as settings.
var foreignOptions = map[string]string{
	"tls": "sslmode", "ssl-mode": "sslmode", "ssl_mode": "sslmode", "ssl": "sslmode", "usessl": "sslmode",
	"tls-ca": "sslrootcert", "ssl-ca": "sslrootcert", "ssl_ca": "sslrootcert", "tls-cert": "sslcert", "ssl-cert": "sslcert",
	"tls-key": "sslkey", "ssl-key": "sslkey", "socket": "host", "unix_socket": "host", "connect-timeout": "connect_timeout", "timeout": "connect_timeout",
	"enable-cleartext-plugin": "require_auth", "get-server-public-key": "require_auth", "server-public-key-path": "require_auth",
}

// maxMessage bounds what a server says in one message: a value has at most 1 GB, and so
// has a row of COPY.
const maxMessage = 1<<30 + 1<<20

// readURL makes a configuration of a connection string. Nothing of a wrong one is in the
// error.
func readURL(text string) (*pgx.ConnConfig, error) {
	bad := func(err error, hint string) error {
		return &tidemark.Error{Op: "connect", Object: tidemark.MaskURL(text), Kind: tidemark.Invalid, Err: err, Hint: hint}
	}
	if strings.Contains(text, "://") {
		u, err := tidemark.ParseURL(text)
		if err != nil {
			return nil, bad(err, urlForm)
		}
		// libpq ends the password at the first @, net/url at the last: what is between would become part of the host's name.
		if strings.Count(strings.SplitN(text, "/", 4)[2], "@") > 1 {
			return nil, bad(errors.New("not a URL: user, password and host cannot be told apart"), urlForm)
		}
		if err := checkOptions(u.Query()); err != nil {
			return nil, bad(err, "Options for TLS are sslmode (disable, allow, prefer, require, verify-ca or verify-full), sslrootcert, sslcert and sslkey; host=/PATH names a Unix socket's folder, connect_timeout is in seconds.")
		}
	}
	cfg, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, bad(parseCause(err), urlForm)
	}
	cfg.MaxProtocolMessageBodyLen = maxMessage
	cfg.BuildFrontend = guardedFrontend
	if cfg.RequireAuth == "" && !proved(cfg) {
		// Whoever poses as the server could ask for the password in clear.
		cfg.RequireAuth = "!password"
	}
	// A cut connection that nobody notices would hold a lane, or the snapshot, for
	// ever; and a firewall forgets a quiet one, which the leader is by nature.
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 6}}
	cfg.DialFunc = dialer.DialContext
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "tidemark"
	}
	return cfg, nil
}

func checkOptions(given url.Values) error {
	names := make([]string, 0, len(given))
	for name := range given {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if here := foreignOptions[strings.ToLower(name)]; here != "" {
			return fmt.Errorf("unknown option %q: here it is %s", name, here)
		}
	}
	return nil
}

// proved reports whether each way in which cfg connects is to a server that has proved who
// it is: a Unix socket, or TLS that verifies.
func proved(cfg *pgx.ConnConfig) bool {
	good := func(host string, verifies bool) bool { return strings.HasPrefix(host, "/") || verifies }
	if c := cfg.TLSConfig; !good(cfg.Host, c != nil && (!c.InsecureSkipVerify || c.VerifyPeerCertificate != nil)) {
		return false
	}
	for _, f := range cfg.Fallbacks {
		if c := f.TLSConfig; !good(f.Host, c != nil && (!c.InsecureSkipVerify || c.VerifyPeerCertificate != nil)) {
			return false
		}
	}
	return true
}

// errCleartext is what the driver says when RequireAuth forbids a password in clear.
func isCleartext(err error) bool {
	return err != nil && strings.Contains(err.Error(), "require_auth check failed")
}

var errCleartext = errors.New("the server has not proved who it is, and asks for the password in clear: it was not sent")

const cleartextHint = "Verify the server (sslmode=verify-full, or verify-ca with sslrootcert=FILE), or, if whoever is at this address may see the password, add require_auth=password."
