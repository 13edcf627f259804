// Package mapping defines which tables and columns move, under which names and in which pieces. It
// reads three kinds of text, AWS DMS table mappings (ParseDMS), AWS DMS task settings
// (ParseSettings) and our own task file (ParseYAML), and turns a database's tables into moves
// (Rules.Apply). It does no I/O and reads no environment.
//
// # Nouns
//
// A Rules holds three lists, whichever text they came from: selections define which tables move,
// changes define the new names, types, columns and keys, settings define in which order and pieces
// the rows are read. A rule identifies its origin: messages name it (`rule-id 3`, `line 12`), and
// if two rules define the same aspect of one object the one with the lower number takes precedence.
//
// Names are matched by patterns, always against the source's names, and always case-sensitive. A
// rule that cannot be honoured is an error that names the rule; text without effect is a Finding.
// Nothing is ignored silently.
//
// Start reading at rules.go, then apply.go; dms.go and task.go are the two languages, node.go what
// they have in common.
package mapping
