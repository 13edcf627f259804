package relay

import (
	"crypto/ed25519"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"os"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// LeastSecret is the minimum length of a shared secret in bytes: it can be guessed remotely.
const LeastSecret = 16

// An Identity is how both sides prove who they are: by a secret that they share, or by
// certificates.
type Identity struct {
	Secret        string // at least LeastSecret bytes; "" with certificates
	CA, Cert, Key string // files in PEM: the CA that both trust, and our own certificate with its key
}

// Check validates it. Kind Invalid.
func (id Identity) Check() error {
	const op = "relay"
	files := 0
	for _, name := range []string{id.CA, id.Cert, id.Key} {
		if name != "" {
			files++
		}
	}
	switch {
	case files == 0 && id.Secret == "":
		return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Err: errors.New("both sides need a shared secret or certificates, and there are none"), Hint: "Give both sides the same secret in a file or in TIDEMARK_RELAY_SECRET (openssl rand -hex 16 makes one)."}
	case files == 0 && len(id.Secret) < LeastSecret:
		return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Err: fmt.Errorf("the shared secret is shorter than %d bytes", LeastSecret), Hint: "Make one: openssl rand -hex 16."}
	case files > 0 && files < 3:
		return &tidemark.Error{Kind: tidemark.Invalid, Op: op, Err: errors.New("certificates need three files: the CA, the certificate and its key"), Hint: "Name all three on both sides, or use a shared secret."}
	}
	return nil
}

// config returns the settings of TLS for both roles. Name is the host that a relay's certificate
// must be for, unless a secret is shared.
func (id Identity) config(name string) (*tls.Config, error) {
	if err := id.Check(); err != nil {
		return nil, err
	}
	if id.Cert != "" {
		return id.byFiles(name)
	}
	return bySecret(id.Secret)
}

// errStranger means that the other side does not have our secret.
var errStranger = errors.New("the shared secret differs")

// rounds make each guess of a weak secret cost some 30 ms of CPU: a relay shows its public key to
// whoever connects.
const rounds = 100_000

// bySecret derives a key pair from a secret. The one key proves both sides: what a side signs in
// TLS 1.3 contains its role and both sides' fresh keys, so it is of no use elsewhere.
func bySecret(secret string) (*tls.Config, error) {
	fail := func(err error) (*tls.Config, error) {
		return nil, &tidemark.Error{Kind: tidemark.Bug, Op: "relay", Err: err}
	}
	seed, err := pbkdf2.Key(sha256.New, secret, []byte("tidemark relay"), rounds, ed25519.SeedSize)
	if err != nil {
		return fail(err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	own := key.Public().(ed25519.PublicKey)
	// Nobody looks at its dates: clocks may differ, and a process may run for years.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tidemark relay"}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, own, key)
	if err != nil {
		return fail(err)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		Certificates:       []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:         tls.RequireAnyClientCert,
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 || !own.Equal(state.PeerCertificates[0].PublicKey) {
				return errStranger
			}
			return nil
		},
		SessionTicketsDisabled: true,
	}, nil
}

func (id Identity) byFiles(name string) (*tls.Config, error) {
	bad := func(file string, err error) (*tls.Config, error) {
		kind := tidemark.Invalid
		if errors.Is(err, os.ErrNotExist) {
			kind = tidemark.NotFound
		}
		return nil, &tidemark.Error{Kind: kind, Op: "read the certificate", Object: file, Err: err, Hint: "Name files in PEM that this user can read."}
	}
	text, err := plainfile.Read(id.CA, plainfile.Large)
	if err != nil {
		return bad(id.CA, err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(text) {
		return bad(id.CA, errors.New("it contains no certificate"))
	}
	own, err := plainfile.KeyPair(id.Cert, id.Key)
	if err != nil {
		return bad(id.Cert, err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: name, Certificates: []tls.Certificate{own},
		RootCAs: trusted, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
	}, nil
}
