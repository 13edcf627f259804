// Package event decodes rows of the binlog into the canonical text that the row reader produces for
// the same values, without decoding them into Go values.
//
// A TableMap is the event that describes the rows that follow (map.go); a Table and its Columns
// combine it with the table's definition (table.go; fits.go checks whether the two are of one
// table). rows.go turns rows into changes; value.go, hires.go, json.go, jsondiff.go and charset.go
// turn values into text. text.go is the text formatting shared with bulk rows.
package event
