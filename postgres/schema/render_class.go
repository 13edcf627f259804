package schema

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// An exprClass describes what a value of PostgreSQL can be used for.
type exprClass uint8

const (
	anyClass   exprClass = iota // NULL
	intClass                    // of 16 or 32 bits: MySQL computes with 64
	bigClass                    // of 64 bits
	decClass                    // numeric
	floatClass                  // double, whose text differs from MySQL's
	textClass
	constClass  // a string
	momentClass // a string that is a date, or a date and a time
	jsonText    // what a document says, as text
	boolClass
	dateClass  // a date, or a date and a time without a zone
	zonedClass // an instant, whose text and date depend on the session
	bytesClass
	spanClass // an interval
	jsonClass
	otherClass // of which nothing but NULL is asked
)

// A value is an expression of PostgreSQL.
type value struct {
	sql     string
	class   exprClass
	foreign bool // MySQL has text of it in other bytes: in another charset, or with leading zeros
	column  bool // it reads a column
}

func (v value) is(classes ...exprClass) bool {
	return v.class == anyClass || slices.Contains(classes, v.class)
}

func (v value) number() bool { return v.is(intClass, bigClass, decClass, floatClass) }
func (v value) text() bool   { return v.is(textClass, constClass, momentClass, jsonText) }

// document reports whether it is a part of a document, or its text.
func (v value) document() bool { return v.class == jsonClass || v.class == jsonText }

// alike reports whether PostgreSQL accepts the two where it expects values of one type.
func alike(a, b value) bool {
	switch {
	case a.class == anyClass || b.class == anyClass || a.number() && b.number() || a.text() && b.text():
		return true
	case a.class == momentClass:
		return b.is(dateClass, zonedClass)
	case b.class == momentClass:
		return a.is(dateClass, zonedClass)
	}
	return a.class == b.class && a.class != otherClass
}

// common returns the class of a value that is one of the two.
func common(a, b value) exprClass {
	switch {
	case a.class == anyClass || a.class == constClass || a.class == momentClass || a.number() && b.number() && b.class > a.class:
		return b.class
	case a.class == jsonText && b.text():
		return textClass
	}
	return a.class
}

// shortYear reports whether v may be a year, and n one of two digits, which MySQL takes for one of
// this century or the last.
func (v value) shortYear(n value) bool {
	i, ok := n.count()
	return v.foreign && v.class == intClass && ok && i > 0 && i < 100
}

// wide returns an integer as one of 64 bits, with which PostgreSQL computes as MySQL does.
func (v value) wide() value {
	if v.class == intClass {
		v.sql, v.class = v.sql+"::bigint", bigClass
	}
	return v
}

// condition turns a value into a condition: MySQL treats any number but 0 as true.
func (v value) condition() (string, error) {
	switch {
	case v.is(boolClass):
		return v.sql, nil
	case v.number():
		return "(" + v.sql + " <> 0)", nil
	}
	return "", errors.New("a value is used as a condition")
}

// asText returns a value as the text that MySQL makes of it.
func (v value) asText() (value, error) {
	switch {
	case v.text():
		return v, nil
	case v.is(intClass, bigClass, decClass, jsonClass) && !v.foreign:
		return value{sql: "(" + v.sql + ")::text", class: textClass}, nil
	}
	return v, errors.New("a value whose text differs here is used as text")
}

// numberInText matches the text of a number, in PostgreSQL's syntax.
const numberInText = `'^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$'`

// asNumber returns what a document says as a number; NULL if it is none, which a strict MySQL does
// not accept. A whole number is wanted of a fraction: MySQL takes the nearest even one.
func (p *expr) asNumber(v value, whole bool) value {
	t, number := v.sql, ""
	if v.class == jsonClass {
		t = "(" + t + " #>> '{}')"
	}
	if number = t + "::numeric"; whole && v.class == jsonClass && p.engine != "mariadb" {
		number = "CASE WHEN " + t + " ~ '[.eE]' THEN round(" + t + "::double precision)::numeric ELSE " + number + " END"
	}
	return value{sql: "CASE WHEN " + t + " ~ " + numberInText + " THEN " + number + " WHEN " + t + " = 'true' THEN 1 WHEN " + t + " = 'false' THEN 0 END", class: decClass}
}

// utf8Charsets are MySQL's whose bytes are those of PostgreSQL's text; "" is a dump file's default.
var utf8Charsets = map[string]bool{"": true, "utf8mb4": true, "utf8mb3": true, "utf8": true, "ascii": true}

func classOfString(s string) exprClass {
	for _, layout := range []string{time.DateOnly, time.DateTime} {
		if _, err := time.Parse(layout, s); err == nil && s[0] != '0' && !strings.Contains(s, ",") {
			return momentClass
		}
	}
	return constClass
}

// classOfSQL returns the class of a column of this type here.
func classOfSQL(typ string) exprClass {
	switch head, _, _ := strings.Cut(typ, "("); head {
	case "smallint", "integer":
		return intClass
	case "bigint":
		return bigClass
	case "numeric":
		return decClass
	case "real", "double precision":
		return floatClass
	case "character varying", "text":
		return textClass
	case "boolean":
		return boolClass
	case "bytea":
		return bytesClass
	case "interval":
		return spanClass
	case "json", "jsonb":
		return jsonClass
	}
	switch {
	case typ == "date", strings.HasPrefix(typ, "timestamp") && strings.HasSuffix(typ, "without time zone"):
		return dateClass
	case strings.HasPrefix(typ, "timestamp") && strings.HasSuffix(typ, "with time zone"):
		return zonedClass
	}
	return otherClass
}

// to returns the expression's value as one of a column of type typ.
func (p *expr) to(v value, typ string) (string, error) {
	switch want := classOfSQL(typ); {
	case v.class == anyClass:
		return v.sql, nil
	case want == dateClass && v.class == dateClass && typ == "date" && p.engine != "mariadb":
		return "(" + v.sql + ")::timestamp(0)", nil // the last half second is of the next day there
	case p.engine == "mariadb" && want == v.class && (want == dateClass || want == zonedClass || want == spanClass):
		return withoutFraction(v.sql, typ)
	case want == v.class && want != otherClass:
		return v.sql, nil
	case want == boolClass && v.document():
		return "(" + p.asNumber(v, false).sql + " <> 0)", nil
	case want == boolClass:
		return v.condition()
	case (value{class: want}).number():
		switch {
		case v.class == boolClass:
			return "(" + v.sql + ")::integer", nil
		case v.document():
			return p.asNumber(v, want < decClass || typ == "numeric(20,0)").sql, nil
		case v.number():
			return v.sql, nil
		}
	case want == textClass:
		s, err := v.asText()
		return s.sql, err
	}
	return "", errors.New("the expression has another type than the column")
}

// withoutFraction returns a time of a type of fewer digits as MariaDB does: the rest is cut off,
// where MySQL and PostgreSQL round.
func withoutFraction(sql, typ string) (string, error) {
	switch {
	case typ == "date" || !strings.Contains(typ, "("):
		return sql, nil
	case typ == "timestamp(0) without time zone":
		return "date_trunc('second', (" + sql + ")::timestamp)", nil
	}
	return "", errors.New("a time may lose digits, and MariaDB does not round them")
}
