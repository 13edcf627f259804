package tidemark

import (
	"context"
	"errors"
	"io/fs"
	"strings"
)

// Kind says what the person or program that gets an error can do about it.
// cmd/tidemark maps each Kind to its own exit code.
type Kind uint8

const (
	Bug         Kind = iota // our fault: please report
	Invalid                 // the request itself is wrong: change it
	Unreachable             // no connection to the host could be made
	Denied                  // the login was refused: user or password
	Forbidden               // logged in, but a privilege is missing; the Hint names the GRANT
	NotFound                // a database, table, file or run does not exist
	Unsupported             // a server version or feature that is not handled
	NotEmpty                // the target holds rows or objects already, or the queue messages of another stream; nothing was changed
	Full                    // no space left on the target
	Transient               // may succeed when tried again: cut connection, deadlock, restart
	Lost                    // something that cannot be had again, such as a snapshot
	Unmapped                // a type that has no counterpart on the target
	Collision               // two sources are mapped to one target
	BadRow                  // a value that the target does not take
	BadInput                // a dump or configuration file that is cut or malformed
	Incomplete              // done, but something could not be built; the report lists it
	Cancelled               // stopped from outside
	Exists                  // the object that was to be created is there already
	Corrupt                 // what Tidemark has stored is damaged or has a gap
	Empty                   // there is nothing to do: no table on the source, or none that was selected
	Refused                 // a server, or the operating system, reports an error that no other Kind describes
)

var kindNames = [...]string{"bug", "invalid", "unreachable", "denied", "forbidden", "not found", "unsupported",
	"not empty", "full", "transient", "lost", "unmapped", "collision", "bad row", "bad input", "incomplete", "cancelled", "exists", "corrupt", "empty", "refused"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// ErrNoConnection is in the chain of the error of a server that has no connection left for another
// session. Its Kind is Transient.
var ErrNoConnection = errors.New("no connection is left")

// ErrSnapshotLost is in the chain of the error of a job whose snapshot has ended with the session
// that held it. Its Kind is Lost. A job that has kept nothing of it can take another.
var ErrSnapshotLost = errors.New("the session that holds the snapshot is gone")

// ErrSessionLost is in the chain of an error after which no call to that server can succeed: who
// spoke to it for us has forgotten this job. Its Kind is Invalid.
var ErrSessionLost = errors.New("the session is lost")

// Error is the one error type of the program. Context is added once per layer. Its text is one line
// and never contains a password: text of a connection string is masked first (MaskURL).
type Error struct {
	Op     string // what was being done: "connect", "copy", "create index"
	Object string // to what: a masked URL, a quoted table name; may be empty
	Kind   Kind
	Hint   string // one sentence for the person who reads it; may be empty
	Err    error  // the cause; may be nil
}

// Error returns "op object: cause", without the hint.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Object != "" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strings.ReplaceAll(e.Object, "\n", `\n`))
	}
	if e.Err == nil {
		return b.String()
	}
	if cause := strings.TrimSpace(e.Err.Error()); cause != "" {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(strings.ReplaceAll(cause, "\n", " "))
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the Kind of the outermost Error in err's chain: Cancelled for a cancelled context,
// Bug for anything that is not an Error.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Cancelled
	}
	return Bug
}

// HintOf returns the outermost non-empty hint in err's chain.
func HintOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Hint != "" {
			return e.Hint
		}
		err = e.Err
	}
	return ""
}

// FileError is an error about the file or folder at path, which it names once: NotFound, Forbidden,
// or else Invalid.
func FileError(op, path, hint string, err error) *Error {
	kind := Invalid
	switch {
	case errors.Is(err, fs.ErrPermission):
		kind = Forbidden
	case errors.Is(err, fs.ErrNotExist):
		kind = NotFound
	}
	return &Error{Op: op, Object: path, Kind: kind, Hint: hint, Err: Pathless(err)}
}

// Pathless returns what an error of the file system says besides the path, for an Error whose
// Object is the path.
func Pathless(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
