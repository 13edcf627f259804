package address

import (
	"fmt"
	"os"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
	"github.com/tidemarkdb/tidemark/relay"
)

// Variables with the secret that both sides share, unless a file has it.
const (
	HASecret    = "TIDEMARK_HA_SECRET"    // of a measurement
	RelaySecret = "TIDEMARK_RELAY_SECRET" // of a relay
)

// A SharedSecret is a secret that both sides of a connection share. It is never on a command line,
// which other users can see.
type SharedSecret struct{ File, Text string }

// Read reads it from File or, if that is "", from a variable. Kinds: NotFound, Forbidden, Invalid
// if it is too short.
func (s *SharedSecret) Read(variable string) error {
	text, from := os.Getenv(variable), variable
	if s.File != "" {
		b, err := plainfile.ReadSecret(s.File)
		if err != nil {
			return tidemark.FileError("read the secret", s.File, "Make one that only you can read: umask 077; openssl rand -hex 16 > FILE.", err)
		}
		text, from = strings.TrimSpace(string(b)), s.File
	}
	if len(text) < relay.LeastSecret && (text != "" || s.File != "") {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "read the secret", Object: from, Err: fmt.Errorf("it is shorter than %d bytes", relay.LeastSecret), Hint: "Make one: openssl rand -hex 16."}
	}
	s.Text = text
	return nil
}
