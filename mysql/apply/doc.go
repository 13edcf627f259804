// Package apply writes a stream of changes to a server's tables, and repairs rows.
//
// A Target is the side of a server that streams are applied to. apply.go (an agent's session, and a group as one transaction
// with its progress), plan.go (how changes of a table are written), batch.go (rows that share a statement), bulk.go (MariaDB's
// prepared ones), value.go (what stands in a statement), send.go (statements out, and whether they met what they should),
// check.go (conflict rules), resolve.go (what becomes of changes that do not fit), progress.go (how far streams are applied).
// mend.go repairs what a comparison has found.
package apply
