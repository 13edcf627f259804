package schema

import (
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A catalogType is a column's type as SYSCAT.COLUMNS has it.
type catalogType struct {
	name   string
	length int64  // bytes; digits of decimals
	scale  int    // digits of decimals after the point, and of the fraction of timestamps
	units  int64  // length in unit
	unit   string // OCTETS, CODEUNITS16, CODEUNITS32 or "", which are octets
	bits   bool   // FOR BIT DATA, of a character type
}

// typeOf returns the logical type. Lengths of text are characters: where Db2 counts bytes, there
// are at most as many characters.
func typeOf(c catalogType) tidemark.Type {
	t := tidemark.Type{Native: c.name}
	characters := c.length
	if c.units > 0 {
		characters = c.units
	}
	sized := func(kind tidemark.TypeKind, n int64) {
		t.Kind, t.Length, t.Native = kind, n, fmt.Sprintf("%s(%d)", c.name, n)
		if c.unit != "" && c.unit != "OCTETS" {
			t.Native = fmt.Sprintf("%s(%d %s)", c.name, n, c.unit)
		}
	}
	switch c.name {
	case "SMALLINT":
		t.Kind, t.Bits = tidemark.Int, 16
	case "INTEGER":
		t.Kind, t.Bits = tidemark.Int, 32
	case "BIGINT":
		t.Kind, t.Bits = tidemark.Int, 64
	case "DECIMAL", "NUMERIC":
		t.Kind, t.Precision, t.Scale = tidemark.Decimal, int(c.length), c.scale
		t.Native = fmt.Sprintf("DECIMAL(%d,%d)", c.length, c.scale)
	case "DECFLOAT":
		t.Kind = tidemark.Decimal // without limits
	case "REAL":
		t.Kind, t.Bits = tidemark.Float, 32
	case "DOUBLE", "FLOAT":
		if t.Kind, t.Bits = tidemark.Float, 64; c.length == 4 {
			t.Bits = 32
		}
	case "BOOLEAN":
		t.Kind = tidemark.Bool
	case "CHARACTER":
		if sized(tidemark.Char, characters); c.bits {
			sized(tidemark.Binary, c.length)
			t.Native += " FOR BIT DATA"
		}
	case "VARCHAR", "LONG VARCHAR":
		if sized(tidemark.Varchar, characters); c.bits {
			sized(tidemark.Varbinary, c.length)
			t.Native += " FOR BIT DATA"
		}
	case "GRAPHIC":
		sized(tidemark.Char, c.length)
	case "VARGRAPHIC", "LONG VARGRAPHIC":
		sized(tidemark.Varchar, c.length)
	case "BINARY":
		sized(tidemark.Binary, c.length)
	case "VARBINARY":
		sized(tidemark.Varbinary, c.length)
	case "CLOB", "DBCLOB":
		sized(tidemark.Text, c.length)
	case "BLOB":
		sized(tidemark.Blob, c.length)
	case "XML":
		t.Kind = tidemark.XML
	case "DATE":
		t.Kind = tidemark.Date
	case "TIME":
		t.Kind = tidemark.Time
	case "TIMESTAMP":
		t.Kind, t.Precision = tidemark.DateTime, c.scale
		t.Native = fmt.Sprintf("TIMESTAMP(%d)", c.scale)
	}
	return t
}

// defaultOf reads the text of a default. A default that is NULL is none.
func defaultOf(text string, t *tidemark.Type) *tidemark.Default {
	text = strings.TrimSpace(text)
	switch upper := strings.ToUpper(strings.ReplaceAll(text, "_", " ")); {
	case upper == "NULL" || upper == "":
		return nil
	case upper == "CURRENT TIMESTAMP":
		return &tidemark.Default{Kind: tidemark.Now}
	case upper == "CURRENT DATE":
		return &tidemark.Default{Kind: tidemark.Today}
	case t.Kind == tidemark.Bool && (upper == "TRUE" || upper == "FALSE"):
		return &tidemark.Default{Kind: tidemark.Literal, Text: strings.ToLower(upper[:1])}
	}
	switch t.Kind {
	case tidemark.Int, tidemark.Decimal:
		if plainNumber(text) {
			return &tidemark.Default{Kind: tidemark.Literal, Text: strings.TrimSuffix(strings.TrimPrefix(text, "+"), ".")}
		}
	case tidemark.Char, tidemark.Varchar, tidemark.Date:
		if len(text) >= 2 && text[0] == '\'' && text[len(text)-1] == '\'' {
			inner := text[1 : len(text)-1]
			if plain := strings.ReplaceAll(inner, "''", ""); !strings.Contains(plain, "'") {
				value := strings.ReplaceAll(inner, "''", "'")
				if t.Kind != tidemark.Date || len(value) == 10 && value[4] == '-' && value[7] == '-' {
					return &tidemark.Default{Kind: tidemark.Literal, Text: value}
				}
			}
		}
	}
	return &tidemark.Default{Kind: tidemark.Expression, Text: text}
}

// plainNumber reports whether a text is digits, with a sign and a point at most.
func plainNumber(s string) bool {
	s = strings.TrimLeft(s, "+-")
	whole, fraction, _ := strings.Cut(s, ".")
	if whole+fraction == "" {
		return false
	}
	for _, c := range whole + fraction {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// rowWidth estimates the bytes of a row.
func rowWidth(t *tidemark.Table) int64 {
	n := int64(10)
	for i := range t.Columns {
		switch x := &t.Columns[i].Type; x.Kind {
		case tidemark.Int, tidemark.Float:
			n += int64(x.Bits / 8)
		case tidemark.Char, tidemark.Binary:
			n += x.Length
		case tidemark.Varchar, tidemark.Varbinary:
			n += min(x.Length/2, 100)
		case tidemark.Text, tidemark.Blob, tidemark.XML:
			n += 200
		default:
			n += 10
		}
	}
	return n
}
