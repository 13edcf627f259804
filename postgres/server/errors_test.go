package server

import (
	"errors"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
)

func TestOldServerIsUnsupported(t *testing.T) {
	for in, want := range map[string]int{"15.18 (Debian 15.18-0+deb12u1)": 15, "18beta1": 18, "9.6.24": 9, "12.3": 12} {
		if _, major := parseVersion(in); major != want {
			t.Errorf("%s is %d, want %d", in, major, want)
		}
	}
}

// TestErrorsUnwrap: Fail keeps the cause's text in the error chain, and wraps an error only once.
func TestErrorsUnwrap(t *testing.T) {
	e := &Server{Config: &pgx.ConnConfig{}}
	err := e.Fail(t.Context(), "a", "b", errors.New("c"))
	if want := (&tidemark.Error{Op: "a", Object: "b", Kind: tidemark.Unreachable, Hint: e.malformedHint(), Err: &serverError{text: "c"}}); !reflect.DeepEqual(err, want) {
		t.Errorf("%#v", err)
	}
	if again := e.Fail(t.Context(), "x", "y", err); again != err {
		t.Errorf("%v was wrapped again", again)
	}
}

// Of what a server says, only statements of ours that are out of order are our fault.
func TestServersErrorsAreNotOurs(t *testing.T) {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	ours := map[string]bool{"24000": true, "25001": true, "25P01": true, "25P02": true}
	for _, a := range letters {
		for _, b := range letters {
			for _, rest := range []string{"000", "001", "P01", "P02", "00N"} {
				state := string(a) + string(b) + rest
				if kind := KindOfState(state); (kind == tidemark.Bug) != ours[state] {
					t.Errorf("%s is %v", state, kind)
				}
			}
		}
	}
}
