package measure

import (
	"bufio"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"

	"github.com/tidemarkdb/tidemark"
)

// LeastSecret is the minimum length of a shared secret in bytes: it can be guessed remotely.
const LeastSecret = 16

// A proofMessage is the connecting side's answer to a challenge: an HMAC of it, so that the secret
// itself is never sent.
type proofMessage struct {
	Proof string `json:"proof"`
}

const wrongSecret = "the shared secret differs"

func proof(secret, challenge string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(linkMagic + challenge)) // never fails
	return hex.EncodeToString(m.Sum(nil))
}

// authenticate makes a peer prove that it has the secret.
func (s *listener) authenticate(c net.Conn, r *bufio.Reader) bool {
	if s.Secret == "" {
		return true
	}
	challenge := rand.Text()
	if writeGreeting(c, welcome{Challenge: challenge}) != nil {
		return false
	}
	var p proofMessage
	if readGreeting(r, &p) == nil && hmac.Equal([]byte(p.Proof), []byte(proof(s.Secret, challenge))) {
		return true
	}
	s.Note(fmt.Sprintf("%s: does not have the shared secret; rejected", c.RemoteAddr()))
	_ = writeGreeting(c, welcome{Refused: wrongSecret}) // it may have gone
	return false
}

// prove answers the listener's challenge, and reads its welcome.
func (l *link) prove(secret string) error {
	if secret == "" {
		return needsSecret(l.c.RemoteAddr().String(), "the listener requires a shared secret")
	}
	challenge := l.granted.Challenge
	l.granted = welcome{}
	if err := writeGreeting(l.c, proofMessage{proof(secret, challenge)}); err != nil {
		return err
	}
	return readGreeting(l.r, &l.granted)
}

func needsSecret(addr, cause string) error {
	return &tidemark.Error{Kind: tidemark.Denied, Op: "connect", Object: addr, Err: errors.New(cause), Hint: "Give the listener's secret with --secret-file or in TIDEMARK_HA_SECRET."}
}

// checkSecret refuses to listen to other machines without a secret.
func (spec ListenSpec) checkSecret(at net.Addr) error {
	tcp, _ := at.(*net.TCPAddr)
	switch {
	case spec.Secret != "" && len(spec.Secret) < LeastSecret:
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "listen", Object: at.String(), Err: fmt.Errorf("the shared secret is shorter than %d bytes", LeastSecret), Hint: "Make one: openssl rand -hex 16."}
	case spec.Secret == "" && (tcp == nil || !tcp.IP.IsLoopback()):
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "listen", Object: at.String(), Err: errors.New("other machines can reach this address, and no shared secret was given"), Hint: "Give the same secret on both sides with --secret-file or in TIDEMARK_HA_SECRET (openssl rand -hex 16 makes one), or listen on 127.0.0.1."}
	}
	return nil
}
