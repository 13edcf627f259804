package mapping

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// dmsTypes are the type words of DMS, each with its logical type.
var dmsTypes = map[string]tidemark.Type{
	"bytes":    {Kind: tidemark.Varbinary},
	"date":     {Kind: tidemark.Date},
	"time":     {Kind: tidemark.Time, Precision: -1},
	"datetime": {Kind: tidemark.DateTime, Precision: -1},
	"int1":     {Kind: tidemark.Int, Bits: 8},
	"int2":     {Kind: tidemark.Int, Bits: 16},
	"int4":     {Kind: tidemark.Int, Bits: 32},
	"int8":     {Kind: tidemark.Int, Bits: 64},
	"uint1":    {Kind: tidemark.Int, Bits: 8, Unsigned: true},
	"uint2":    {Kind: tidemark.Int, Bits: 16, Unsigned: true},
	"uint4":    {Kind: tidemark.Int, Bits: 32, Unsigned: true},
	"uint8":    {Kind: tidemark.Int, Bits: 64, Unsigned: true},
	"numeric":  {Kind: tidemark.Decimal},
	"real4":    {Kind: tidemark.Float, Bits: 32},
	"real8":    {Kind: tidemark.Float, Bits: 64},
	"string":   {Kind: tidemark.Varchar},
	"wstring":  {Kind: tidemark.Varchar},
	"blob":     {Kind: tidemark.Blob},
	"clob":     {Kind: tidemark.Text},
	"nclob":    {Kind: tidemark.Text},
	"boolean":  {Kind: tidemark.Bool},
}

// moreTypes are the words that a task file may use besides those of DMS.
var moreTypes = map[string]tidemark.Type{
	"bool":      {Kind: tidemark.Bool},
	"smallint":  {Kind: tidemark.Int, Bits: 16},
	"int":       {Kind: tidemark.Int, Bits: 32},
	"integer":   {Kind: tidemark.Int, Bits: 32},
	"bigint":    {Kind: tidemark.Int, Bits: 64},
	"decimal":   {Kind: tidemark.Decimal},
	"real":      {Kind: tidemark.Float, Bits: 32},
	"double":    {Kind: tidemark.Float, Bits: 64},
	"char":      {Kind: tidemark.Char, Length: 1},
	"varchar":   {Kind: tidemark.Varchar},
	"text":      {Kind: tidemark.Text},
	"binary":    {Kind: tidemark.Binary, Length: 1},
	"varbinary": {Kind: tidemark.Varbinary},
	"bytea":     {Kind: tidemark.Blob},
	"bit":       {Kind: tidemark.Bit, Length: 1},
	"varbit":    {Kind: tidemark.VarBit},
	"timestamp": {Kind: tidemark.Timestamp, Precision: -1},
	"year":      {Kind: tidemark.Year},
	"interval":  {Kind: tidemark.Interval, Precision: -1},
	"uuid":      {Kind: tidemark.UUID},
	"json":      {Kind: tidemark.JSON},
	"jsonb":     {Kind: tidemark.JSON, Native: "jsonb"},
	"xml":       {Kind: tidemark.XML},
}

// streamTypes are words that DMS has for targets that are not tables.
var streamTypes = []string{"set", "list", "map", "tuple"}

// dmsTypeWords lists the words of DMS in order.
func dmsTypeWords() []string {
	out := make([]string, 0, len(dmsTypes))
	for w := range dmsTypes {
		out = append(out, w)
	}
	slices.Sort(out)
	return out
}

// maxDigits bounds precision and scale; each engine has its own limits.
const maxDigits = 1000

// sized returns t with the parameters of its kind. precision and scale are -1 if they are not
// given; for the time kinds either means fractional digits.
func sized(t tidemark.Type, length, precision, scale int64) tidemark.Type {
	switch t.Kind {
	case tidemark.Char, tidemark.Varchar, tidemark.Binary, tidemark.Varbinary, tidemark.Bit, tidemark.VarBit:
		if length > 0 {
			t.Length = length
		}
	case tidemark.Decimal:
		t.Precision, t.Scale = int(max(precision, 0)), int(max(scale, 0))
	case tidemark.Time, tidemark.DateTime, tidemark.Timestamp, tidemark.Interval:
		if scale >= 0 {
			t.Precision = int(scale)
		} else if precision >= 0 {
			t.Precision = int(precision)
		}
	}
	return t
}

