// Package history keeps the definitions of tables by log position, for sources whose log has no
// column names, and the numbers of columns.
//
// A Statement is what its text alone reveals (statement.go). A Reader derives the effect of DDL on
// definitions (ddl.go, alter.go, and text.go, which adapts the text for the parser) and its actions
// with their text (actions.go). A History has the Definitions by place (history.go), a
// ColumnHistory the column names (columns.go).
package history
