package sqltext

// A Definition is one element in the list of a CREATE TABLE of MySQL's or MariaDB's, by what it defines.
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

// IsKey reports whether it is an index, the primary key included.
func (d Definition) IsKey() bool { return d >= PrimaryKey && d <= VectorKey }

// Definition takes what a definition begins with, up to what differs from one to the next: a key's columns or USING, what
// follows FOREIGN KEY, CHECK or PERIOD FOR. Of a column nothing is taken. The name is "" where the definition has none, a
// key's own rather than its constraint's, and PRIMARY of the primary key.
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
