package escape

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// Escaped text is unescaped, into a separate buffer and in place.
func TestUndo(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v := rapid.SliceOf(rapid.SampledFrom([]byte("\x00\b\t\n\v\f\r\x1a\\ 0bnrtvfZ'é"))).Draw(r, "value")
		for _, l := range []*Letters{&Load, &Copy} {
			escaped := Append(nil, v, l)
			if bytes.ContainsAny(escaped, "\n\t") || !bytes.Equal(Undo(nil, escaped), v) || !bytes.Equal(Undo(escaped[:0], escaped), v) {
				r.Fatalf("%q is %q escaped", v, escaped)
			}
		}
	})
	if got := Undo(nil, []byte(`a\qb\`)); string(got) != `aqb\` {
		t.Errorf("%q", got)
	}
}

// TestLetters: the escapes are those of the servers' manuals.
func TestLetters(t *testing.T) {
	const v = "\x00\b\t\n\v\f\r\x1a\\0"
	for l, want := range map[*Letters]string{&Load: "\\0\\b\\t\\n\v\f\\r\\Z\\\\0", &Copy: "\x00\\b\\t\\n\\v\\f\\r\x1a\\\\0"} {
		if got := string(Append(nil, []byte(v), l)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := string(Undo(nil, []byte(want))); got != v {
			t.Errorf("%q read is %q", want, got)
		}
	}
}
