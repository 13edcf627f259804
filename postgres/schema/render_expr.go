package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// An expr translates an expression from MySQL's SQL to PostgreSQL's, as long as it uses only what
// means the same in both: comparisons, arithmetic without division (in MySQL the division of
// integers returns a fraction), logic, CASE, and the functions of exprFunctions. Anything else is
// an error, and so is an operation on a class of values that PostgreSQL would not accept, or would
// not call immutable, because the statement that contains the expression must not fail.
type expr struct {
	in      string
	engine  string
	escaped bool // its quotes were escaped with backslashes
	terms   []sqltext.Token
	at      int    // index of the next term
	tok     string // the current token; "" at the end
	kind    byte   // of tok: w word, i quoted identifier, n number, s string (unquoted), o operator, 0 end
	column  func(name string) (value, error)
	folds   bool // it is of a generated column
	deep    int  // open levels of nesting
	err     error

	compared bool     // text is compared
	spelled  bool     // with a text that is not empty
	columns  []string // read, as the expression names them
}

// newExpr prepares the expression in of this engine. column returns a column's value; nil allows no
// columns.
func newExpr(in, engine string, column func(string) (value, error)) *expr {
	p := &expr{in: in, engine: engine, column: column}
	if engine != "mysql" && engine != "mariadb" && engine != "file" {
		p.err = errors.New("SQL of another engine")
	}
	if column == nil {
		p.column = func(name string) (value, error) { return value{}, errNoColumn(name) }
	}
	return p
}

func errNoColumn(name string) error { return fmt.Errorf("%q is not a column that is copied", name) }

