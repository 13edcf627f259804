package server

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

const urlForm = "Write it as postgres://user@host:5432/database, with special characters of the password percent-encoded (@ is %40, / is %2F, # is %23, : is %3A); the password may also stand in the password file or in PGPASSWORD."

const optionsHint = "Options are libpq's, such as sslmode, sslrootcert, connect_timeout and target_session_attrs. A setting for the session is written as options=-cNAME%3DVALUE."

const filesHint = "Keys and passwords are in regular files that nobody else can read: chmod 600 FILE."

// foreignOptions are options of other engines' URLs and of other programs, each with its name here.
// The driver would send them to the server as settings.
var foreignOptions = map[string]string{
	"tls": "sslmode", "ssl-mode": "sslmode", "ssl_mode": "sslmode", "ssl": "sslmode", "usessl": "sslmode",
	"tls-ca": "sslrootcert", "ssl-ca": "sslrootcert", "ssl_ca": "sslrootcert", "tls-cert": "sslcert", "ssl-cert": "sslcert",
	"tls-key": "sslkey", "ssl-key": "sslkey", "socket": "host", "unix_socket": "host", "connect-timeout": "connect_timeout", "timeout": "connect_timeout",
	"enable-cleartext-plugin": "require_auth", "get-server-public-key": "require_auth", "server-public-key-path": "require_auth",
}

// libpqOptions are libpq options that the driver does not know and would send to the server as
// settings. same lists the values that match what is done here anyway, "" if all do; instead says
// what to do instead of using another value.
var libpqOptions = map[string]struct{ same, instead string }{
	"keepalives": {same: "1"}, "keepalives_idle": {}, "keepalives_interval": {}, "keepalives_count": {}, "tcp_user_timeout": {},
	"sslcompression": {same: "0"}, "gssencmode": {same: "disable prefer"}, "gssdelegation": {same: "0"}, "gsslib": {}, "sslcrl": {same: "-", instead: "lists of revoked certificates are not read"},
	"sslcrldir": {same: "-", instead: "lists of revoked certificates are not read"}, "load_balance_hosts": {same: "disable"}, "client_encoding": {same: "UTF8 utf8 UTF-8 utf-8 auto"},
	"hostaddr": {same: "-", instead: "write the address as the host"}, "requirepeer": {same: "-", instead: "verify the server by TLS: sslmode=verify-full"}, "requiressl": {same: "0", instead: "write sslmode=require"},
	"replication":              {same: "false no off 0", instead: "leave it out: replication connections are made where they are needed"},
	"ssl_min_protocol_version": {same: "TLSv1.2"}, "ssl_max_protocol_version": {same: "TLSv1.3"}, "sslkeylogfile": {same: "-", instead: "keys of a connection are not written"},
	"scram_client_key": {same: "-", instead: "give the password"}, "scram_server_key": {same: "-", instead: "give the password"},
	"oauth_issuer": {same: "-", instead: "OAuth is not supported"}, "oauth_client_id": {same: "-", instead: "OAuth is not supported"}, "oauth_client_secret": {same: "-", instead: "OAuth is not supported"}, "oauth_scope": {same: "-", instead: "OAuth is not supported"},
}

// driverOptions are libpq's options that the driver knows, and those that go to the server.
var driverOptions = []string{"host", "port", "dbname", "database", "user", "password", "passfile", "connect_timeout", "sslmode", "sslkey", "sslcert", "sslcertmode",
	"sslrootcert", "sslnegotiation", "sslpassword", "sslsni", "krbspn", "krbsrvname", "target_session_attrs", "service", "servicefile", "min_protocol_version",
	"max_protocol_version", "channel_binding", "require_auth", "application_name", "fallback_application_name", "options"}

// ownSettings are the settings that a configuration may have; PGTZ is the last. libpq refuses
// others too, and the driver would send them to the server: a misspelt sslmode, without TLS.
var ownSettings = []string{"application_name", "options", "timezone"}

// ourLibpqOptions removes the options in libpqOptions from a configuration, and refuses values that
// ask for different behaviour.
func ourLibpqOptions(cfg *pgx.ConnConfig) error {
	if name := cfg.RuntimeParams["fallback_application_name"]; name != "" && cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = name
	}
	delete(cfg.RuntimeParams, "fallback_application_name")
	for _, name := range slices.Sorted(maps.Keys(cfg.RuntimeParams)) {
		known, is := libpqOptions[name]
		if !is {
			continue
		}
		if value := cfg.RuntimeParams[name]; known.same != "" && !slices.Contains(strings.Fields(known.same), value) {
			if known.instead == "" {
				known.instead = "only " + strings.ReplaceAll(known.same, " ", " or ") + " is supported"
			}
			return fmt.Errorf("libpq option %s is not supported: %s", name, known.instead)
		}
		delete(cfg.RuntimeParams, name)
	}
	return nil
}

