// Package history knows what tables were at a place of the log, for sources whose log has no names of columns, and what
// numbers columns have.
//
// A Statement is what is known of one without running it (statement.go). A Reader says what DDL makes of definitions (ddl.go,
// alter.go, text.go: what is changed in the text so that the parser reads it), and in its own words (actions.go). A History
// has the Definitions by place, a ColumnHistory the names of columns (columns.go).
package history
