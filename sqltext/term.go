package sqltext

import "strings"

// Terms splits an expression into terms. Words, comments and symbols are as in the text; operators
// have all of their characters, numbers all of their parts (Kind Number), and names and strings are
// values, without their quotes: s[t.At] is the opening character. Text without its closing quote is
// Bad. Blanks are omitted.
func (x Dialect) Terms(s string) []Token {
	tokens := x.Scan(s)
	out := make([]Token, 0, len(tokens))
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch t.Kind {
		case Space:
			continue
		case Name, String:
			if t.After() == len(s) && x.open(t.Text) {
				t.Kind = Bad
			} else if t.Kind == Name {
				t.Text = t.Name()
			} else if q := t.Text[0]; q == '\'' || q == '"' {
				t.Text = Unquote(t.Text, !x.NoBackslash && !x.Postgres)
			}
		case Word, Punct:
			if n := numberLen(tokens[i:]); n > 0 {
				i += n - 1
				t = Token{Number, s[t.At:tokens[i].After()], t.At}
			} else if n := x.operatorLen(s[t.At:]); n > 1 {
				i += n - 1
				t.Text = s[t.At : t.At+n]
			}
		}
		out = append(out, t)
	}
	return out
}

// open reports whether a quoted text lacks its closing quote.
func (x Dialect) open(quoted string) bool {
	_, _, whole := x.Next([]byte(quoted), 0)
	return !whole
}

// numberLen returns the number of tokens in the number at the beginning of tokens: digits, points,
// letters, and a sign after an E.
func numberLen(tokens []Token) int {
	digit := func(t Token) bool { return t.Kind == Word && t.Text[0] >= '0' && t.Text[0] <= '9' }
	if !digit(tokens[0]) && !(tokens[0].Punct('.') && digit(At(tokens, 1))) {
		return 0
	}
	n := 1
	for ; n < len(tokens); n++ {
		before := tokens[n-1].Text
		if t := tokens[n]; t.Kind != Word && !t.Is(".") && !((t.Is("-") || t.Is("+")) && before[len(before)-1]|0x20 == 'e') {
			break
		}
	}
	return n
}

// operatorLen returns the length of the operator at the beginning of s; MySQL's operators are
// several tokens.
func (x Dialect) operatorLen(s string) int {
	if x.Postgres {
		return 1
	}
	for _, op := range []string{"<=>", "<>", "!=", "<=", ">=", "||", "&&", ":=", "->"} {
		if strings.HasPrefix(s, op) {
			return len(op)
		}
	}
	return 1
}