// parseType reads a type of a task file: a word, and arguments if its kind has them: varchar(100),
// numeric(18,4), datetime(3), bigint unsigned.
func parseType(s string) (tidemark.Type, error) { return parseTypeOf(s, nil) }

// parseTypeOf is parseType with more words.
func parseTypeOf(s string, more map[string]tidemark.Type) (tidemark.Type, error) {
	word, args, unsigned, err := splitType(s)
	if err != nil {
		return tidemark.Type{}, err
	}
	t, ok := dmsTypes[word]
	if !ok {
		t, ok = moreTypes[word]
	}
	if !ok {
		t, ok = more[word]
	}
	if !ok {
		known := dmsTypeWords()
		for w := range moreTypes {
			known = append(known, w)
		}
		for w := range more {
			known = append(known, w)
		}
		slices.Sort(known)
		return tidemark.Type{}, fmt.Errorf("%q is not a known type%s", word, didYouMean(word, known))
	}
	if unsigned {
		if t.Kind != tidemark.Int && t.Kind != tidemark.Decimal && t.Kind != tidemark.Float {
			return tidemark.Type{}, fmt.Errorf("%q cannot be unsigned", word)
		}
		t.Unsigned = true
	}
	most := 0
	switch t.Kind {
	case tidemark.Decimal:
		most = 2
	case tidemark.Char, tidemark.Varchar, tidemark.Binary, tidemark.Varbinary, tidemark.Bit, tidemark.VarBit,
		tidemark.Time, tidemark.DateTime, tidemark.Timestamp, tidemark.Interval:
		most = 1
	}
	if len(args) > most {
		return tidemark.Type{}, fmt.Errorf("%q takes at most %d arguments", word, most)
	}
	length, precision, scale := int64(0), int64(-1), int64(-1)
	for i, a := range args {
		switch {
		case i == 1:
			scale = a
		case t.Kind == tidemark.Decimal || most == 1 && t.Precision == -1:
			precision = a
		default:
			length = a
		}
	}
	if precision > maxDigits || scale > maxDigits {
		return tidemark.Type{}, fmt.Errorf("%q has more than %d digits", s, maxDigits)
	}
	return sized(t, length, precision, scale), nil
}

// splitType splits "numeric(18, 4) unsigned".
func splitType(s string) (word string, args []int64, unsigned bool, err error) {
	rest := strings.ToLower(strings.TrimSpace(s))
	if r, ok := strings.CutSuffix(rest, " unsigned"); ok {
		rest, unsigned = strings.TrimSpace(r), true
	}
	word, list, found := strings.Cut(rest, "(")
	word = strings.TrimSpace(word)
	if !found {
		return word, nil, unsigned, nil
	}
	list, ok := strings.CutSuffix(list, ")")
	if !ok {
		return "", nil, false, fmt.Errorf("%q lacks its closing bracket", s)
	}
	for a := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(a), 10, 64)
		if err != nil || n < 0 {
			return "", nil, false, fmt.Errorf("%q is not a number in %q", strings.TrimSpace(a), s)
		}
		args = append(args, n)
	}
	return word, args, unsigned, nil
}

// dmsTypeOf returns what DMS calls a column type that it reads from an engine. Of words that differ
// only in the width of a character it returns one: string also represents wstring, clob nclob.
func dmsTypeOf(t *tidemark.Type, source string) []string {
	mysql := engine.Of(source).MySQLTypes
	switch t.Kind {
	case tidemark.Bool:
		// PostgreSQL's boolean is CHAR(5) to DMS unless MapBooleanAsBoolean is set.
		return []string{"boolean", "string"}
	case tidemark.Int:
		return []string{intWord(t)}
	case tidemark.Decimal:
		if !mysql && t.Precision > 38 {
			return []string{"string"}
		}
		return []string{"numeric"}
	case tidemark.Float:
		if t.Bits == 32 && !mysql {
			return []string{"real4"}
		}
		return []string{"real8"}
	case tidemark.Text:
		if mysql && t.Length > 0 && t.Length <= 65535 {
			return []string{"string"}
		}
		return []string{"clob"}
	case tidemark.Blob:
		if mysql && t.Length > 0 && t.Length <= 65535 {
			return []string{"bytes"}
		}
		return []string{"blob"}
	case tidemark.Bit:
		if mysql && t.Length <= 1 {
			return []string{"boolean"}
		}
		if mysql {
			return []string{"bytes"}
		}
		return []string{"string"}
	case tidemark.Binary, tidemark.Varbinary:
		return []string{"bytes"}
	case tidemark.Date:
		return []string{"date"}
	case tidemark.Time:
		if mysql {
			return []string{"string"}
		}
		return []string{"time"}
	case tidemark.TimeTZ:
		return []string{"time"}
	case tidemark.DateTime, tidemark.Timestamp:
		return []string{"datetime"}
	case tidemark.Year:
		return []string{"int2"}
	case tidemark.JSON, tidemark.XML, tidemark.Array:
		return []string{"clob"}
	case tidemark.Geometry:
		return []string{"blob"}
	case tidemark.Other:
		if t.Native == "hstore" || strings.HasPrefix(t.Native, "ts") {
			return []string{"clob"}
		}
	}
	return []string{"string"}
}

