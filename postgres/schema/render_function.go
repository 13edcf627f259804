package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A function is one of MySQL that PostgreSQL has too, or an expression that does the same. ok
// reports whether it takes these arguments.
type function struct {
	least, most int
	ok          func(a []value) bool
	make        func(a []value) value
}

// ofText is a function of a text; the result is text.
func ofText(name string) function { return function{1, 1, texts, calls(name, textClass)} }

// calls returns what calls a function of PostgreSQL with the same arguments.
func calls(name string, class exprClass) func(a []value) value {
	return func(a []value) value { return called(name, class, sqlOf(a)...) }
}

// ofDate is a field of a date, or of a date and a time.
func ofDate(field string) function {
	return function{1, 1, func(a []value) bool { return a[0].is(dateClass) },
		func(a []value) value {
			return value{sql: "EXTRACT(" + field + " FROM (" + a[0].sql + ")::timestamp)::integer", class: intClass}
		}}
}

func called(name string, class exprClass, args ...string) value {
	return value{sql: name + "(" + strings.Join(args, ", ") + ")", class: class}
}

func texts(a []value) bool {
	return !slices.ContainsFunc(a, func(v value) bool { return !v.text() })
}

// sameBytes reports whether the bytes of a text, or bytes, are MySQL's.
func sameBytes(a []value) bool { return (a[0].text() || a[0].is(bytesClass)) && !a[0].foreign }

// writable reports whether all are text, or have the text that MySQL gives them.
func writable(a []value) bool {
	return !slices.ContainsFunc(a, func(v value) bool { _, err := v.asText(); return err != nil })
}

func written(a []value) []string {
	out := make([]string, len(a))
	for i, v := range a {
		t, _ := v.asText()
		out[i] = t.sql
	}
	return out
}

// count returns the whole number that a value is.
func (v value) count() (int, bool) {
	n, err := strconv.Atoi(strings.NewReplacer("(", "", ")", "", " ", "").Replace(v.sql))
	return n, err == nil && v.class == intClass && n < 1<<16 && n > -1<<16
}

// counts reports whether the arguments from one on are whole numbers, and not below low.
func counts(a []value, from, low int) bool {
	for _, v := range a[from:] {
		if n, ok := v.count(); !ok || n < low {
			return false
		}
	}
	return true
}

// literal returns the string that a value is.
func (v value) literal() (string, bool) {
	if !v.is(constClass, momentClass) || len(v.sql) < 2 || v.sql[0] != '\'' || v.sql[len(v.sql)-1] != '\'' {
		return "", false
	}
	s := v.sql[1 : len(v.sql)-1]
	return strings.ReplaceAll(s, "''", "'"), !strings.Contains(strings.ReplaceAll(s, "''", ""), "'")
}

func textAndCount(a []value) bool { return a[0].text() && counts(a, 1, 0) }

func rounded(name string) function {
	return function{1, 1, func(a []value) bool { return a[0].number() }, func(a []value) value {
		if a[0].is(intClass, bigClass) {
			return a[0]
		}
		return called(name, a[0].class, a[0].sql)
	}}
}

func padded(name string) function {
	return function{3, 3, func(a []value) bool {
		fill, ok := a[2].literal()
		return ok && fill != "" && writable(a[:1]) && counts(a[:2], 1, 0)
	}, func(a []value) value { return called(name, textClass, written(a[:1])[0], a[1].sql, a[2].sql) }}
}

// One function under the names that servers print for it.
var (
	bytesLength = function{1, 1, sameBytes, calls("octet_length", intClass)}
	charLength  = function{1, 1, texts, calls("char_length", intClass)}
	substring   = function{2, 3, func(a []value) bool { return a[0].text() && counts(a[:2], 1, 1) && counts(a, 2, 0) }, calls("substr", textClass)}
)

func sqlOf(a []value) []string {
	out := make([]string, len(a))
	for i, v := range a {
		out[i] = v.sql
	}
	return out
}

