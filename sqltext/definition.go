package sqltext

// A Definition is the kind of one element in the list of a MySQL or MariaDB CREATE TABLE.
type Definition uint8

const (
	Column Definition = iota
	PrimaryKey
	UniqueKey
	Key
	FulltextKey
	SpatialKey
	VectorKey
	ForeignKey
	Check
	Period
)

// IsKey reports whether d is an index, including the primary key.
func (d Definition) IsKey() bool { return d >= PrimaryKey && d <= VectorKey }

// Definition reads the beginning of a definition: up to a key's columns or USING, or up to what
// follows FOREIGN KEY, CHECK or PERIOD FOR. Of a column it reads nothing. name is "" if the
// definition has none, a key's own name rather than its constraint's, and PRIMARY for the primary
// key.
func (r *Reader) Definition() (is Definition, name string) {
	at := r.At
	t := r.Next()
	if t.Is("CONSTRAINT") {
		if next := r.Peek(); next.Kind == Name || next.Kind == Word && !next.Is("PRIMARY") && !next.Is("UNIQUE") && !next.Is("FOREIGN") && !next.Is("CHECK") {
			name, _ = r.Ident(r.Next())
		}
		t = r.Next()
	}
	switch {
	case t.Is("PRIMARY") && r.Accept("KEY"):
		return PrimaryKey, "PRIMARY"
	case t.Is("FOREIGN") && r.Accept("KEY"):
		return ForeignKey, name
	case t.Is("CHECK"):
		return Check, name
	case t.Is("PERIOD") && r.Accept("FOR"):
		return Period, ""
	case t.Is("UNIQUE"):
		is = UniqueKey
	case t.Is("KEY"), t.Is("INDEX"):
		is = Key
	case t.Is("FULLTEXT"):
		is = FulltextKey
	case t.Is("SPATIAL"):
		is = SpatialKey
	case t.Is("VECTOR") && (r.Peek().Is("KEY") || r.Peek().Is("INDEX")):
		is = VectorKey
	default:
		r.At = at
		name, _ = r.Ident(t)
		return Column, name
	}
	if is != Key && !r.Accept("KEY") {
		r.Accept("INDEX")
	}
	if next := r.Peek(); next.Kind == Name || next.Kind == Word && !next.Is("USING") {
		name, _ = r.Ident(r.Next())
	}
	return is, name
}
