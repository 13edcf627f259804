package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha/measure"
)

// secretVariable has the secret that both ends of a measurement share, unless a file has.
const secretVariable = "TIDEMARK_HA_SECRET"

// A linkSecret is that secret, which stands on no command line: others see those.
type linkSecret struct{ file, text string }

// read reads it from the file that was named, or the environment.
func (s *linkSecret) read() error {
	s.text = os.Getenv(secretVariable)
	from := secretVariable
	if s.file != "" {
		text, err := os.ReadFile(s.file)
		if err != nil {
			return fileError("read the secret", s.file, "Make one that you alone may read: umask 077; openssl rand -hex 16 > FILE.", err)
		}
		s.text, from = strings.TrimSpace(string(text)), s.file
	}
	if len(s.text) < measure.LeastSecret && (s.text != "" || s.file != "") {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "read the secret", Object: from, Err: fmt.Errorf("it is shorter than %d bytes", measure.LeastSecret), Hint: "Make one: openssl rand -hex 16."}
	}
	return nil
}
