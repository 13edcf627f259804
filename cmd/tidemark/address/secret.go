package address

import (
	"fmt"
	"os"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// leastSecret is the minimum length of a shared secret in bytes: it can be guessed remotely.
const leastSecret = 16

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
func (s *SharedSecret) Read(variable string) (err error) {
	s.Text, err = readSecret(s.File, variable)
	return err
}

func readSecret(file, variable string) (string, error) {
	text, from := os.Getenv(variable), variable
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", tidemark.FileError("read the secret", file, "Make one that only you can read: umask 077; openssl rand -hex 16 > FILE.", err)
		}
		text, from = strings.TrimSpace(string(b)), file
	}
	if len(text) < leastSecret && (text != "" || file != "") {
		return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "read the secret", Object: from, Err: fmt.Errorf("it is shorter than %d bytes", leastSecret), Hint: "Make one: openssl rand -hex 16."}
	}
	return text, nil
}
