package tidemark

// A Redefinition says how one definition of an object becomes another. The zero value means that
// both are equal.
type Redefinition struct {
	What    []string // each difference, in words
	SQL     []string // statements that make it so, in order; needs no semicolons
	Rebuild bool     // SQL is empty: it is dropped and created anew, and so is what depends on it
	Shakes  []string // names, quoted where they need it: what depends on it and names one of these is dropped before SQL, and created anew after it
	Manual  string   // what no statement does, and what to do instead
	Note    bool     // worth knowing, but not a difference
}

// Is reports whether there is anything to alter.
func (a *Redefinition) Is() bool { return len(a.What) > 0 }