// intWord returns the word for an integer; mediumint counts as four bytes.
func intWord(t *tidemark.Type) string {
	bytes := map[int]string{8: "1", 16: "2", 24: "4", 32: "4"}[t.Bits]
	if bytes == "" {
		bytes = "8"
	}
	if t.Unsigned {
		return "uint" + bytes
	}
	return "int" + bytes
}

// isDMSType reports whether a data-type locator's word names a column type.
func isDMSType(word string, t *tidemark.Type, engine string) bool {
	switch word {
	case "wstring":
		word = "string"
	case "nclob":
		word = "clob"
	}
	return slices.Contains(dmsTypeOf(t, engine), word)
}

// sourceTypes are words for columns of the source that no rule can ask of a target.
var sourceTypes = map[string]tidemark.Type{
	"enum":     {Kind: tidemark.Enum},
	"set":      {Kind: tidemark.Set},
	"money":    {Kind: tidemark.Money},
	"array":    {Kind: tidemark.Array},
	"geometry": {Kind: tidemark.Geometry},
}

// An ofType chooses columns by their type on the source. A word of DMS chooses what DMS reads as
// that, any other one the columns of its own logical type.
type ofType struct {
	word  string
	typ   tidemark.Type // in a task file
	sized bool          // typ has arguments, which have to be those of the column
}

// parseOfType reads what follows the @ in a task file: what types: understands, and sourceTypes.
func parseOfType(s string) (*ofType, error) {
	t, err := parseTypeOf(s, sourceTypes)
	if err != nil {
		return nil, err
	}
	word, args, _, err := splitType(s)
	return &ofType{word, t, len(args) > 0}, err
}

// has reports whether a column of an engine's has the type.
func (o *ofType) has(t *tidemark.Type, engine string) bool {
	if _, is := dmsTypes[o.word]; is {
		// What DMS calls a string, and a task file time, is MySQL's TIME.
		ours := o.typ.Kind == tidemark.Time && t.Kind == tidemark.Time
		return (ours || isDMSType(o.word, t, engine)) && (!o.typ.Unsigned || t.Unsigned) && o.fits(t)
	}
	want := &o.typ
	switch {
	case want.Kind == tidemark.Bool && t.Width1: // MySQL's bool
		return true
	case want.Kind != t.Kind, want.Unsigned && !t.Unsigned:
		return false
	}
	switch want.Kind {
	case tidemark.Int:
		return want.Bits == t.Bits && want.Unsigned == t.Unsigned
	case tidemark.Float:
		return want.Bits == t.Bits
	case tidemark.JSON:
		return (want.Native == "jsonb") == (t.Native == "jsonb")
	}
	return o.fits(t)
}

// fits reports whether a column has the arguments that were given.
func (o *ofType) fits(t *tidemark.Type) bool {
	if !o.sized {
		return true
	}
	digits := func(n int) int { // of a second
		if n < 0 {
			return 6
		}
		return n
	}
	switch o.typ.Kind {
	case tidemark.Decimal:
		return t.Precision == o.typ.Precision && t.Scale == o.typ.Scale
	case tidemark.Time, tidemark.DateTime, tidemark.Timestamp, tidemark.Interval:
		return digits(t.Precision) == digits(o.typ.Precision)
	}
	return t.Length == o.typ.Length
}
