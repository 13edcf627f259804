package postgres

import (
	"testing"
)

// open opens an Engine that is closed when the test ends.
func open(t testing.TB, url string) *Engine {
	t.Helper()
	e, err := Open(t.Context(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}
