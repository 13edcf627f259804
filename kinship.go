package tidemark

// A Kinship is what one database is to another of its kind, as far as tables of equal names are concerned.
type Kinship uint8

const (
	Apart   Kinship = iota // nothing
	Same                   // tables of equal names are the same tables
	Standby                // one of them is a standby that gets all that the other one writes
)
