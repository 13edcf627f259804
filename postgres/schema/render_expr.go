package schema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// An expr translates an expression from MySQL's SQL to PostgreSQL's, as long as it uses only what
// means the same in both: comparisons, arithmetic without division (in MySQL the division of
// integers returns a fraction), logic, CASE, and the functions of exprFunctions. Anything else is
// an error, and so is an operation on a class of values that PostgreSQL would not accept, because
// the statement that contains the expression must not fail.
type expr struct {
	in      string
	escaped bool // its quotes were escaped with backslashes
	terms   []sqltext.Token
	at      int    // index of the next term
	tok     string // the current token; "" at the end
	kind    byte   // of tok: w word, i quoted identifier, n number, s string (unquoted), o operator, 0 end
	column  func(name string) (exprClass, bool)
	deep    int // open levels of nesting
	err     error

	compared bool     // text is compared
	columns  []string // read, as the expression names them
}

// An exprClass describes what a value can be used for.
type exprClass uint8

const (
	anyClass exprClass = iota // NULL
	numberClass
	textClass
	boolClass
	dateClass
	otherClass
)

func classOfType(t *tidemark.Type, bools bool) exprClass {
	switch t.Kind {
	case tidemark.Int, tidemark.Decimal, tidemark.Float, tidemark.Year:
		if bools && t.Width1 {
			return boolClass
		}
		return numberClass
	case tidemark.Char, tidemark.Varchar, tidemark.Text, tidemark.Set:
		return textClass
	case tidemark.Bool:
		return boolClass
	case tidemark.Date, tidemark.DateTime, tidemark.Timestamp:
		return dateClass
	}
	return otherClass
}

// newExpr prepares the expression in of this engine. column returns the class of a column; nil
// allows no columns.
func newExpr(in, engine string, column func(string) (exprClass, bool)) *expr {
	p := &expr{in: in, column: column}
	if engine != "mysql" && engine != "mariadb" && engine != "file" {
		p.err = errors.New("SQL of another engine")
	}
	if column == nil {
		p.column = func(string) (exprClass, bool) { return anyClass, false }
	}
	return p
}

// parse returns the expression in PostgreSQL's SQL, and its class.
func (p *expr) parse() (string, exprClass, error) {
	if len(p.in) > tidemark.MaxExpression {
		p.fail("an expression of %d bytes has no counterpart", len(p.in))
	}
	// information_schema escapes the quotes of strings with a backslash (MySQL 8).
	if p.escaped = strings.Contains(p.in, `\'`) && strings.Count(p.in, `\'`) == strings.Count(p.in, "'"); p.escaped {
		p.in = strings.ReplaceAll(p.in, `\'`, "'")
	}
	if p.err == nil {
		p.terms = sqltext.Dialect{NoBackslash: true}.Terms(p.in)
	}
	p.next()
	sql, c := p.or()
	if p.err == nil && p.kind != 0 {
		p.fail("%q has no counterpart", p.tok)
	}
	return sql, c, p.err
}

func (p *expr) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%.200s", fmt.Sprintf(format, args...))
	}
	p.kind, p.tok, p.at = 0, "", len(p.terms)
}

// enter opens a level of the expression; leave closes it.
func (p *expr) enter() {
	if p.deep++; p.deep > tidemark.MaxNesting {
		p.fail("an expression of more than %d levels has no counterpart", tidemark.MaxNesting)
	}
}

func (p *expr) leave() { p.deep-- }

// chain counts one more operator in a sequence of them, each of which encloses what precedes it in
// parentheses.
func (p *expr) chain(n int) int {
	if n == 10*tidemark.MaxNesting {
		p.fail("%d operators in a row have no counterpart", n)
	}
	return n + 1
}

