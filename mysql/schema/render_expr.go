package schema

import (
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// A translator translates an expression from PostgreSQL to MySQL. It accepts the small part of the
// language that most checks, defaults and generated columns use, and refuses the rest: nearly the
// same meaning is not the same. The input is an expression as PostgreSQL prints it, so operators
// are bare symbols and casts are written x::type.
type translator struct {
	tokens []pgToken
	at     int
	column func(name string) (*tidemark.Column, string) // the source's column and the target's name
	deep   int                                          // open levels
	err    error
}

// A valueKind is the kind of an expression's value.
type valueKind uint8

const (
	unknownValue valueKind = iota
	textValue
	intValue
	numberValue
	boolValue
	timeValue
)

// A pgToken is a PostgreSQL token: an identifier (lower case, or as quoted), a string's value, a
// number, or a symbol.
type pgToken struct {
	kind byte // 'a' identifier, 'q' quoted identifier, 's' string, 'n' number, 'o' symbol
	text string
}

// translate returns the expression for MySQL and the kind of its value; the error says why it
// cannot be translated.
func translate(expr string, column func(string) (*tidemark.Column, string)) (string, valueKind, error) {
	if len(expr) > tidemark.MaxExpression {
		return "", unknownValue, fmt.Errorf("an expression of %d bytes is not translated", len(expr))
	}
	tokens, err := scanPG(expr)
	if err != nil {
		return "", unknownValue, err
	}
	t := &translator{tokens: tokens, column: column}
	out, k := t.or()
	if t.err == nil && t.at < len(t.tokens) {
		t.fail(t.tokens[t.at].text)
	}
	return out, k, t.err
}

func scanPG(s string) ([]pgToken, error) {
	var out []pgToken
	for _, t := range (sqltext.Dialect{Postgres: true}).Terms(s) {
		switch prefixed := t.After() < len(s) && s[t.After()] == '\''; {
		case t.Kind == sqltext.Bad:
			return nil, fmt.Errorf("an unterminated string is not translated")
		case t.Kind == sqltext.String && s[t.At] != '\'':
			return nil, fmt.Errorf("%c'...' is not translated", s[t.At]) // E'..', $$..$$
		case t.Kind == sqltext.String:
			out = append(out, pgToken{'s', t.Text})
		case t.Kind == sqltext.Name:
			out = append(out, pgToken{'q', t.Text})
		case t.Kind == sqltext.Number:
			out = append(out, pgToken{'n', t.Text})
		case t.Kind == sqltext.Word && prefixed:
			return nil, fmt.Errorf("%s'...' is not translated", t.Text) // B'..', X'..'
		case t.Kind == sqltext.Word:
			out = append(out, pgToken{'a', strings.ToLower(t.Text)})
		default:
			out = append(out, pgToken{'o', t.Text})
		}
	}
	return out, nil
}

func (t *translator) fail(what string) {
	if t.err == nil {
		t.err = fmt.Errorf("%.80s is not translated", what)
	}
}

// enter opens a level of the expression; leave closes it.
func (t *translator) enter() {
	if t.deep++; t.deep > tidemark.MaxNesting {
		t.fail(fmt.Sprintf("an expression of more than %d levels", tidemark.MaxNesting))
	}
}

func (t *translator) leave() { t.deep-- }

// chain counts one more operator in a chain, where each applies to the result of all before it.
func (t *translator) chain(n int) int {
	if n == 10*tidemark.MaxNesting {
		t.fail(fmt.Sprintf("a row of more than %d operators", n))
	}
	return n + 1
}

func (t *translator) peek() pgToken {
	if t.at < len(t.tokens) && t.err == nil {
		return t.tokens[t.at]
	}
	return pgToken{}
}

// word consumes these words in sequence if they come next.
func (t *translator) word(words ...string) bool {
	if t.err != nil {
		return false
	}
	for i, w := range words {
		if t.at+i >= len(t.tokens) || t.tokens[t.at+i] != (pgToken{'a', w}) {
			return false
		}
	}
	t.at += len(words)
	return true
}

func (t *translator) symbol(s string) bool {
	if t.peek() == (pgToken{'o', s}) {
		t.at++
		return true
	}
	return false
}

func (t *translator) expect(s string) {
	if next := t.peek(); next.kind != 0 && next.text != s {
		t.fail(next.text)
	}
	if !t.symbol(s) {
		t.fail("an expression without " + s)
	}
}

func (t *translator) or() (string, valueKind) {
	t.enter()
	defer t.leave()
	out, k := t.and()
	for n := 0; t.word("or"); {
		n = t.chain(n)
		right, _ := t.and()
		out, k = out+" or "+right, boolValue
	}
	return out, k
}

func (t *translator) and() (string, valueKind) {
	out, k := t.not()
	for n := 0; t.word("and"); {
		n = t.chain(n)
		right, _ := t.not()
		out, k = out+" and "+right, boolValue
	}
	return out, k
}

func (t *translator) not() (string, valueKind) {
	if t.word("not") {
		t.enter()
		defer t.leave()
		out, _ := t.not()
		return "not " + out, boolValue
	}
	return t.comparison()
}

// comparison reads expressions with a truth value.
func (t *translator) comparison() (string, valueKind) {
	left, k := t.sum()
	for n := 0; t.err == nil; {
		n = t.chain(n)
		switch next := t.peek(); {
		case t.word("is"):
			not := ""
			if t.word("not") {
				not = "not "
			}
			switch {
			case t.word("null"):
				left += " is " + not + "null"
			case t.word("true"):
				left += " is " + not + "true"
			case t.word("false"):
				left += " is " + not + "false"
			default:
				t.fail("IS " + t.peek().text)
			}
		case next.kind == 'o' && strings.Contains(" = <> != < > <= >= ", " "+next.text+" "):
			t.at++
			left = t.compare(left, next.text)
		case t.symbol("~~"), t.word("like"):
			right, _ := t.sum()
			left += " like " + right
		case t.symbol("!~~"), t.word("not", "like"):
			right, _ := t.sum()
			left += " not like " + right
		case t.word("between"):
			low, _ := t.sum()
			if !t.word("and") {
				t.fail("BETWEEN without AND")
			}
			high, _ := t.sum()
			left += " between " + low + " and " + high
		case t.word("in"):
			t.expect("(")
			left += " in (" + t.list(")") + ")"
		case t.word("not", "in"):
			t.expect("(")
			left += " not in (" + t.list(")") + ")"
		default:
			return left, k
		}
		k = boolValue
	}
	return left, k
}

// compare reads the right side of a comparison: a value, or ANY or ALL of an array.
func (t *translator) compare(left, op string) string {
	if op == "!=" {
		op = "<>"
	}
	switch {
	case op == "=" && t.word("any"):
		return left + " in (" + t.array() + ")"
	case op == "<>" && t.word("all"):
		return left + " not in (" + t.array() + ")"
	}
	right, _ := t.sum()
	return left + " " + op + " " + right
}

// array reads (ARRAY[a, b]), with any casts and parentheses around it.
func (t *translator) array() string {
	open := 0
	for t.symbol("(") {
		open++
	}
	if !t.word("array") {
		t.fail("ANY of a value that is not an array")
	}
	t.expect("[")
	out := t.list("]")
	for t.err == nil && open > 0 {
		if t.symbol("::") {
			t.typeName()
			continue
		}
		t.expect(")")
		open--
	}
	return out
}

// list reads expressions up to the closing symbol.
func (t *translator) list(end string) string {
	var out []string
	for t.err == nil && !t.symbol(end) {
		one, _ := t.or()
		out = append(out, one)
		if !t.symbol(",") {
			t.expect(end)
			break
		}
	}
	return strings.Join(out, ", ")
}

func (t *translator) sum() (string, valueKind) {
	left, k := t.product()
	for n := 0; t.err == nil; {
		n = t.chain(n)
		switch {
		case t.symbol("||"):
			right, rk := t.product()
			if k != textValue && rk != textValue {
				t.fail("|| of values that are not text")
			}
			left, k = "concat("+left+", "+right+")", textValue
		case t.peek() == pgToken{'o', "+"}, t.peek() == pgToken{'o', "-"}:
			op := t.peek().text
			t.at++
			right, rk := t.product()
			k = arithmetic(k, rk)
			if k == unknownValue {
				t.fail(op + " of what are not numbers")
			}
			left += " " + op + " " + right
		default:
			return left, k
		}
	}
	return left, k
}

// arithmetic returns the kind of an arithmetic result; unknown if the operands allow none.
func arithmetic(a, b valueKind) valueKind {
	switch {
	case a == intValue && b == intValue:
		return intValue
	case (a == intValue || a == numberValue) && (b == intValue || b == numberValue):
		return numberValue
	}
	return unknownValue
}

func (t *translator) product() (string, valueKind) {
	left, k := t.unary()
	for n := 0; t.err == nil; {
		n = t.chain(n)
		next := t.peek()
		if next.kind != 'o' || next.text != "*" && next.text != "/" && next.text != "%" {
			break
		}
		t.at++
		right, rk := t.unary()
		op := next.text
		both := k == intValue && rk == intValue
		if k = arithmetic(k, rk); k == unknownValue {
			t.fail(op + " of what are not numbers")
		}
		if op == "/" && both {
			op = "div" // truncates, as PostgreSQL does
		}
		left += " " + op + " " + right
	}
	return left, k
}

func (t *translator) unary() (string, valueKind) {
	if t.symbol("-") {
		t.enter()
		defer t.leave()
		out, k := t.unary()
		return "-" + out, k
	}
	out, k, bare := t.primary()
	for t.err == nil && t.symbol("::") {
		out, k = t.cast(out, k, bare, t.typeName())
		bare = ""
	}
	return out, k
}

// typeName reads the name of a type, without the precision.
func (t *translator) typeName() string {
	var words []string
	for t.peek().kind == 'a' || t.peek().kind == 'q' || t.peek().text == "." {
		switch w := t.peek().text; {
		case len(words) > 0 && (w == "and" || w == "or" || w == "is" || w == "in" || w == "not" || w == "like" || w == "between" || w == "then" || w == "else" || w == "when" || w == "end"):
			return strings.Join(words, " ")
		case w != ".":
			words = append(words, w)
		}
		t.at++
	}
	if t.symbol("(") {
		for t.err == nil && !t.symbol(")") {
			t.at++
			if t.at > len(t.tokens) {
				t.fail("an unterminated type")
			}
		}
		for t.peek().kind == 'a' && (t.peek().text == "with" || t.peek().text == "without" || t.peek().text == "time" || t.peek().text == "zone") {
			words = append(words, t.peek().text)
			t.at++
		}
	}
	name := strings.Join(words, " ")
	if t.symbol("[") {
		t.expect("]")
		name += "[]"
	}
	return name
}

// cast translates x::type. bare is the value of x if that is a string constant.
func (t *translator) cast(x string, k valueKind, bare string, name string) (string, valueKind) {
	constant := strings.HasPrefix(x, "'")
	switch name {
	case "text", "character varying", "varchar", "character", "bpchar", "name", "citext":
		switch k {
		case textValue:
			return x, textValue
		case intValue:
			return "cast(" + x + " as char)", textValue
		}
	case "integer", "int", "bigint", "smallint", "int4", "int8", "int2", "numeric", "decimal", "double precision", "real":
		result := numberValue
		if strings.Contains(name, "int") {
			result = intValue
		}
		switch {
		case constant && plainNumber.MatchString(bare):
			return bare, result
		case k == intValue, k == numberValue && result == numberValue && (name == "numeric" || name == "decimal"):
			return x, result
		}
	case "boolean", "bool":
		switch {
		case constant && (bare == "t" || bare == "true"):
			return "true", boolValue
		case constant && (bare == "f" || bare == "false"):
			return "false", boolValue
		case k == boolValue:
			return x, k
		}
	case "date":
		if constant && len(bare) == 10 {
			return "date " + x, timeValue
		}
	case "timestamp without time zone", "timestamp":
		if constant && len(bare) >= 19 && bare[0] >= '0' && bare[0] <= '9' && !strings.ContainsAny(bare[10:], "+-BC") {
			return "timestamp " + x, timeValue
		}
	default:
		if constant && !strings.HasSuffix(name, "[]") && !builtin[name] {
			return x, textValue // a label of an enum
		}
	}
	t.fail("::" + name)
	return x, k
}

// builtin are types whose constants are more than text.
var builtin = map[string]bool{"json": true, "jsonb": true, "bytea": true, "interval": true, "inet": true, "cidr": true, "point": true, "uuid": true,
	"timestamp with time zone": true, "timestamptz": true, "time": true, "time without time zone": true, "money": true, "xml": true, "bit": true, "regclass": true}

// primary reads a constant, a column, a call or something in parentheses; bare is the value if it
// is a string constant.
func (t *translator) primary() (out string, k valueKind, bare string) {
	next := t.peek()
	t.at++
	switch next.kind {
	case 's':
		return server.Literal(next.text), textValue, next.text
	case 'n':
		if strings.ContainsAny(next.text, ".eE") {
			return next.text, numberValue, ""
		}
		return next.text, intValue, ""
	case 'q':
		return t.name(next.text)
	case 'o':
		if next.text == "(" {
			inner, k := t.or()
			t.expect(")")
			return "(" + inner + ")", k, ""
		}
	case 'a':
		switch next.text {
		case "true", "false":
			return next.text, boolValue, ""
		case "null":
			return "null", unknownValue, ""
		case "case":
			return t.caseWhen()
		}
		if t.peek() == (pgToken{'o', "("}) {
			t.at++
			return t.call(next.text)
		}
		return t.name(next.text)
	}
	if next.text == "" {
		next.text = "an expression that ends early"
	}
	t.fail(next.text)
	return "", unknownValue, ""
}

func (t *translator) name(name string) (string, valueKind, string) {
	c, to := t.column(name)
	if c == nil || to == "" {
		t.fail("column " + name)
		return "", unknownValue, ""
	}
	return server.Quote(to), valueOf(&c.Type), ""
}

func valueOf(t *tidemark.Type) valueKind {
	switch t.Kind {
	case tidemark.Bool:
		return boolValue
	case tidemark.Int:
		return intValue
	case tidemark.Decimal, tidemark.Float:
		return numberValue
	case tidemark.Char, tidemark.Varchar, tidemark.Text, tidemark.Enum:
		return textValue
	case tidemark.Date, tidemark.DateTime, tidemark.Timestamp, tidemark.Time:
		return timeValue
	}
	return unknownValue
}

func (t *translator) caseWhen() (string, valueKind, string) {
	out, k := "case", unknownValue
	for t.err == nil && t.word("when") {
		cond, _ := t.or()
		if !t.word("then") {
			t.fail("CASE without THEN")
		}
		var value string
		value, k = t.or()
		out += " when " + cond + " then " + value
	}
	if t.word("else") {
		value, _ := t.or()
		out += " else " + value
	}
	if !t.word("end") || out == "case" {
		t.fail("this CASE")
	}
	return out + " end", k, ""
}

// calls are the PostgreSQL functions with an equivalent here for arguments of this kind: argument
// kind, name here, result kind.
var calls = map[string]struct {
	takes valueKind // unknown: anything
	here  string
	gives valueKind // unknown: that of the first argument
}{
	"lower": {textValue, "lower", textValue}, "upper": {textValue, "upper", textValue},
	"length": {textValue, "char_length", intValue}, "char_length": {textValue, "char_length", intValue},
	"character_length": {textValue, "char_length", intValue}, "octet_length": {textValue, "length", intValue},
	"btrim": {textValue, "trim", textValue}, "ltrim": {textValue, "ltrim", textValue}, "rtrim": {textValue, "rtrim", textValue},
	"replace": {textValue, "replace", textValue}, "md5": {textValue, "md5", textValue}, "reverse": {textValue, "reverse", textValue},
	"abs": {unknownValue, "abs", unknownValue}, "ceil": {unknownValue, "ceiling", numberValue}, "ceiling": {unknownValue, "ceiling", numberValue},
	"floor": {unknownValue, "floor", numberValue}, "sqrt": {unknownValue, "sqrt", numberValue}, "power": {unknownValue, "power", numberValue},
	"mod": {unknownValue, "mod", unknownValue}, "coalesce": {unknownValue, "coalesce", unknownValue}, "nullif": {unknownValue, "nullif", unknownValue},
}

func (t *translator) call(name string) (string, valueKind, string) {
	f, ok := calls[name]
	if !ok {
		t.fail(name + "()")
		return "", unknownValue, ""
	}
	var args []string
	first := unknownValue
	for t.err == nil && !t.symbol(")") {
		arg, k := t.or()
		if len(args) == 0 {
			first = k
		}
		args = append(args, arg)
		if !t.symbol(",") {
			t.expect(")")
			break
		}
	}
	if f.takes == textValue && first != textValue || strings.HasSuffix(f.here, "trim") && len(args) != 1 {
		t.fail(name + "() of such arguments")
	}
	k := f.gives
	if k == unknownValue {
		k = first
	}
	return f.here + "(" + strings.Join(args, ", ") + ")", k, ""
}
