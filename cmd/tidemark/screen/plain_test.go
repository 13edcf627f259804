package screen

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// evil are texts that do something to a terminal.
var evil = []string{"\x1b[2J", "\x1b]0;title\x07", "\a", "\b\b", "\x7f", "\r", "\u009b31m", "\u0085", "\u202e", "\u2066", "\u2069", "\u200f", "\u061c", "\u2028", "\x9b", "\xff", "\x00", "\U000e0041"}

// Nothing that is written acts on a terminal, however the text is cut; text of any language
// passes, and JSON stays the same JSON.
func TestPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	good := []string{"shop.item", "Größe", "日本語", "العربية", "👍🏽", "\t", "\n", "\r\n", "\\u001b"}
	for range 20_000 {
		var text string
		for range r.IntN(6) {
			if r.IntN(2) == 0 {
				text += evil[r.IntN(len(evil))]
			} else {
				text += good[r.IntN(len(good))]
			}
		}
		text += "."
		doc, _ := json.Marshal(text)
		var out, asJSON bytes.Buffer
		for _, c := range []struct {
			to   *bytes.Buffer
			text []byte
		}{{&out, []byte(text)}, {&asJSON, doc}} {
			w := Plain(c.to)
			for b := c.text; len(b) > 0; {
				n := min(1+r.IntN(4), len(b))
				if _, err := w.Write(b[:n]); err != nil {
					t.Fatal(err)
				}
				b = b[n:]
			}
		}
		for _, c := range strings.ReplaceAll(out.String(), "\r\n", "") {
			if acts(c) || c == utf8.RuneError {
				t.Fatalf("%q is written as %q", text, out.String())
			}
		}
		var back, want string
		if err := json.Unmarshal(asJSON.Bytes(), &back); err != nil || json.Unmarshal(doc, &want) != nil || back != want {
			t.Fatalf("%s is written as %s", doc, asJSON.String())
		}
	}
	for _, text := range good {
		var out bytes.Buffer
		if _, _ = io.WriteString(Plain(&out), text); out.String() != text {
			t.Errorf("%q is written as %q", text, out.String())
		}
	}
}

// Statements are the same when they are pasted, or say that they are not.
func TestSQL(t *testing.T) {
	for _, c := range [][2]string{
		{`CREATE TABLE "a" (b text DEFAULT 'x')`, `CREATE TABLE "a" (b text DEFAULT 'x')`},
		{"CREATE TABLE \"a\x1b\\b\" (b text DEFAULT 'it''s\u202e')", `CREATE TABLE U&"a\001b\\b" (b text DEFAULT U&'it''s\202e')`},
		{"CREATE TABLE \"a\nhint: b\" ()", `CREATE TABLE U&"a\000ahint: b" ()`},
		{"COMMENT ON TABLE a IS E'x\\n\x07\U000e0041'", `COMMENT ON TABLE a IS E'x\n\u0007\U000e0041'`},
		{"COMMENT ON TABLE a IS '\U000e0041'", `COMMENT ON TABLE a IS U&'\+0e0041'`},
		{"CREATE FUNCTION f() AS $$BEGIN\r\nEND\x1b$$", sqlNote + "CREATE FUNCTION f() AS $$BEGIN\r\nEND\\u001b$$"},
		{"UPDATE `t` SET `v`='a\\'\x1b' WHERE `id`=1", "UPDATE `t` SET `v`=_utf8mb4 X'61271b' WHERE `id`=1"},
		{"COMMENT ON TABLE a IS 'x\nhint: y'", `COMMENT ON TABLE a IS U&'x\000ahint: y'`},
		{"CREATE TABLE `a` (`b` int COMMENT 'x\nhint: y')", "CREATE TABLE `a` (`b` int COMMENT 'x\\nhint: y')"},
		{"CREATE TABLE `a\x1b\nhint: b` (`c` int)", sqlNote + "CREATE TABLE `a\\u001b\\nhint: b` (`c` int)"},
	} {
		if got := SQL(c[0]); got != c[1] {
			t.Errorf("%q is shown as\n%s, want\n%s", c[0], got, c[1])
		}
	}
}
