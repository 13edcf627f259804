// Package mapping says which tables and columns move, under which names and in
// which pieces. It reads three kinds of text, AWS DMS table mappings (ParseDMS),
// AWS DMS task settings (ParseSettings) and our own task file (ParseYAML), and
// turns a database's tables into moves (Rules.Apply). It does no I/O and reads
// no environment.
//
// # Nouns
//
// A Rules holds three lists, whichever text they came from: selections say which
// tables move, changes what becomes of names, types, columns and keys, settings
// in which order and pieces the rows are read. A rule is who said so: messages
// name it (`rule-id 3`, `line 12`), and where two rules say different things of
// one object the lower one holds.
//
// Names are matched by patterns, always against the source's names, and always
// case-sensitive. What a rule cannot get is an error that names the rule; what a
// text says without effect is a Finding. Nothing is swallowed.
//
// Start reading at rules.go, then apply.go; dms.go and task.go are the two
// languages, node.go what they have in common.
package mapping
