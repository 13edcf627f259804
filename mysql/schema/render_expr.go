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
	maria  bool
	column func(name string) (*tidemark.Column, string) // the source's column and the target's name
	deep   int                                          // open levels
	err    error
}

// A valueKind is the kind of an expression's value on PostgreSQL.
type valueKind uint8

const (
	unknownValue valueKind = iota
	textValue
	charValue // padded with blanks
	intValue
	numberValue // numeric
	floatValue
	realValue  // of 32 bits, with which MySQL computes more exactly
	boolValue  // a column, or a choice of one
	truthValue // what is compared, or combined of conditions
	dateValue
	momentValue // a date and a time
	zonedValue
	clockValue
)

func (k valueKind) text() bool    { return k == textValue || k == charValue }
func (k valueKind) decides() bool { return k == boolValue || k == truthValue }

// written reports whether MySQL makes the same text of it.
func (k valueKind) written() bool { return k.text() || k == intValue }

// number reports whether MySQL computes with it as PostgreSQL does.
func (k valueKind) number() bool { return k == intValue || k == numberValue || k == floatValue }

// either returns the kind of a value that is of one kind or the other.
func either(a, b valueKind) valueKind {
	switch {
	case a == unknownValue || a.number() && b.number() && b > a || a == truthValue && b.decides() || a == dateValue && b == momentValue:
		return b
	case b == realValue:
		return b
	}
	return a
}

// A pgToken is a PostgreSQL token: an identifier (lower case, or as quoted), a string's value, a
// number, or a symbol.
type pgToken struct {
	kind byte // 'a' identifier, 'q' quoted identifier, 's' string, 'n' number, 'o' symbol
	text string
}

// translate returns the expression for MySQL, of a column of type as unless that is nil, and the
// kind of its value; the error says why it cannot be translated.
func translate(expr string, maria bool, as *tidemark.Type, column func(string) (*tidemark.Column, string)) (string, valueKind, error) {
	if len(expr) > tidemark.MaxExpression {
		return "", unknownValue, fmt.Errorf("an expression of %d bytes is not translated", len(expr))
	}
	tokens, err := scanPG(expr)
	if err != nil {
		return "", unknownValue, err
	}
	t := &translator{tokens: tokens, maria: maria, column: column}
	out, k := t.or()
	if t.err == nil && t.at < len(t.tokens) {
		t.fail(t.tokens[t.at].text)
	}
	if as != nil && t.err == nil {
		out, t.err = t.into(as, out, k)
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
		out, k = out+" or "+right, truthValue
	}
	return out, k
}

func (t *translator) and() (string, valueKind) {
	out, k := t.not()
	for n := 0; t.word("and"); {
		n = t.chain(n)
		right, _ := t.not()
		out, k = out+" and "+right, truthValue
	}
	return out, k
}

