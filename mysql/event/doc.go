// Package event takes rows of the binlog apart, into the canonical text that the reader of rows has for the same values,
// without a value being made.
//
// A TableMap is the event that says what rows follow (map.go); a Table and its Columns are what is known of a table then
// (table.go), by that and by its definition (fits.go says whether the two are of one table). rows.go makes changes of rows,
// value.go, hires.go, json.go, jsondiff.go and charset.go text of values. text.go is the text that bulk rows have too.
package event
