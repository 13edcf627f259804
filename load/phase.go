package load

import "strings"

// A BuildPhase is what is built in a part of the time after the rows, in the order in which most of
// it comes.
type BuildPhase int

const (
	Indexes BuildPhase = iota
	Keys
	ForeignKeys
	OtherObjects
)

// PhaseOf is the phase of a kind of object: what an index is to one engine is a constraint to
// another.
func PhaseOf(kind string) BuildPhase {
	switch {
	case strings.HasPrefix(kind, "foreign key"):
		return ForeignKeys
	case strings.HasSuffix(kind, "index"):
		return Indexes
	case strings.HasSuffix(kind, "key"), strings.HasPrefix(kind, "unique"), kind == "constraint":
		return Keys
	}
	return OtherObjects
}
