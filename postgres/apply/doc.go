// Package apply is the target side of a stream in a PostgreSQL database.
//
//   - Target: a database that changes are applied to; its appliers are sessions (apply.go).
//   - statements: written by table and kind of change (apply_sql.go), checked (apply_check.go), and sent in pipelines
//     (apply_wire.go).
//   - conflicts: what becomes of changes that do not fit (resolve.go), with apply/resolve.
//   - progress: how far a stream is applied, in our own tables on the target (progress.go, fence.go), and how much of
//     it is on the target's disk (flush.go).
//   - Repair: makes single rows equal (repair.go).
package apply
