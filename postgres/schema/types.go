package schema

import (
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// firstUserOID is the first OID that a server assigns after initdb. A smaller OID means the same on
// every server of a version; for types, on servers of all versions.
const firstUserOID = 16384

// A pgType is a row of pg_type, with the required columns of related rows.
type pgType struct {
	named
	Class   string // typtype: b base, c composite, d domain, e enum, m multirange, p pseudo, r range
	Elem    uint32 // of an array
	Rel     uint32 // of a composite: its pg_class row
	RelKind string // of a composite: 'c' for a standalone type, else the kind of the table whose rows it types
	Base    uint32 // of a domain
	BaseMod int32  // of a domain
	Array   uint32 // the array type over this type
	Sub     uint32 // of a range or multirange: its subtype
	Range   uint32 // of a multirange: its range
	Defined bool   // false for a shell
	Wire    bool   // has send and receive functions
	Labels  []string
	NotNull bool // of a domain

	checks []*constraint // of a domain
}

const typesSQL = `
SELECT t.oid, n.nspname, t.typname, format('%%I.%%I', n.nspname, t.typname), t.typtype::text,
       CASE WHEN t.typsubscript_is_array THEN t.typelem ELSE 0::oid END, t.typrelid, coalesce(c.relkind::text, ''),
       t.typbasetype, t.typtypmod, t.typarray, coalesce(r.rngsubtype, 0::oid), CASE WHEN t.typtype = 'm' THEN r.rngtypid ELSE 0::oid END, t.typisdefined,
       t.typsend <> 0 AND t.typreceive <> 0, e.labels, t.typnotnull
FROM (SELECT *, typelem <> 0 AND typlen = -1 AND typcategory = 'A' AS typsubscript_is_array FROM pg_type) t
JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_class c ON c.oid = t.typrelid
LEFT JOIN pg_range r ON r.rngtypid = t.oid %s
LEFT JOIN (SELECT enumtypid, array_agg(enumlabel::text ORDER BY enumsortorder) AS labels FROM pg_enum GROUP BY 1) e
  ON e.enumtypid = t.oid
` + rowTypes + `
WHERE NOT ` + isRowType + ` OR t.oid IN (` + neededTypes + `) OR t.typarray IN (` + neededTypes + `)`

// isRowType is a condition on a type t, with joins: the type of a table's rows, or an array of
// these. There are two for each table, and few are used.
const (
	rowTypes = `LEFT JOIN pg_class tr ON tr.oid = t.typrelid AND t.typrelid <> 0
LEFT JOIN pg_type te ON te.oid = t.typelem AND t.typelem <> 0
LEFT JOIN pg_class er ON er.oid = te.typrelid AND te.typrelid <> 0`
	isRowType = `(t.oid >= 16384 AND coalesce(coalesce(tr.relkind, er.relkind) <> 'c', false))`
)

// neededTypes are the types that something depends on besides what they come with.
const neededTypes = `SELECT refobjid FROM pg_depend WHERE refclassid = 1247 AND deptype <> 'i' AND refobjid >= 16384`

// builtin maps PostgreSQL's own types, by name in pg_catalog, to their logical type.
var builtin = map[string]tidemark.Type{
	"bool":        {Kind: tidemark.Bool},
	"int2":        {Kind: tidemark.Int, Bits: 16},
	"int4":        {Kind: tidemark.Int, Bits: 32},
	"int8":        {Kind: tidemark.Int, Bits: 64},
	"oid":         {Kind: tidemark.Int, Bits: 32, Unsigned: true},
	"xid":         {Kind: tidemark.Int, Bits: 32, Unsigned: true},
	"cid":         {Kind: tidemark.Int, Bits: 32, Unsigned: true},
	"xid8":        {Kind: tidemark.Int, Bits: 64, Unsigned: true},
	"numeric":     {Kind: tidemark.Decimal},
	"float4":      {Kind: tidemark.Float, Bits: 32},
	"float8":      {Kind: tidemark.Float, Bits: 64},
	"money":       {Kind: tidemark.Money},
	"bpchar":      {Kind: tidemark.Char},
	"varchar":     {Kind: tidemark.Varchar},
	"name":        {Kind: tidemark.Varchar, Length: 63},
	"char":        {Kind: tidemark.Varchar, Length: 4}, // a byte, printed as \ooo if it is not ASCII
	"text":        {Kind: tidemark.Text},
	"bytea":       {Kind: tidemark.Blob},
	"bit":         {Kind: tidemark.Bit},
	"varbit":      {Kind: tidemark.VarBit},
	"date":        {Kind: tidemark.Date},
	"time":        {Kind: tidemark.Time, Precision: -1},
	"timetz":      {Kind: tidemark.TimeTZ, Precision: -1},
	"timestamp":   {Kind: tidemark.DateTime, Precision: -1},
	"timestamptz": {Kind: tidemark.Timestamp, Precision: -1},
	"interval":    {Kind: tidemark.Interval, Precision: -1},
	"uuid":        {Kind: tidemark.UUID},
	"json":        {Kind: tidemark.JSON},
	"jsonb":       {Kind: tidemark.JSON},
	"xml":         {Kind: tidemark.XML},
}

// unportable are built-in types whose binary form is valid on one server only, such as an OID.
var unportable = map[string]bool{"tsquery": true, // its receive function refuses the empty one that its send function writes
	"regproc": true, "regprocedure": true, "regoper": true, "regoperator": true,
	"regclass": true, "regtype": true, "regrole": true, "regnamespace": true, "regconfig": true,
	"regdictionary": true, "regcollation": true, "regdatabase": true, "pg_node_tree": true, "pg_ndistinct": true,
	"pg_dependencies": true, "pg_mcv_list": true}

// logical returns the logical type of a column: oid and modifier as in pg_attribute, native as
// format_type spells them.
func (c *catalogue) logical(oid uint32, mod int32, native string) tidemark.Type {
	t := c.types[oid]
	if t == nil {
		return tidemark.Type{Native: native}
	}
	var out tidemark.Type
	switch {
	case t.Class == "d":
		if t.BaseMod >= 0 {
			mod = t.BaseMod
		}
		out = c.logical(t.Base, mod, native)
	case t.Class == "e":
		out = tidemark.Type{Kind: tidemark.Enum, Labels: t.Labels}
	case t.Elem != 0:
		elem := c.logical(t.Elem, mod, strings.TrimSuffix(native, "[]"))
		out = tidemark.Type{Kind: tidemark.Array, Elem: &elem}
	case t.Schema == "pg_catalog":
		out = builtin[t.Name]
		modified(&out, t.Name, mod)
	case t.Name == "citext" && t.Class == "b":
		out = tidemark.Type{Kind: tidemark.Text}
	case (t.Name == "geometry" || t.Name == "geography") && t.Class == "b":
		out = tidemark.Type{Kind: tidemark.Geometry}
	}
	out.Native = native
	out.Portable = c.portable(t, 0)
	return out
}

// modified applies a type modifier (utils/adt: each type's own typmodin).
func modified(t *tidemark.Type, name string, mod int32) {
	if mod < 0 {
		if name == "bpchar" {
			t.Kind = tidemark.Varchar // bpchar without a length pads nothing
		}
		return
	}
	switch name {
	case "numeric":
		t.Precision = int((mod-4)>>16) & 0xffff
		t.Scale = (((int(mod) - 4) & 0x7ff) ^ 1024) - 1024
	case "bpchar", "varchar":
		t.Length = int64(mod - 4)
	case "bit", "varbit":
		t.Length = int64(mod)
	case "time", "timetz", "timestamp", "timestamptz":
		t.Precision = int(mod)
	case "interval":
		if p := mod & 0xffff; p != 0xffff {
			t.Precision = int(p)
		}
	}
}

// portable reports whether the binary wire form of t means the same on every server: it has one,
// without OIDs of this database. Arrays and composites contain the OIDs of their parts, so these
// must be built in; enums are sent as their labels, and domains and ranges as their base types.
func (c *catalogue) portable(t *pgType, depth int) bool {
	if t == nil || !t.Wire || depth > 16 || t.Schema == "pg_catalog" && unportable[t.Name] {
		return false
	}
	switch {
	case t.Class == "d":
		return c.portable(c.types[t.Base], depth+1)
	case t.Class == "e":
		return true
	case t.Class == "r" || t.Class == "m":
		return c.portable(c.types[t.Sub], depth+1)
	case t.Class == "c":
		r := c.relations[t.Rel]
		if r == nil {
			return false
		}
		for _, col := range r.columns {
			if col.Type >= firstUserOID || !c.portable(c.types[col.Type], depth+1) {
				return false
			}
		}
		return true
	case t.Elem != 0:
		return t.Elem < firstUserOID && c.portable(c.types[t.Elem], depth+1)
	}
	return t.Class == "b"
}