var exprFunctions = map[string]function{
	"abs": {1, 1, func(a []value) bool { return a[0].number() }, func(a []value) value {
		v := a[0].wide()
		return called("abs", v.class, v.sql)
	}},
	"ceil": rounded("ceil"), "ceiling": rounded("ceil"), "floor": rounded("floor"),
	"round": {1, 2, func(a []value) bool { return a[0].is(intClass, bigClass, decClass) && counts(a, 1, 0) }, func(a []value) value {
		if a[0].is(intClass, bigClass) {
			return a[0]
		}
		v := called("round", decClass, sqlOf(a)...)
		v.foreign = true // it may have other digits
		return v
	}},
	"length": bytesLength, "octet_length": bytesLength, "char_length": charLength, "character_length": charLength,
	"md5":   {1, 1, sameBytes, calls("md5", textClass)},
	"lower": ofText("lower"), "lcase": ofText("lower"), "upper": ofText("upper"), "ucase": ofText("upper"),
	"trim": ofText("btrim"), "ltrim": ofText("ltrim"), "rtrim": ofText("rtrim"), "reverse": ofText("reverse"),
	"concat": {1, 100, writable, func(a []value) value {
		return value{sql: "(" + strings.Join(written(a), " || ") + ")", class: textClass}
	}},
	"concat_ws": {2, 100, func(a []value) bool { _, ok := a[0].literal(); return ok && writable(a[1:]) }, func(a []value) value {
		sep, _ := a[0].literal()
		parts := written(a[1:])
		for i, s := range parts {
			parts[i] = "COALESCE(" + a[0].sql + " || " + s + ", '')"
		}
		return called("substr", textClass, strings.Join(parts, " || "), strconv.Itoa(1+len([]rune(sep))))
	}},
	"left":   {2, 2, textAndCount, calls(`"left"`, textClass)},
	"right":  {2, 2, textAndCount, calls(`"right"`, textClass)},
	"substr": substring, "substring": substring, "mid": substring,
	"lpad": padded("lpad"), "rpad": padded("rpad"),
	"replace": {3, 3, texts, calls("replace", textClass)},
	"substring_index": {3, 3, func(a []value) bool {
		sep, ok := a[1].literal()
		n, is := a[2].count()
		return a[0].text() && ok && is && sep != "" && (n == 1 || n == -1)
	}, func(a []value) value {
		if n, _ := a[2].count(); n == 1 {
			return called("split_part", textClass, a[0].sql, a[1].sql, "1")
		}
		return value{sql: "reverse(split_part(reverse(" + a[0].sql + "), reverse(" + a[1].sql + "), 1))", class: textClass}
	}},
	"year": ofDate("year"), "month": ofDate("month"), "day": ofDate("day"), "dayofmonth": ofDate("day"), "hour": ofDate("hour"), "minute": ofDate("minute"),
	"date": {1, 1, func(a []value) bool { return a[0].is(dateClass) }, func(a []value) value { return value{sql: "(" + a[0].sql + ")::date", class: dateClass} }},
}

// call reads the arguments of a function after its opening parenthesis.
func (p *expr) call(name string) value {
	switch name {
	case "cast":
		return p.cast()
	case "convert":
		return p.converted()
	}
	var args []value
	for p.err == nil && !p.op(")") {
		if len(args) > 0 {
			p.expect(",")
		}
		args = append(args, p.or())
	}
	if p.err != nil {
		return value{}
	}
	f, ok := exprFunctions[name]
	if !ok {
		return p.special(name, args)
	}
	if len(args) < f.least || len(args) > f.most {
		p.fail("function %s with %d arguments has no counterpart", name, len(args))
		return value{}
	}
	if !f.ok(args) {
		p.fail("function %s of another kind of value", name)
		return value{}
	}
	out := f.make(args)
	if out.text() {
		p.folded(args...)
	}
	out.foreign = out.foreign || out.text() && slices.ContainsFunc(args, func(v value) bool { return v.foreign })
	return out
}

// special returns a call of a function whose result may be of any class, or that reads documents.
func (p *expr) special(name string, a []value) value {
	switch {
	case name == "mod" && len(a) == 2:
		return p.arithmetic(a[0], "%", a[1])
	case (name == "coalesce" || name == "ifnull" && len(a) == 2) && len(a) > 0:
		out := a[0]
		for _, b := range a[1:] {
			out = p.oneOf(out, b, "")
		}
		out.sql = "COALESCE(" + strings.Join(sqlOf(a), ", ") + ")"
		return out
	case name == "nullif" && len(a) == 2:
		p.compare(a[0], a[1])
		out := value{sql: "NULLIF(" + a[0].sql + ", " + a[1].sql + ")", class: a[0].class, foreign: a[0].foreign}
		if a[0].number() && a[1].number() {
			out.class = common(a[0], a[1]) // as the server compares them
		}
		return out
	case name == "if" && len(a) == 3:
		return p.oneOf(a[1], a[2], "CASE WHEN "+p.condition(a[0])+" THEN "+a[1].sql+" ELSE "+a[2].sql+" END")
	case name == "json_extract" && len(a) == 2:
		return p.member(a[0], a[1])
	case name == "json_unquote" && len(a) == 1 && a[0].class == jsonClass:
		p.repeat(a[0])
		// The text of a JSON null is null there.
		return value{sql: "COALESCE(" + a[0].sql + " #>> '{}', (" + a[0].sql + ")::text)", class: jsonText}
	case name == "json_value" && len(a) == 2 && p.engine == "mariadb":
		v := p.member(a[0], a[1])
		p.repeat(v)
		return value{sql: "CASE WHEN (" + v.sql + ")::text ~ " + isCompound + " THEN NULL WHEN (" + v.sql + ")::text = 'true' THEN '1' WHEN (" + v.sql + ")::text = 'false' THEN '0' ELSE " + v.sql + " #>> '{}' END", class: jsonText}
	}
	p.fail("function %s has no counterpart", name)
	return value{}
}