// parse returns the expression in PostgreSQL's SQL.
func (p *expr) parse() (value, error) {
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
	v := p.or()
	if p.err == nil && p.kind != 0 {
		p.fail("%q has no counterpart", p.tok)
	}
	return v, p.err
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

func (p *expr) condition(v value) string {
	out, err := v.condition()
	if err != nil {
		p.fail("%v", err)
	}
	return out
}

// logic joins the conditions that next reads, while more finds an operator between them.
func (p *expr) logic(next func() value, op string, more func() bool) value {
	a := next()
	for n := 0; more(); {
		n = p.chain(n)
		a = value{sql: "(" + p.condition(a) + op + p.condition(next()) + ")", class: boolClass}
	}
	return a
}

func (p *expr) or() value {
	p.enter()
	defer p.leave()
	return p.logic(p.and, " OR ", func() bool { return p.word("or") })
}

func (p *expr) and() value {
	return p.logic(p.not, " AND ", func() bool { return p.word("and") || p.op("&&") })
}

func (p *expr) not() value {
	if p.word("not") || p.op("!") {
		p.enter()
		defer p.leave()
		return value{sql: "(NOT " + p.condition(p.not()) + ")", class: boolClass}
	}
	return p.comparison()
}

func (p *expr) comparison() value {
	a := p.sum()
	for {
		out := ""
		switch {
		case p.kind == 'o' && strings.Contains(" = <> != < <= > >= <=> ", " "+p.tok+" "):
			op := p.tok
			switch op {
			case "!=":
				op = "<>"
			case "<=>":
				op = "IS NOT DISTINCT FROM"
			}
			p.next()
			b := p.sum()
			p.compare(a, b)
			out = a.sql + " " + op + " " + b.sql
		case p.word("is"):
			not := ""
			if p.word("not") {
				not = "NOT "
			}
			if !p.word("null") {
				p.fail("IS %s has no counterpart", p.tok)
			}
			out = a.sql + " IS " + not + "NULL"
		default:
			if out = p.range_(a); out == "" {
				return a
			}
		}
		a = value{sql: "(" + out + ")", class: boolClass}
	}
}

// range_ reads [NOT] IN, BETWEEN and LIKE; "" if there is none.
func (p *expr) range_(a value) string {
	not := ""
	if p.word("not") {
		not = "NOT "
	}
	switch {
	case p.word("in"):
		p.expect("(")
		var list []string
		for p.err == nil {
			b := p.or()
			p.compare(a, b)
			list = append(list, b.sql)
			if p.op(")") {
				break
			}
			p.expect(",")
		}
		return a.sql + " " + not + "IN (" + strings.Join(list, ", ") + ")"
	case p.word("between"):
		low := p.sum()
		if !p.word("and") {
			p.fail("AND is missing")
		}
		high := p.sum()
		p.compare(a, low)
		p.compare(a, high)
		return a.sql + " " + not + "BETWEEN " + low.sql + " AND " + high.sql
	case p.word("like"):
		b := p.sum()
		if !a.text() || !b.text() {
			p.fail("LIKE compares something other than text")
		}
		p.compare(a, b)
		return a.sql + " " + not + "LIKE " + b.sql
	case not != "":
		p.fail("NOT %s has no counterpart", p.tok)
	}
	return ""
}

// compare makes sure that the server compares the two.
func (p *expr) compare(a, b value) {
	switch {
	case !alike(a, b):
		p.fail("values of different kinds are compared")
	case a.class == jsonClass || b.class == jsonClass:
		p.fail("documents are compared")
	case a.text() && b.text():
		p.folded(a, b)
	case a.shortYear(b) || b.shortYear(a):
		p.fail("a year is compared with a number of two digits")
	}
	if a.class == textClass && b.text() || b.class == textClass && a.text() {
		p.compared = true
		p.spelled = p.spelled || a.sql != "''" && b.sql != "''"
	}
}

// folded refuses an operation on texts that are all constant in a generated column: PostgreSQL 15
// computes it before it has a collation for it.
func (p *expr) folded(of ...value) {
	if p.folds && !slices.ContainsFunc(of, func(v value) bool { return v.column }) {
		p.fail("constants are compared")
	}
}

func (p *expr) sum() value {
	a := p.product()
	for n := 0; p.kind == 'o' && (p.tok == "+" || p.tok == "-"); {
		op := p.tok
		n = p.chain(n)
		p.next()
		a = p.arithmetic(a, op, p.product())
	}
	return a
}

func (p *expr) product() value {
	a := p.unary()
	for n := 0; ; {
		op := p.tok
		switch {
		case p.op("*") || p.op("%"):
		case p.word("mod"):
			op = "%"
		case p.word("div"):
			op = "/"
		default:
			return a
		}
		n = p.chain(n)
		a = p.arithmetic(a, op, p.unary())
	}
}

// arithmetic computes with 64 bits, as MySQL does. What is divided by 0 is NULL there.
func (p *expr) arithmetic(a value, op string, b value) value {
	if !a.number() || !b.number() || a.class == anyClass || b.class == anyClass {
		p.fail("arithmetic with other than numbers")
	}
	if op == "%" && (a.class == floatClass || b.class == floatClass) || op == "/" && (!a.is(intClass, bigClass) || !b.is(intClass, bigClass)) {
		p.fail("a division of other than integers has no counterpart")
	}
	class := max(a.class, b.class, bigClass)
	if b.class == intClass {
		a = a.wide()
	}
	if op == "%" || op == "/" {
		b.sql = "NULLIF(" + b.sql + ", 0)"
	}
	return value{sql: "(" + a.sql + " " + op + " " + b.sql + ")", class: class}
}

func (p *expr) unary() value {
	n := len(p.columns)
	v := p.signed()
	v.column = len(p.columns) > n
	return v
}

func (p *expr) signed() value {
	if p.op("-") {
		p.enter()
		defer p.leave()
		a := p.signed()
		if !a.number() || a.class == anyClass {
			p.fail("arithmetic with other than numbers")
		}
		if strings.Trim(a.sql, "0123456789") != "" {
			a = a.wide()
		}
		return value{sql: "(- " + a.sql + ")", class: a.class}
	}
	return p.primary()
}

func classOfNumber(digits string) exprClass {
	switch {
	case strings.Contains(digits, ".") || len(digits) > 18:
		return decClass
	case len(digits) > 9:
		return bigClass
	}
	return intClass
}

func (p *expr) primary() value {
	tok := p.tok
	switch p.kind {
	case 'n':
		p.next()
		return value{sql: tok, class: classOfNumber(tok)}
	case 's':
		p.next()
		return value{sql: server.QuoteLiteral(tok), class: classOfString(tok)}
	case 'i':
		p.next()
		return p.columnNamed(tok)
	case 'o':
		if p.op("(") {
			a := p.or()
			p.expect(")")
			return a
		}
	case 'w':
		p.next()
		switch word := strings.ToLower(tok); {
		case word == "null":
			return value{sql: "NULL"}
		case word == "true" || word == "false":
			return value{sql: word, class: boolClass}
		case word == "case":
			return p.caseWhen()
		case p.op("("):
			return p.call(word)
		}
		return p.columnNamed(tok)
	}
	p.fail("%q has no counterpart", tok)
	return value{}
}

func (p *expr) columnNamed(name string) value {
	v, err := p.column(name)
	if err != nil {
		p.fail("%v", err)
	}
	p.columns = append(p.columns, name)
	return v
}

// oneOf returns the value that is one of two: of branches, or of an argument and its substitute.
func (p *expr) oneOf(a, b value, sql string) value {
	if !alike(a, b) {
		p.fail("a value may be of different kinds")
	}
	return value{sql: sql, class: common(a, b), foreign: a.foreign || b.foreign}
}

func (p *expr) caseWhen() value {
	var b strings.Builder
	b.WriteString("CASE")
	var of, result value
	valued := p.kind != 'w' || !strings.EqualFold(p.tok, "when")
	if valued {
		if of = p.or(); of.class == anyClass {
			p.fail("CASE NULL has no counterpart")
		}
		b.WriteString(" " + of.sql)
	}
	for p.word("when") {
		cond := p.or()
		if valued {
			p.compare(of, cond)
			b.WriteString(" WHEN " + cond.sql)
		} else {
			b.WriteString(" WHEN " + p.condition(cond))
		}
		if !p.word("then") {
			p.fail("THEN is missing")
		}
		v := p.or()
		result = p.oneOf(result, v, "")
		b.WriteString(" THEN " + v.sql)
	}
	if p.word("else") {
		v := p.or()
		result = p.oneOf(result, v, "")
		b.WriteString(" ELSE " + v.sql)
	}
	if !p.word("end") {
		p.fail("END is missing")
	}
	result.sql = b.String() + " END"
	return result
}
