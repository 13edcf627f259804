package tidemark

// A Redefinition says how an object that is defined in one way becomes one that is
// defined in another. The zero value says that both definitions are one.
type Redefinition struct {
	What    []string // each difference, in words
	SQL     []string // statements that make it so, in order; needs no semicolons
	Rebuild bool     // SQL is empty: it is dropped and made anew, and so is what depends on it
	Shakes  []string // names, quoted where they need it: what depends on it and names one of these is dropped before SQL, and made anew behind it
	Manual  string   // what no statement does, and what to do instead
	Note    bool     // worth knowing, and no difference
}

// Is reports whether there is anything to alter.
func (a *Redefinition) Is() bool { return len(a.What) > 0 }
