package address

import (
	"errors"
	"net/url"
	"os"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/relay"
)

// Relay reads the address of a relay, and the secret that belongs to it. program is our version.
func Relay(text, program string) (*relay.Peer, error) {
	peer, file, err := relay.Parse(text)
	if err != nil {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "connect", Object: tidemark.MaskURL(relay.Canonical(text)), Err: err}
	}
	peer.Program = program
	return peer, Identify(&peer.Identity, file)
}

// ForRelay gives the URL of a target its password, for a relay that connects to it: what is in this
// user's environment and --password-file is not there. Her own password file is of servers as this
// machine reaches them.
func ForRelay(text, passwordFile string) (string, error) {
	text, err := WithPassword(text, passwordFile)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	if err != nil || isMySQL(u) {
		return text, nil
	}
	password := os.Getenv("PGPASSWORD")
	if _, has := u.User.Password(); has || password == "" || u.Query().Has("password") {
		return text, nil
	}
	return with(u, password), nil
}

// Identify completes the identity of one side with the secret of a file or of RelaySecret, unless
// it has certificates.
func Identify(id *relay.Identity, secretFile string) error {
	secret := SharedSecret{File: secretFile}
	switch {
	case id.Cert == "":
		if err := secret.Read(RelaySecret); err != nil {
			return err
		}
	case secretFile != "":
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "relay", Err: errors.New("both a secret and certificates were given"), Hint: "Use one of them, on both sides."}
	}
	id.Secret = secret.Text
	return id.Check()
}
