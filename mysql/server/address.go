package server

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// address is a server's location, the account, and the security that the connection needs.
type address struct {
	network, host  string // "tcp" and host:port, or "unix" and a path
	user, password string
	db             string
	mode           tlsMode
	tls            *tls.Config // nil: no TLS; verification checks the certificate, not the TLS library
	name           string      // host name required in the certificate
	trust          trust
	timeout        time.Duration
	masked         string // for messages
}

// A tlsMode is the TLS that a connection needs. The manual lists what each mode protects against.
type tlsMode uint8

const (
	tlsOff        tlsMode = iota
	tlsAuto               // if the server supports it; warns about an unverified server
	tlsPreferred          // if the server supports it, unverified
	tlsRequired           // TLS always, unverified
	tlsVerifyCA           // certificate signed by a known authority
	tlsVerifyFull         // and issued for this host
)

// optional reports whether a server without TLS is accepted.
func (m tlsMode) optional() bool { return m == tlsOff || m == tlsAuto || m == tlsPreferred }

// trust holds the user's exceptions: which servers may see the password although the connection
// does not authenticate them. The names are those of MySQL's client.
type trust struct {
	cleartext bool           // enable-cleartext-plugin
	serverKey bool           // get-server-public-key
	key       *rsa.PublicKey // server-public-key-path
}

// urlOptions are the options of a URL by name, for messages and the parser.
var urlOptions = map[string]bool{"tls": true, "tls-ca": true, "tls-cert": true, "tls-key": true, "socket": true, "connect-timeout": true,
	"enable-cleartext-plugin": true, "get-server-public-key": true, "server-public-key-path": true}

// otherNames maps options of other programs to our names for them.
var otherNames = map[string]string{
	"sslmode": "tls", "ssl-mode": "tls", "ssl": "tls", "ssl_mode": "tls", "usessl": "tls", "sslrootcert": "tls-ca", "ssl-ca": "tls-ca", "ssl_ca": "tls-ca",
	"sslcert": "tls-cert", "ssl-cert": "tls-cert", "sslkey": "tls-key", "ssl-key": "tls-key", "host": "socket", "unix_socket": "socket",
	"connect_timeout": "connect-timeout", "timeout": "connect-timeout",
}

const urlForm = "The form is mysql://user:password@host:3306/database, with special characters of the password percent-encoded (@ is %40, / is %2F, # is %23, : is %3A)."

func parseURL(rawURL string) (address, error) {
	bad := func(cause, hint string) error {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "open", Object: tidemark.MaskURL(rawURL), Err: errors.New(cause), Hint: hint}
	}
	u, err := tidemark.ParseURL(rawURL)
	if err != nil {
		return address{}, bad(err.Error(), urlForm)
	}
	if u.Scheme != "mysql" && u.Scheme != "mariadb" {
		return address{}, bad("the scheme is neither mysql nor mariadb", urlForm)
	}
	a := address{network: "tcp", db: strings.Trim(u.Path, "/"), timeout: 10 * time.Second, masked: tidemark.MaskURL(rawURL)}
	if strings.ContainsRune(u.User.Username()+a.db, 0) {
		return address{}, bad("a name holds a NUL character", urlForm)
	}
	a.user = u.User.Username()
	a.password, _ = u.User.Password()
	host, port := u.Hostname(), u.Port()
	if host == "" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = "3306"
	}
	a.host, a.name = net.JoinHostPort(host, port), host
	query := u.Query()
	local := host == "localhost" || net.ParseIP(host).IsLoopback()
	for key := range query {
		value := query.Get(key)
		switch key {
		case "socket":
			a.network, a.host, local = "unix", value, true
		case "connect-timeout":
			if a.timeout, err = duration(value); err != nil {
				return address{}, bad(err.Error(), "Write it as ?connect-timeout=10s.")
			}
		case "enable-cleartext-plugin", "get-server-public-key":
			on, err := strconv.ParseBool(value)
			if err != nil {
				return address{}, bad(key+" is neither true nor false", "Write it as ?"+key+"=true.")
			}
			if key == "get-server-public-key" {
				a.trust.serverKey = on
			} else {
				a.trust.cleartext = on
			}
		case "server-public-key-path":
			if a.trust.key, err = readPublicKey(value); err != nil {
				return address{}, bad(err.Error(), "Give the server's public_key.pem, fetched in a way that can be trusted.")
			}
		default:
			if !urlOptions[key] {
				return address{}, bad(tidemark.UnknownOption(u, key), unknownOption(key))
			}
		}
	}
	if err := a.setTLS(query, local); err != nil {
		return address{}, bad(err.Error(), "Options for TLS are tls, tls-ca, tls-cert and tls-key.")
	}
	return a, nil
}