// repeat refuses a long operand that would be written several times.
func (p *expr) repeat(v value) {
	if len(v.sql) > 4*len(p.in) {
		p.fail("an expression with so many parts of documents has no counterpart")
	}
}

// What the text of a list begins with, and that of a list or an object.
const (
	isList     = `'^\s*\['`
	isCompound = `'^\s*[[{]'`
)

// member returns the part of a document at a path.
func (p *expr) member(doc, path value) value {
	s, ok := path.literal()
	s, root := strings.CutPrefix(s, "$")
	if doc.class != jsonClass || !ok || !root {
		p.fail("a path into a document that is not constant has no counterpart")
		return value{}
	}
	sql := doc.sql
	for steps := 0; s != ""; steps++ {
		var step string
		is := false
		if steps == tidemark.MaxNesting {
			p.fail("a path of %d steps has no counterpart", steps)
			return value{}
		}
		switch {
		case strings.HasPrefix(s, `."`):
			step, s, is = strings.Cut(s[2:], `"`)
		case s[0] == '.':
			n := strings.IndexAny(s[1:], `.["`) + 1
			if n == 0 {
				n = len(s)
			}
			step, s = s[1:n], s[n:]
			is = strings.Trim(step, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$") == ""
		case s[0] == '[':
			step, s, _ = strings.Cut(s[1:], "]")
			if n, err := strconv.ParseUint(step, 10, 16); err == nil && n > 0 {
				sql = fmt.Sprintf("(%s -> %d)", sql, n)
				continue
			} else if err == nil { // of what is no array there it is all
				p.repeat(value{sql: sql})
				sql = "(CASE WHEN (" + sql + ")::text ~ " + isList + " THEN " + sql + " -> 0 ELSE " + sql + " END)"
				continue
			}
		}
		if !is || step == "" {
			p.fail("the path %s into a document has no counterpart", path.sql)
			return value{}
		}
		sql = "(" + sql + " -> " + server.QuoteLiteral(step) + ")"
	}
	return value{sql: sql, class: jsonClass}
}

// utf8 reads the name of a charset that PostgreSQL's text has.
func (p *expr) utf8() {
	if !utf8Charsets[strings.ToLower(p.tok)] {
		p.fail("charset %s has no counterpart", p.tok)
	}
	p.next()
}

// converted reads CONVERT(... USING ...) after its opening parenthesis.
func (p *expr) converted() value {
	v := p.or()
	if !v.text() || !p.word("using") {
		p.fail("CONVERT of such a value has no counterpart")
	}
	p.utf8()
	p.expect(")")
	v.foreign = false
	return v
}

const (
	twoTo63 = "9223372036854775808"
	twoTo64 = "18446744073709551616"
)

// cast reads CAST after its opening parenthesis.
func (p *expr) cast() value {
	v := p.or()
	if !p.word("as") {
		p.fail("AS is missing")
	}
	typ := strings.ToLower(p.tok)
	p.next()
	var size []string
	if p.op("(") {
		for p.err == nil {
			if p.kind != 'n' || strings.Contains(p.tok, ".") {
				p.fail("%q has no counterpart", p.tok)
			}
			size = append(size, p.tok)
			if p.next(); p.op(")") {
				break
			}
			p.expect(",")
		}
	}
	if p.word("charset") {
		p.utf8()
	}
	p.expect(")")
	if v.document() && (typ == "signed" || typ == "unsigned" || typ == "decimal" || typ == "double") {
		p.repeat(v)
		v = p.asNumber(v, typ == "signed" || typ == "unsigned")
		v.sql = "(" + v.sql + ")"
	}
	switch {
	case typ == "date" && size == nil && v.is(dateClass):
		return value{sql: "(" + v.sql + ")::date", class: dateClass}
	case typ == "signed" && v.is(intClass, bigClass):
		return value{sql: "(" + v.sql + ")::bigint", class: bigClass}
	case typ == "signed" && v.class == decClass: // beyond 63 bits it is the complement there
		return value{sql: "(mod((" + v.sql + ")::numeric(20,0) + " + twoTo63 + ", " + twoTo64 + ") - " + twoTo63 + ")::bigint", class: bigClass}
	case typ == "unsigned" && v.is(intClass, bigClass, decClass):
		return called("mod", decClass, "("+v.sql+")::numeric(20,0) + "+twoTo64, twoTo64) // of a negative number it is the complement there
	case typ == "decimal" && len(size) == 2 && v.is(intClass, bigClass, decClass):
		return value{sql: "(" + v.sql + ")::numeric(" + strings.Join(size, ",") + ")", class: decClass}
	case typ == "double" && v.number():
		return value{sql: "(" + v.sql + ")::double precision", class: floatClass}
	case typ == "char" && writable([]value{v}):
		t, _ := v.asText()
		if len(size) == 1 {
			t.sql = `"left"(` + t.sql + ", " + size[0] + ")"
		}
		t.class = textClass
		return t
	}
	p.fail("CAST AS %s of such a value has no counterpart", strings.ToUpper(typ))
	return value{}
}