// next reads a token.
func (p *expr) next() {
	p.kind, p.tok = 0, ""
	if p.at >= len(p.terms) {
		return
	}
	t := p.terms[p.at]
	p.at++
	p.tok = t.Text
	switch raw := p.in[t.At:]; t.Kind {
	case sqltext.Number:
		p.kind = 'n'
		if p.escaped {
			raw = strings.ReplaceAll(raw, "'", `\'`)
		}
		if strings.Trim(t.Text, "0123456789.") != "" {
			p.fail("%q has no counterpart", raw)
		}
	case sqltext.Word:
		p.kind = 'w'
		if after := t.After(); t.Text[0] == '_' && after < len(p.in) && p.in[after] == '\'' {
			p.next() // skips a character set before a string
		}
	case sqltext.Name:
		p.kind = 'i'
	case sqltext.String, sqltext.Bad:
		p.kind = 's'
		if raw[0] != '`' && strings.Contains(t.Text, `\`) {
			p.fail("a backslash in a string has no safe counterpart")
		} else if t.Kind == sqltext.Bad {
			p.fail("a string does not end")
		}
	default:
		p.kind = 'o'
	}
}

func (p *expr) word(w string) bool {
	if p.kind == 'w' && strings.EqualFold(p.tok, w) {
		p.next()
		return true
	}
	return false
}

func (p *expr) op(o string) bool {
	if p.kind == 'o' && p.tok == o {
		p.next()
		return true
	}
	return false
}

func (p *expr) expect(o string) {
	if p.op(o) {
		return
	}
	if p.kind != 0 {
		p.fail("%q has no counterpart", p.tok)
	}
	p.fail("%q is missing", o)
}

// asBool turns a value into a condition: MySQL treats any number but 0 as true.
func asBool(sql string, c exprClass) (string, error) {
	switch c {
	case boolClass, anyClass:
		return sql, nil
	case numberClass:
		return "(" + sql + " <> 0)", nil
	}
	return "", errors.New("a value is used as a condition")
}

func (p *expr) condition(sql string, c exprClass) string {
	out, err := asBool(sql, c)
	if err != nil {
		p.fail("%v", err)
	}
	return out
}

func (p *expr) or() (string, exprClass) {
	p.enter()
	defer p.leave()
	a, c := p.and()
	for n := 0; p.word("or"); {
		n = p.chain(n)
		b, d := p.and()
		a, c = p.condition(a, c)+" OR "+p.condition(b, d), boolClass
		a = "(" + a + ")"
	}
	return a, c
}

func (p *expr) and() (string, exprClass) {
	a, c := p.not()
	for n := 0; p.word("and") || p.op("&&"); {
		n = p.chain(n)
		b, d := p.not()
		a, c = p.condition(a, c)+" AND "+p.condition(b, d), boolClass
		a = "(" + a + ")"
	}
	return a, c
}

func (p *expr) not() (string, exprClass) {
	if p.word("not") || p.op("!") {
		p.enter()
		defer p.leave()
		a, c := p.not()
		return "(NOT " + p.condition(a, c) + ")", boolClass
	}
	return p.comparison()
}

func (p *expr) comparison() (string, exprClass) {
	a, c := p.sum()
	for {
		switch {
		case p.kind == 'o' && strings.Contains(" = <> != < <= > >= ", " "+p.tok+" "):
			op := p.tok
			if op == "!=" {
				op = "<>"
			}
			p.next()
			b, d := p.sum()
			p.compare(c, d)
			a, c = "("+a+" "+op+" "+b+")", boolClass
		case p.word("is"):
			not := ""
			if p.word("not") {
				not = "NOT "
			}
			if !p.word("null") {
				p.fail("IS %s has no counterpart", p.tok)
			}
			a, c = "("+a+" IS "+not+"NULL)", boolClass
		default:
			b, ok := p.range_(a, c)
			if !ok {
				return a, c
			}
			a, c = b, boolClass
		}
	}
}

// range_ reads [NOT] IN, BETWEEN and LIKE.
func (p *expr) range_(a string, c exprClass) (string, bool) {
	not := ""
	if p.word("not") {
		not = "NOT "
	}
	switch {
	case p.word("in"):
		p.expect("(")
		p.compare(c, c)
		return "(" + a + " " + not + "IN (" + strings.Join(p.list(c), ", ") + "))", true
	case p.word("between"):
		low, d := p.sum()
		if !p.word("and") {
			p.fail("AND is missing")
		}
		high, e := p.sum()
		p.compare(c, d)
		p.compare(c, e)
		return "(" + a + " " + not + "BETWEEN " + low + " AND " + high + ")", true
	case p.word("like"):
		b, d := p.sum()
		if c != textClass || d != textClass {
			p.fail("LIKE compares something other than text")
		}
		p.compare(c, d)
		return "(" + a + " " + not + "LIKE " + b + ")", true
	case not != "":
		p.fail("NOT %s has no counterpart", p.tok)
	}
	return "", false
}

// list reads expressions up to the closing parenthesis; their class must match c.
func (p *expr) list(c exprClass) []string {
	var out []string
	for p.err == nil {
		s, d := p.or()
		p.alike(c, d)
		out = append(out, s)
		if p.op(")") {
			return out
		}
		p.expect(",")
	}
	return out
}

// compare is alike for values that are compared.
func (p *expr) compare(a, b exprClass) {
	p.alike(a, b)
	p.compared = p.compared || a == textClass && b != dateClass || b == textClass && a != dateClass
}

func (p *expr) alike(a, b exprClass) {
	if a != b && a != anyClass && b != anyClass && !(a == dateClass && b == textClass) && !(a == textClass && b == dateClass) {
		p.fail("values of different kinds are compared")
	}
	if a == otherClass && b == otherClass {
		p.fail("values that cannot be compared are compared")
	}
}

func (p *expr) sum() (string, exprClass) {
	a, c := p.product()
	for n := 0; p.kind == 'o' && (p.tok == "+" || p.tok == "-"); {
		op := p.tok
		n = p.chain(n)
		p.next()
		b, d := p.product()
		p.numbers(c, d)
		a, c = "("+a+" "+op+" "+b+")", numberClass
	}
	return a, c
}

func (p *expr) product() (string, exprClass) {
	a, c := p.unary()
	for n := 0; p.kind == 'o' && (p.tok == "*" || p.tok == "%"); {
		op := p.tok
		n = p.chain(n)
		p.next()
		b, d := p.unary()
		p.numbers(c, d)
		a, c = "("+a+" "+op+" "+b+")", numberClass
	}
	return a, c
}

func (p *expr) numbers(a, b exprClass) {
	if a != numberClass && a != anyClass || b != numberClass && b != anyClass {
		p.fail("arithmetic with other than numbers")
	}
}

func (p *expr) unary() (string, exprClass) {
	if p.op("-") {
		p.enter()
		defer p.leave()
		a, c := p.unary()
		p.numbers(c, numberClass)
		return "(- " + a + ")", numberClass
	}
	return p.primary()
}

func (p *expr) primary() (string, exprClass) {
	tok := p.tok
	switch p.kind {
	case 'n':
		p.next()
		return tok, numberClass
	case 's':
		p.next()
		return server.QuoteLiteral(tok), textClass
	case 'i':
		p.next()
		return p.columnNamed(tok)
	case 'o':
		if p.op("(") {
			a, c := p.or()
			p.expect(")")
			return a, c
		}
	case 'w':
		p.next()
		switch word := strings.ToLower(tok); {
		case word == "null":
			return "NULL", anyClass
		case word == "true" || word == "false":
			return word, boolClass
		case word == "case":
			return p.caseWhen()
		case p.op("("):
			return p.call(word)
		}
		return p.columnNamed(tok)
	}
	p.fail("%q has no counterpart", tok)
	return "", anyClass
}

func (p *expr) columnNamed(name string) (string, exprClass) {
	c, ok := p.column(name)
	if !ok {
		p.fail("%q is not a column that is copied", name)
	}
	p.columns = append(p.columns, name)
	return server.QuoteIdent(name), c
}

func (p *expr) caseWhen() (string, exprClass) {
	var b strings.Builder
	b.WriteString("CASE")
	result := anyClass
	arm := func(c exprClass) {
		if result == anyClass {
			result = c
		} else if c != anyClass && c != result {
			p.fail("the branches of CASE have different types")
		}
	}
	if p.kind == 'w' && !strings.EqualFold(p.tok, "when") {
		p.fail("CASE with a value has no safe counterpart")
	}
	for p.word("when") {
		cond := p.condition(p.or())
		if !p.word("then") {
			p.fail("THEN is missing")
		}
		v, c := p.or()
		arm(c)
		b.WriteString(" WHEN " + cond + " THEN " + v)
	}
	if p.word("else") {
		v, c := p.or()
		arm(c)
		b.WriteString(" ELSE " + v)
	}
	if !p.word("end") {
		p.fail("END is missing")
	}
	return b.String() + " END", result
}

// An exprFunction is a function of both engines: its classes of arguments (the last repeats), its
// result's class, and how it is written, with the arguments joined by sep.
type exprFunction struct {
	args   []exprClass
	most   int
	result exprClass
	open   string
	sep    string
	close  string
}

var exprFunctions = map[string]exprFunction{
	"abs":              {[]exprClass{numberClass}, 1, numberClass, "abs(", ", ", ")"},
	"ceil":             {[]exprClass{numberClass}, 1, numberClass, "ceil(", ", ", ")"},
	"ceiling":          {[]exprClass{numberClass}, 1, numberClass, "ceil(", ", ", ")"},
	"floor":            {[]exprClass{numberClass}, 1, numberClass, "floor(", ", ", ")"},
	"mod":              {[]exprClass{numberClass}, 2, numberClass, "(", " % ", ")"},
	"char_length":      {[]exprClass{textClass}, 1, numberClass, "char_length(", ", ", ")"},
	"character_length": {[]exprClass{textClass}, 1, numberClass, "char_length(", ", ", ")"},
	"length":           {[]exprClass{textClass}, 1, numberClass, "octet_length(", ", ", ")"},
	"octet_length":     {[]exprClass{textClass}, 1, numberClass, "octet_length(", ", ", ")"},
	"lower":            {[]exprClass{textClass}, 1, textClass, "lower(", ", ", ")"},
	"lcase":            {[]exprClass{textClass}, 1, textClass, "lower(", ", ", ")"},
	"upper":            {[]exprClass{textClass}, 1, textClass, "upper(", ", ", ")"},
	"ucase":            {[]exprClass{textClass}, 1, textClass, "upper(", ", ", ")"},
	"trim":             {[]exprClass{textClass}, 1, textClass, "btrim(", ", ", ")"},
	"ltrim":            {[]exprClass{textClass}, 1, textClass, "ltrim(", ", ", ")"},
	"rtrim":            {[]exprClass{textClass}, 1, textClass, "rtrim(", ", ", ")"},
	"concat":           {[]exprClass{textClass}, 100, textClass, "(", " || ", ")"},
	"reverse":          {[]exprClass{textClass}, 1, textClass, "reverse(", ", ", ")"},
	"coalesce":         {nil, 100, anyClass, "COALESCE(", ", ", ")"},
	"ifnull":           {nil, 2, anyClass, "COALESCE(", ", ", ")"},
	"nullif":           {nil, 2, anyClass, "NULLIF(", ", ", ")"},
}

// call reads the arguments of a function after its opening parenthesis.
func (p *expr) call(name string) (string, exprClass) {
	f, ok := exprFunctions[name]
	if !ok {
		p.fail("function %s has no counterpart", name)
		return "", anyClass
	}
	var args []string
	result := f.result
	for p.err == nil && !p.op(")") {
		if len(args) > 0 {
			p.expect(",")
		}
		s, c := p.or()
		switch {
		case f.args == nil && result == anyClass:
			result = c
		case f.args == nil:
			p.alike(result, c)
		case c != anyClass && c != f.args[min(len(args), len(f.args)-1)]:
			p.fail("function %s of another kind of value", name)
		}
		args = append(args, s)
	}
	if name == "nullif" {
		p.compare(result, result)
	}
	if p.err == nil && (len(args) == 0 || len(args) > f.most) {
		p.fail("function %s with %d arguments has no counterpart", name, len(args))
	}
	return f.open + strings.Join(args, f.sep) + f.close, result
}
