package tidemark

// A Kinship is what one database is to another of its kind, as far as tables of equal names are
// concerned.
type Kinship uint8

const (
	Apart   Kinship = iota // nothing
	Same                   // tables of equal names are the same tables
	Standby                // one of them is a standby that gets all that the other one writes
	Replica                // the second is a replica of the first
	Feeding                // the first is a replica of the second
	Member                 // both are of one group or cluster whose nodes take each other's writes
)
