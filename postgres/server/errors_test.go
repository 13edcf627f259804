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
