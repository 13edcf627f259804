package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A counterpart is a function of PostgreSQL with an equivalent here: for arguments of one of these
// kinds, or any; its name here, and the kind of its result, or that of what it is given.
type counterpart struct {
	takes []valueKind
	most  int // arguments
	here  string
	gives valueKind
}

var (
	ofText   = []valueKind{textValue, charValue}
	ofNumber = []valueKind{intValue, numberValue, floatValue}
)

var calls = map[string]counterpart{
	"lower": {ofText, 1, "lower", textValue}, "upper": {ofText, 1, "upper", textValue},
	"length": {ofText, 1, "char_length", intValue}, "char_length": {ofText, 1, "char_length", intValue},
	"character_length": {ofText, 1, "char_length", intValue}, "octet_length": {ofText[:1], 1, "length", intValue},
	"btrim": {ofText, 1, "trim", textValue}, "ltrim": {ofText, 1, "ltrim", textValue}, "rtrim": {ofText, 1, "rtrim", textValue},
	"replace": {ofText, 3, "replace", textValue}, "md5": {ofText, 1, "md5", textValue}, "reverse": {ofText, 1, "reverse", textValue},
	"abs": {ofNumber, 1, "abs", unknownValue}, "ceil": {ofNumber, 1, "ceiling", unknownValue}, "ceiling": {ofNumber, 1, "ceiling", unknownValue},
	"floor": {ofNumber, 1, "floor", unknownValue}, "round": {ofNumber[1:2], 2, "round", numberValue},
	"sqrt": {ofNumber[2:], 1, "sqrt", floatValue}, "power": {ofNumber[2:], 2, "power", floatValue},
	"mod": {ofNumber[:2], 2, "mod", unknownValue}, "coalesce": {nil, 1000, "coalesce", unknownValue}, "nullif": {nil, 2, "nullif", unknownValue},
}

func (t *translator) call(name string) (string, valueKind, string) {
	f, ok := calls[name]
	if !ok {
		t.fail(name + "()")
		return "", unknownValue, ""
	}
	var args []string
	gives := unknownValue
	for t.err == nil && !t.symbol(")") {
		arg, k := t.or()
		if f.takes != nil && !slices.Contains(f.takes, k) && !(f.here == "round" && len(args) == 1) {
			t.fail(name + "() of such arguments")
		}
		if len(args) == 0 || name != "nullif" {
			gives = either(gives, k)
		}
		args = append(args, arg)
		if !t.symbol(",") {
			t.expect(")")
			break
		}
	}
	if len(args) > f.most {
		t.fail(name + "() of such arguments")
	}
	switch {
	case f.gives != unknownValue:
		gives = f.gives
	case gives == truthValue:
		gives = boolValue
	}
	return f.here + "(" + strings.Join(args, ", ") + ")", gives, ""
}

// into returns an expression of a kind as one of a column; the error says why it cannot be one.
func (t *translator) into(c *tidemark.Type, expr string, k valueKind) (string, error) {
	fits := false
	switch c.Kind {
	case tidemark.Int:
		fits = k.number() || k == realValue
	case tidemark.Decimal:
		if k == floatValue && smallDecimal(c) { // a strict server takes no double with more digits
			precision, scale := digits(c)
			return fmt.Sprintf("cast(%s as decimal(%d,%d))", expr, precision, scale), nil
		}
		fits = k == intValue || k == numberValue
	case tidemark.Float:
		fits = k.number() || k == realValue
	case tidemark.Char, tidemark.Varchar, tidemark.Text:
		if k == intValue {
			return "cast(" + expr + " as char)", nil
		}
		fits = k.text()
	case tidemark.Bool:
		fits = k.decides()
	case tidemark.Date:
		if k == momentValue {
			return "date(" + expr + ")", nil // MySQL would round
		}
		fits = k == dateValue
	case tidemark.DateTime:
		fits = k == dateValue || k == momentValue && !(t.maria && c.Precision >= 0 && c.Precision < 6)
	case tidemark.Timestamp:
		fits = k == zonedValue && !(t.maria && c.Precision >= 0 && c.Precision < 6)
	default:
		fits = len(t.tokens) == 1 // a column
	}
	if !fits && expr != "null" {
		return "", fmt.Errorf("(%.200s) is not of the column's type here", expr)
	}
	return expr, nil
}
