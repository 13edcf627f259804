// Package apply writes a stream of changes to a server's tables, and repairs rows.
//
// A Target is the part of a server that streams are applied to. apply.go (an agent's session, and a
// group as one transaction with its progress), plan.go (how changes of a table are written),
// batch.go (rows that share a statement), bulk.go (MariaDB's prepared statements), value.go (values
// as SQL), send.go (statements out, and whether they affected the expected rows), ahead.go (a
// COMMIT that does not wait for that), check.go (conflict rules), resolve.go (changes that do not
// fit), progress.go (how far streams are applied). repair.go repairs differences that a comparison
// has found.
package apply
