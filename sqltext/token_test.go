package sqltext

import (
	"fmt"
	"strings"
	"testing"
)

// spelled writes out tokens, without blanks.
func spelled(tokens []Token) string {
	var out []string
	for _, t := range tokens {
		if t.Kind != Space {
			out = append(out, fmt.Sprintf("%c%s", " wnsp-[]"[t.Kind], t.Text))
		}
	}
	return strings.Join(out, " ")
}

func TestScan(t *testing.T) {
	my, pg := Dialect{}, Dialect{Postgres: true}
	for _, c := range []struct {
		x        Dialect
		in, want string
	}{
		{my, "a.`b``c`=1.5", "wa p. n`b``c` p= w1 p. w5"},
		{my, `'it''s' "d\"q" 'a\'b'`, `s'it''s' s"d\"q" s'a\'b'`},
		{Dialect{NoBackslash: true}, `'a\' 'b'`, `s'a\' s'b'`},
		{Dialect{AnsiQuotes: true}, `"x""y" "z\" 'w\''`, `n"x""y" n"z\" s'w\''`},
		{my, "_utf8mb4'x' b'01' é$", "w_utf8mb4 s'x' wb s'01' wé$"},
		{my, "a -- b\nc--d #e\n/* f */ g", "wa --- b\n wc p- p- wd -#e\n -/* f */ wg"},
		{my, "/*!80023 INVISIBLE */ /*M!100301 COMPRESSED*/ /*! x */ */", "[/*!80023 wINVISIBLE ]*/ [/*M!100301 wCOMPRESSED ]*/ [/*! wx ]*/ p* p/"},
		{my, "@@a.b", "p@ p@ wa p. wb"},
		{Dialect{Variables: true}, "@@a.b r@h", "w@@a p. wb wr@h"},
		{my, "'open", "s'open"},
		{pg, `'a\' E'b\'' e'' be'c'`, `s'a\' sE'b\'' se'' wbe s'c'`},
		{pg, "$$a'b$$ $x$ $$ $x$ $1 a$b$", "s$$a'b$$ s$x$ $$ $x$ w$1 wa$b$"},
		{pg, `"A""b" U&'c' x::int[]`, `n"A""b" wU p& s'c' wx p:: wint p[ p]`},
		{pg, "a<>-1--b\n/* c /* d */ e */ f /*! g */ #h", "wa p<>- w1 ---b\n -/* c /* d */ e */ wf -/*! g */ p# wh"},
	} {
		if got := spelled(c.x.Scan(c.in)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.in, got, c.want)
		}
	}
}

func TestReader(t *testing.T) {
	const text = "CREATE /*!50001 a */ /*!99999 'b*/ /*M!100301 c */ /*!999999\\- d */ t -- e\n (`x` int /* f */ default\n 'g\\n')"
	for _, c := range []struct {
		server Server
		want   string
	}{
		{Server{}, "CREATE a 'b*/ /*M!100301 c */ /*!999999\\- d */ t -- e\n (`x` int /* f */ default\n '"}, // no real server runs it so
		{Server{Version: 80033}, "CREATE a t (`x` int default 'g\\n')"},
		{Server{MariaDB: true, Version: 101114}, "CREATE a c t (`x` int default 'g\\n')"},
		{Server{MariaDB: true, Version: 100200}, "CREATE a t (`x` int default 'g\\n')"},
	} {
		r := &Reader{Text: []byte(text), Server: c.server}
		if got := r.Squeeze(0, len(text)); !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: got %s, want %s", c.server, got, c.want)
		}
	}
	r := &Reader{Text: []byte(text), Server: Server{Version: 80033}}
	if r.Accept("CREATE", "TABLE") || !r.Accept("create", "A") || !r.Peek().Is("t") {
		t.Error("words are not accepted as they should be")
	}
	if name, ok := r.Ident(r.Next()); name != "t" || !ok || !r.Accept("(") {
		t.Error("the name is", name)
	}
	if name, ok := r.Ident(r.Next()); name != "x" || !ok {
		t.Error("the column is", name)
	}
	r.Accept("INT", "DEFAULT")
	if got := r.Value(r.Peek()); got != "g\n" {
		t.Errorf("the default is %q", got)
	}
	if end, ok := r.Close(); !ok || end != len(text)-1 || r.Next().Kind != End || r.Next().Kind != End {
		t.Error("the group ends at", end)
	}
}

func TestUnquote(t *testing.T) {
	for _, c := range []struct {
		in, escaped, plain string
	}{
		{`'it''s'`, "it's", "it's"}, {`'a\\\n\0\Z\%\_\x'`, "a\\\n\x00\x1a\\%\\_x", `a\\\n\0\Z\%\_\x`}, {`""`, "", ""}, {`"q""r"`, `q"r`, `q"r`}, {"'", "", ""},
	} {
		if got := Unquote(c.in, true); got != c.escaped {
			t.Errorf("%s: got %q, want %q", c.in, got, c.escaped)
		}
		if got := Unquote(c.in, false); got != c.plain {
			t.Errorf("%s without escapes: got %q, want %q", c.in, got, c.plain)
		}
	}
}

// FuzzScan: for any text and dialect, the concatenated tokens are the text, a Reader returns those
// other than blanks and comments, nothing hangs, and a whole token does not depend on what follows
// it.
func FuzzScan(f *testing.F) {
	for i, s := range []string{"/*!80023 INVISIBLE */ 'a''b\\'c' `x``y` -- c\n# d\n\"e\" /* f */ /*M!100301 COMPRESSED*/", "'", "`", "/*", "/*!", "$a$ 'x $a$ E'\\''", "@a=/*!999999 - */1e-5", "<=>--"} {
		f.Add(s, uint8(i))
	}
	f.Fuzz(func(t *testing.T, s string, dialect uint8) {
		x := Dialect{Postgres: dialect&1 > 0, NoBackslash: dialect&2 > 0, AnsiQuotes: dialect&4 > 0, Variables: dialect&8 > 0}
		tokens := x.Scan(s)
		if got := Join(tokens); got != s {
			t.Fatalf("got %q of %q", got, s)
		}
		for _, one := range tokens {
			if s[one.At:one.After()] != one.Text || one.Text == "" {
				t.Fatalf("%v is not in %q", one, s)
			}
			if one.Kind != String && one.Kind != Name || one.After() == len(s) {
				continue
			}
			if kind, end, whole := x.Next([]byte(s), one.At); kind != one.Kind || end != one.After() || !whole {
				t.Fatalf("%v, and alone %v to %d, whole %v", one, kind, end, whole)
			}
		}
		r := &Reader{Text: []byte(s), Dialect: x}
		for n := 0; ; n++ {
			one := r.Next()
			if one.Kind == End {
				break
			}
			if one.Kind == Space || one.Kind == Comment || one.Kind == Open || one.Kind == Close || n > len(s) {
				t.Fatalf("%v of %q", one, s)
			}
		}
		r.Squeeze(0, len(s))
	})
}