func duration(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds <= 0 || seconds > 1e9 {
		return 0, errors.New("connect-timeout is not a duration")
	}
	return time.Duration(seconds) * time.Second, nil
}

// unknownOption lists the valid options, the one probably meant first.
func unknownOption(key string) string {
	var names []string
	for name := range urlOptions {
		names = append(names, name)
	}
	sort.Strings(names)
	list := "Valid options are " + strings.Join(names, ", ") + "."
	switch meant := otherNames[strings.ToLower(key)]; meant {
	case "":
		return list
	case "tls":
		return "Here it is ?tls=false, preferred, true, verify-ca or verify-full. " + list
	default:
		return "Here it is ?" + meant + "=. " + list
	}
}

func readPublicKey(file string) (*rsa.PublicKey, error) {
	data, err := plainfile.Read(file, plainfile.Small)
	if err != nil {
		return nil, err
	}
	key, err := publicKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

// publicKey reads an RSA key as a server sends or keeps it.
func publicKey(data []byte) (*rsa.PublicKey, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("not a public key in PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("not a public key in PEM")
	}
	key, ok := parsed.(*rsa.PublicKey)
	if !ok || key.Size() > 2048 {
		return nil, errors.New("not an RSA key of up to 16384 bits")
	}
	return key, nil
}

func (a *address) setTLS(query url.Values, local bool) error {
	mode := query.Get("tls")
	file := query.Get("tls-ca")
	switch mode {
	case "":
		switch {
		case file != "":
			a.mode = tlsVerifyCA // naming an authority asks for verification by it
		case local:
			a.mode = tlsOff
		default:
			a.mode = tlsAuto
		}
	case "false":
		a.mode = tlsOff
	case "preferred":
		a.mode = tlsPreferred
	case "true", "skip-verify":
		a.mode = tlsRequired
	case "verify-ca":
		a.mode = tlsVerifyCA
	case "verify-full":
		a.mode = tlsVerifyFull
	default:
		return fmt.Errorf("tls is false, preferred, true, verify-ca or verify-full, not %q", mode)
	}
	// We verify the certificate ourselves, after the handshake: the consequence depends on the
	// mode.
	c := &tls.Config{ServerName: a.name, MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
	if file != "" {
		pem, err := plainfile.Read(file, plainfile.Large)
		if err != nil {
			return err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no certificate", file)
		}
	}
	if cert, key := query.Get("tls-cert"), query.Get("tls-key"); cert != "" || key != "" {
		pair, err := plainfile.KeyPair(cert, key)
		if err != nil {
			return err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if a.mode != tlsOff {
		a.tls = c
	}
	return nil
}

// verification checks the certificates of a connection: who signed them, and, unless the mode is
// verify-ca, which host they name. nil means that the server is authenticated.
func (a *address) verification(s tls.ConnectionState) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the server showed no certificate")
	}
	opts := x509.VerifyOptions{Roots: a.tls.RootCAs, Intermediates: x509.NewCertPool()}
	if a.mode != tlsVerifyCA {
		opts.DNSName = a.name
	}
	for _, c := range s.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(opts)
	return err
}
