package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha/measure"
)

// secretVariable has the secret that both sides of a measurement share, unless a file has it.
const secretVariable = "TIDEMARK_HA_SECRET"

// A linkSecret is that secret. It is never on a command line, which other users can see.
type linkSecret struct{ file, text string }

// read reads it from the named file, or from the environment.
func (s *linkSecret) read() error {
	s.text = os.Getenv(secretVariable)
	from := secretVariable
	if s.file != "" {
		text, err := os.ReadFile(s.file)
		if err != nil {
			return fileError("read the secret", s.file, "Make one that only you can read: umask 077; openssl rand -hex 16 > FILE.", err)
		}
		s.text, from = strings.TrimSpace(string(text)), s.file
	}
	if len(s.text) < measure.LeastSecret && (s.text != "" || s.file != "") {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "read the secret", Object: from, Err: fmt.Errorf("it is shorter than %d bytes", measure.LeastSecret), Hint: "Make one: openssl rand -hex 16."}
	}
	return nil
}
