package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// exitCodes maps each Kind to its own exit code. 1 is reserved for "the databases differ", which is
// not an error.
var exitCodes = map[tidemark.Kind]int{
	tidemark.Invalid: 2, tidemark.Unreachable: 3, tidemark.Denied: 4, tidemark.Forbidden: 5, tidemark.NotFound: 6,
	tidemark.Unsupported: 7, tidemark.NotEmpty: 8, tidemark.Full: 9, tidemark.Transient: 10, tidemark.Lost: 11,
	tidemark.Unmapped: 12, tidemark.Collision: 13, tidemark.BadRow: 14, tidemark.BadInput: 15, tidemark.Incomplete: 16,
	tidemark.Exists: 17, tidemark.Corrupt: 18, tidemark.Empty: 20, tidemark.Refused: 21, tidemark.Bug: 70, tidemark.Cancelled: 130,
}

// exitDiffer is diff's answer when the two sides are not equal, and check's when
// it found a blocker.
const exitDiffer = 1

// exitChanging is the answer of diff and repair with --live if no row differs for certain, but some
// kept changing.
const exitChanging = 19

// changing is the outcome with this code.
type changing struct{}

func (changing) Error() string { return "" }

// differ is the outcome of a verb that ran well and found what it looks for.
type differ struct{}

func (differ) Error() string { return "" }

// exitStopsRecovery is the answer of archive get to a server that must not mistake an error for the
// end of its log: after any code up to 125, the server continues.
const exitStopsRecovery = 200

// stopsRecovery is an error of archive get other than that the archive has no such file.
type stopsRecovery struct{ error }

func (e stopsRecovery) Unwrap() error { return e.error }

// notArchived is the error of a file that the archive does not have: servers expect exit code 1 for
// it.
type notArchived struct{ error }

func (e notArchived) Unwrap() error { return e.error }

// finish prints an error in one line, with its hint in a second, or as an event, and gives the exit
// code. args are the command's arguments.
func finish(err error, asJSON bool, stderr io.Writer, args ...string) int {
	code := codeOf(err)
	if err == nil || errors.As(err, new(changing)) || errors.As(err, new(differ)) {
		return code
	}
	text, hint, stack := address.WithoutSecrets(err.Error(), args), address.WithoutSecrets(tidemark.HintOf(err), args), ""
	if where := panicked(err); where != nil {
		hint, stack = "This is a bug in tidemark: please report it with the lines that follow.", screen.Stack(where)
	}
	if asJSON {
		screen.Event(stderr, struct {
			Event string `json:"event"`
			Kind  string `json:"kind"`
			Code  int    `json:"exit_code"`
			Error string `json:"error"`
			Hint  string `json:"hint,omitempty"`
			Stack string `json:"stack,omitempty"`
		}{"error", tidemark.KindOf(err).String(), code, text, hint, stack})
		return code
	}
	fmt.Fprintf(stderr, "tidemark: %s\n", screen.Line(text))
	if hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n%s", screen.Line(hint), stack)
	}
	return code
}

// codeOf is the exit code of a command's outcome.
func codeOf(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(changing)):
		return exitChanging
	case errors.As(err, new(differ)):
		return exitDiffer
	case panicked(err) != nil:
		return exitCodes[tidemark.Bug]
	case errors.As(err, new(stopsRecovery)):
		return exitStopsRecovery
	case errors.As(err, new(notArchived)):
		return exitDiffer
	}
	return exitCodes[tidemark.KindOf(err)]
}

// jsonKey marks a root whose command prints JSON, for whatever reason.
const jsonKey = "json"

// jsonAsked reports whether a command line asks for JSON, for errors before it is read.
func jsonAsked(args []string) bool {
	asked, _ := option.ParseOnOff(cmp.Or(os.Getenv(option.Variable("json")), "off"))
	for _, arg := range args {
		if arg == "--" {
			break
		}
		if v, is := strings.CutPrefix(arg, "--json"); is && (v == "" || v[0] == '=') {
			on, err := option.ParseOnOff(strings.TrimPrefix(v, "="))
			asked = err == nil && on
		}
	}
	return asked
}

// panicked gives the stack of the goroutine whose panic an error is; nil for other errors.
func panicked(err error) []byte {
	var e *crash.Error
	if errors.As(err, &e) { // also if a worker that waited for it passed it on
		return e.Stack
	}
	var p *flow.PanicError
	if errors.As(err, &p) {
		return p.Stack
	}
	return nil
}
