package tidemark

import "strings"

// A TypeKind is the logical kind of a column type: what the values are, whatever
// the engine calls it.
//
// The canonical text of a value, which COPY-text batches carry between engines, follows from its
// TypeKind: Int and Decimal in decimal; Float shortest round-trip, "NaN", "Infinity", "-Infinity";
// Bool "t" or "f"; Binary kinds "\x" and lower-case hex; Bit kinds a string of 0 and 1; Date, Time,
// DateTime as ISO 8601 with a space, as PostgreSQL prints them with DateStyle=ISO; Timestamp the
// same in UTC with "+00"; Interval in ISO 8601, and so is a Time that goes into an Interval; Array
// in PostgreSQL's array syntax; Geometry as hex of EWKB, with "\x" before it if it goes into a
// Binary kind; everything else the engine's own text.
type TypeKind uint8

const (
	Other     TypeKind = iota // no logical kind; Native says what it is, values travel as the engine's text
	Bool                      //
	Int                       // Bits 8, 16, 24, 32 or 64; Unsigned
	Decimal                   // Precision and Scale; Precision 0 is unlimited
	Float                     // Bits 32 or 64
	Money                     // an amount without currency
	Char                      // Length characters, blank padded
	Varchar                   // at most Length characters; 0 is unlimited
	Text                      // Length is the engine's limit in bytes, 0 is unlimited
	Binary                    // Length bytes, zero padded
	Varbinary                 // at most Length bytes
	Blob                      // Length is the engine's limit in bytes, 0 is unlimited
	Bit                       // Length bits
	VarBit                    // at most Length bits; 0 is unlimited
	Date                      //
	Time                      // time of day or a signed duration (MySQL: -838:59:59 to 838:59:59); Precision = fractional digits
	TimeTZ                    // time of day with its own offset
	DateTime                  // date and time without a zone; Precision = fractional digits
	Timestamp                 // an instant; Precision = fractional digits
	Year                      // 1901 to 2155, and 0
	Interval                  //
	UUID                      //
	JSON                      // Binary is meant by Native ("jsonb"): order and duplicates of keys are lost
	XML                       //
	Enum                      // one of Labels
	Set                       // any of Labels, joined by commas in their order
	Array                     // of Elem
	Geometry                  // Native says which one
)

var typeKindNames = [...]string{"other", "bool", "int", "decimal", "float", "money", "char", "varchar", "text", "binary",
	"varbinary", "blob", "bit", "varbit", "date", "time", "timetz", "datetime", "timestamp", "year", "interval", "uuid",
	"json", "xml", "enum", "set", "array", "geometry"}

func (k TypeKind) String() string {
	if int(k) < len(typeKindNames) {
		return typeKindNames[k]
	}
	return "unknown"
}

// Bytes reports whether values of this kind are bytes, not text.
func (k TypeKind) Bytes() bool { return k == Binary || k == Varbinary || k == Blob }

// A Type is a column type: its logical kind with its parameters, and the
// engine's own complete spelling of it.
type Type struct {
	Kind      TypeKind `json:"kind"`
	Bits      int      `json:"bits,omitempty"`      // Int, Float: width
	Unsigned  bool     `json:"unsigned,omitempty"`  // Int, Decimal, Float
	Length    int64    `json:"length,omitempty"`    // Char kinds: characters; Binary kinds: bytes; Bit kinds: bits
	Precision int      `json:"precision,omitempty"` // Decimal: digits; time kinds: fractional digits, -1 where the engine's default (6) is meant
	Scale     int      `json:"scale,omitempty"`     // Decimal: digits after the point; may be negative on PostgreSQL
	Labels    []string `json:"labels,omitempty"`    // Enum, Set
	Elem      *Type    `json:"elem,omitempty"`      // Array
	Native    string   `json:"native,omitempty"`    // as the engine spells it: "character varying(10)", "int(10) unsigned"
	Charset   string   `json:"charset,omitempty"`   // MySQL
	Collation string   `json:"collation,omitempty"` // where it is not the default of its type or table
	Portable  bool     `json:"portable,omitempty"`  // its binary wire form means the same on any server of the engine
	Width1    bool     `json:"width1,omitempty"`    // MySQL tinyint(1), the usual spelling of a boolean
}

// Citext reports whether it is PostgreSQL's citext, in any schema.
func (t *Type) Citext() bool {
	return t.Kind == Text && (t.Native == "citext" || strings.HasSuffix(t.Native, ".citext"))
}

// NoPad reports whether a collation of MySQL or MariaDB counts trailing blanks, as all of
// PostgreSQL's do.
func NoPad(collation string) bool {
	collation = strings.ToLower(collation)
	return collation == "binary" || strings.Contains(collation, "_0900_") || strings.Contains(collation, "_nopad_")
}
