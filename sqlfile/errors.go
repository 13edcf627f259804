package sqlfile

import (
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
)

// ErrRaw is in the chain of Convert's error if a piece holds something that only a MySQL server can
// evaluate, such as NOW(). No batch of the piece may be kept: end its transaction and run
// Tuples.SQL on the target instead.
var ErrRaw = errors.New("an expression that only the server can evaluate")

// at formats the position of a finding in the file.
func at(offset, line int64, what string) string {
	return fmt.Sprintf("byte %d (line %d): %s", offset, line, what)
}

// bad makes the error for unreadable input.
func bad(name string, offset, line int64, what, hint string) error {
	return &tidemark.Error{Kind: tidemark.BadInput, Op: "read", Object: name, Err: errors.New(at(offset, line, what)), Hint: hint}
}

const (
	hintCut   = "The file is truncated: make the dump again, or copy it again and compare its size."
	hintBroke = "Look at the file at that place; if it was edited, repair the statement, otherwise make the dump again."
)