// maxMessage limits one message from the server: a value has at most 1 GB, and so has a row of
// COPY.
const maxMessage = 1<<30 + 1<<20

// usualTimeout is how long one server may take to accept a session, unless connect_timeout says
// otherwise: a silent one would hold a command for ever.
const usualTimeout = 10 * time.Second

// readURL parses a connection string into a configuration. Its errors quote nothing of the string.
func readURL(text string) (*pgx.ConnConfig, error) {
	bad := func(err error, hint string) error {
		return &tidemark.Error{Op: "connect", Object: tidemark.MaskURL(text), Kind: tidemark.Invalid, Err: err, Hint: hint}
	}
	u := new(url.URL) // of a keyword string: the command makes URLs of them
	if strings.Contains(text, "://") {
		var err error
		if u, err = tidemark.ParseURL(text); err != nil {
			return nil, bad(err, urlForm)
		}
		// libpq ends the password at the first @, net/url at the last: what is between would become
		// part of the host name.
		if strings.Count(strings.SplitN(text, "/", 4)[2], "@") > 1 {
			return nil, bad(errors.New("not a URL: user, password and host cannot be separated"), urlForm)
		}
		if name := strangeOption(u.Query()); name != "" {
			return nil, bad(errors.New(tidemark.UnknownOption(u, name)), optionsHint)
		}
		if err := checkOptions(u.Query()); err != nil {
			return nil, bad(err, "Options for TLS are sslmode (disable, allow, prefer, require, verify-ca or verify-full), sslrootcert, sslcert and sslkey; host=/PATH names a Unix socket's folder, connect_timeout is in seconds.")
		}
	}
	if err := checkFiles(u.Query()); err != nil {
		return nil, bad(err, filesHint)
	}
	cfg, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, bad(parseCause(err), parseHint(err))
	}
	if u.Scheme != "" {
		if err := checkPassfile(u, cfg); err != nil {
			return nil, bad(err, filesHint)
		}
	}
	if err := ourLibpqOptions(cfg); err != nil {
		return nil, bad(err, "Leave it out, or change it.")
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.RuntimeParams)) { // also of a keyword string or a service
		if !slices.Contains(ownSettings, name) {
			return nil, bad(errors.New(tidemark.UnknownKeyword(text, name)), optionsHint)
		}
	}
	if cfg.ConnectTimeout == 0 && !u.Query().Has("connect_timeout") && os.Getenv("PGCONNECT_TIMEOUT") == "" {
		cfg.ConnectTimeout = usualTimeout // 0 that is given waits for ever, as in libpq
	}
	cfg.MaxProtocolMessageBodyLen = maxMessage
	cfg.BuildFrontend = guardedFrontend
	if cfg.RequireAuth == "" && !proved(cfg) {
		// An impostor could ask for the password in clear text.
		cfg.RequireAuth = "!password"
	}
	// Without keepalives, an unnoticed broken connection would hold a lane or the snapshot forever,
	// and a firewall drops idle connections; the leader is mostly idle.
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 6}}
	cfg.DialFunc = dialer.DialContext
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "tidemark"
	}
	return cfg, nil
}

// parseHint says how to correct what the driver does not accept.
func parseHint(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "service"):
		return "Services are read from the file that servicefile or PGSERVICEFILE names, or from ~/.pg_service.conf: check that it is there, and has a part [NAME]."
	case strings.Contains(text, "sslmode is invalid"):
		return "sslmode is disable, allow, prefer, require, verify-ca or verify-full."
	case strings.Contains(text, "CA file"), strings.Contains(text, "cert"), strings.Contains(text, "sslkey"):
		return "Check the path, and that the file is in PEM form: sslrootcert, sslcert and sslkey, or the variables PGSSLROOTCERT, PGSSLCERT and PGSSLKEY."
	}
	return urlForm
}

// strangeOption returns an option that is neither libpq's nor another program's for one of those,
// "" if there is none.
func strangeOption(given url.Values) string {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, is := libpqOptions[name]; !is && !slices.Contains(driverOptions, name) && foreignOptions[strings.ToLower(name)] == "" {
			return name
		}
	}
	return ""
}

func checkOptions(given url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if here := foreignOptions[strings.ToLower(name)]; here != "" {
			return fmt.Errorf("unknown option %q: use %s", name, here)
		}
	}
	return nil
}

// proved reports whether every connection that cfg allows is to a server that has proved its
// identity: by a Unix socket, or by TLS with verification.
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

// isCleartext reports whether err is the driver's refusal, by RequireAuth, to send a password in
// clear text.
func isCleartext(err error) bool {
	return err != nil && strings.Contains(err.Error(), "require_auth check failed")
}

var errCleartext = errors.New("the server's identity is not verified, and it asks for the password in clear text: it was not sent")

const cleartextHint = "Verify the server (sslmode=verify-full, or verify-ca with sslrootcert=FILE), or, if any host at this address may see the password, add require_auth=password."