func (t *translator) not() (string, valueKind) {
	if t.word("not") {
		t.enter()
		defer t.leave()
		out, _ := t.not()
		return "not " + out, truthValue
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
		k = truthValue
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
			t.typeName() // of constants
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
			if !k.text() && !rk.text() || !k.written() || !rk.written() {
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
	if !a.number() || !b.number() {
		return unknownValue
	}
	return max(a, b)
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
		switch {
		case op == "/" && both:
			op = "div" // truncates, as PostgreSQL does
		case op == "/" && k == numberValue:
			left = "cast(" + left + " as decimal(60,20))" // or the result would have four digits more than left
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
		name, size := t.typeName()
		out, k = t.cast(out, k, bare, name, size)
		bare = ""
	}
	return out, k
}

// typeName reads the name of a type, and its length or precision.
func (t *translator) typeName() (name, size string) {
	var words []string
	for t.peek().kind == 'a' || t.peek().kind == 'q' || t.peek().text == "." {
		switch w := t.peek().text; {
		case len(words) > 0 && (w == "and" || w == "or" || w == "is" || w == "in" || w == "not" || w == "like" || w == "between" || w == "then" || w == "else" || w == "when" || w == "end"):
			return strings.Join(words, " "), ""
		case w != ".":
			words = append(words, w)
		}
		t.at++
	}
	if t.symbol("(") {
		for t.err == nil && !t.symbol(")") {
			size += t.peek().text
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
	name = strings.Join(words, " ")
	if t.symbol("[") {
		t.expect("]")
		name += "[]"
	}
	return name, size
}

// cast translates x::type(size). bare is the value of x if that is a string constant.
func (t *translator) cast(x string, k valueKind, bare, name, size string) (string, valueKind) {
	constant := strings.HasPrefix(x, "'")
	switch name {
	case "text", "character varying", "varchar", "character", "bpchar", "name", "citext":
		if k == intValue {
			x, k = "cast("+x+" as char)", textValue
		}
		switch {
		case !k.text():
		case size == "":
			return x, textValue
		case name == "character varying" || name == "varchar":
			return "left(" + x + ", " + size + ")", textValue
		}
	case "integer", "int", "bigint", "smallint", "int4", "int8", "int2", "numeric", "decimal", "double precision", "real":
		result := map[string]valueKind{"numeric": numberValue, "decimal": numberValue, "double precision": floatValue, "real": realValue}[name]
		if strings.Contains(name, "int") {
			result = intValue
		}
		switch {
		case constant && plainNumber.MatchString(bare) && size == "" && (result != intValue || !strings.Contains(bare, ".")):
			return bare, result
		case k == realValue && result == floatValue:
			return x, result
		case !k.number() || result == realValue || k == floatValue && result != floatValue:
		case result == numberValue && size != "":
			want := tidemark.Type{Kind: tidemark.Decimal}
			fmt.Sscanf(size, "%d,%d", &want.Precision, &want.Scale)
			if precision, scale := digits(&want); smallDecimal(&want) && precision == want.Precision {
				return fmt.Sprintf("cast(%s as decimal(%d,%d))", x, precision, scale), result
			}
		case k <= result:
			return x, result
		case k == numberValue:
			return "cast(" + x + " as signed)", result
		}
	case "boolean", "bool":
		switch {
		case constant && (bare == "t" || bare == "true"):
			return "true", boolValue
		case constant && (bare == "f" || bare == "false"):
			return "false", boolValue
		case k.decides():
			return x, k
		}
	case "date":
		switch {
		case constant && len(bare) == 10:
			return "date " + x, dateValue
		case k == dateValue || k == momentValue:
			return "date(" + x + ")", dateValue
		}
	case "timestamp without time zone", "timestamp":
		if constant && len(bare) >= 19 && bare[0] >= '0' && bare[0] <= '9' && !strings.ContainsAny(bare[10:], "+-BC") && size == "" {
			return "timestamp " + x, momentValue
		}
	default:
		if constant && size == "" && !strings.HasSuffix(name, "[]") && !builtin[name] {
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
	k := valueOf(&c.Type)
	if k == charValue && t.maria {
		return "rtrim(" + server.Quote(to) + ")", k, "" // MariaDB asks for it, since a setting keeps blanks
	}
	return server.Quote(to), k, ""
}

func valueOf(t *tidemark.Type) valueKind {
	switch t.Kind {
	case tidemark.Bool:
		return boolValue
	case tidemark.Int:
		return intValue
	case tidemark.Decimal:
		return numberValue
	case tidemark.Float:
		if t.Bits == 32 {
			return realValue
		}
		return floatValue
	case tidemark.Char:
		return charValue
	case tidemark.Varchar, tidemark.Text, tidemark.Enum:
		return textValue
	case tidemark.Date:
		return dateValue
	case tidemark.DateTime:
		return momentValue
	case tidemark.Timestamp:
		return zonedValue
	case tidemark.Time:
		return clockValue
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
		value, branch := t.or()
		k = either(k, branch)
		out += " when " + cond + " then " + value
	}
	if t.word("else") {
		value, branch := t.or()
		k = either(k, branch)
		out += " else " + value
	}
	if k == truthValue {
		k = boolValue
	}
	if !t.word("end") || out == "case" {
		t.fail("this CASE")
	}
	return out + " end", k, ""
}
