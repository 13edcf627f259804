package apps

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// sameValues compares all rows of two databases by what their servers print: numbers as they are,
// texts and bytes in hexadecimal, times in UTC.
func sameValues(t *testing.T, src, dst string) {
	t.Helper()
	columns, _ := shape(t, src)
	there, _ := shape(t, dst)
	for table, list := range columns {
		if len(there[table]) != len(list) {
			continue // sameShape says so
		}
		want, have := rows(t, src, table, list), rows(t, dst, table, there[table])
		if slices.Equal(want, have) {
			continue
		}
		t.Errorf("table %s: %d rows, at the source %d", table, len(have), len(want))
		for i := range min(len(want), len(have)) {
			if want[i] != have[i] {
				t.Errorf("  %.600s\n  at the source\n  %.600s", readable(have[i]), readable(want[i]))
				break
			}
		}
	}
}

// rows returns a table's rows in an order of their own.
func rows(t *testing.T, url, table string, columns []column) []string {
	t.Helper()
	list := []string{"'row'"}
	for _, c := range columns {
		list = append(list, c.printed(url))
	}
	set := "SET time_zone = '+00:00'; "
	if family(url) == "postgres" {
		set = "SET timezone = 'UTC'; SET extra_float_digits = 1; "
	}
	out := lines(testdb.Query(t, url, set+"SELECT "+strings.Join(list, ", ")+" FROM "+quote(url, table)))
	all := make([]string, len(out))
	for i, fields := range out {
		for j, c := range columns {
			fields[j+1] = c.canonical(fields[j+1])
		}
		all[i] = strings.Join(fields, " | ")
	}
	slices.Sort(all)
	return all
}

// printed is the expression that selects a column.
func (c column) printed(url string) string {
	q := quote(url, c.name)
	pg := family(url) == "postgres"
	switch c.family {
	case "text", "label", "json", "uuid", "inet", "":
		if !pg && strings.HasPrefix(c.declared, "bit") {
			return "CONCAT(" + q + " + 0)"
		}
		if pg && c.family == "inet" { // an address alone has no mask
			q = "abbrev(" + q + ")"
		}
		if pg {
			return "encode(convert_to(" + q + "::text, 'UTF8'), 'hex')"
		}
		return "LOWER(HEX(CONVERT(" + q + " USING utf8mb4)))"
	case "bytes":
		if pg {
			return "encode(" + q + ", 'hex')"
		}
		return "LOWER(HEX(" + q + "))"
	case "float":
		if pg {
			return q + "::float8"
		}
		return q + " + 0e0"
	case "bool":
		return q + "::int"
	}
	return q
}

// canonical returns a value without what the servers write differently.
func (c column) canonical(v string) string {
	if v == "NULL" {
		return v
	}
	switch c.family {
	case "float":
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
	case "time", "clock":
		v = strings.TrimSuffix(v, "+00")
		if strings.Contains(v, ".") {
			v = strings.TrimRight(strings.TrimRight(v, "0"), ".")
		}
	case "json", "text":
		text, err := hex.DecodeString(v)
		if strings.HasPrefix(c.declared, "character(") {
			text = bytes.TrimRight(text, " ")
		}
		var doc any
		if err == nil && json.Unmarshal(text, &doc) == nil && (c.family == "json" || bytes.HasPrefix(text, []byte("{"))) {
			text, _ = json.Marshal(doc)
		}
		return hex.EncodeToString(text)
	}
	return v
}

func readable(row string) string {
	fields := strings.Split(row, " | ")
	for i, f := range fields {
		if b, err := hex.DecodeString(f); err == nil && len(f) > 6 {
			fields[i] = fmt.Sprintf("%q", b)
		}
	}
	return strings.Join(fields, " | ")
}

// sorted returns the lines of a document in order, without the commas between them.
func sorted(text string) string {
	all := strings.Split(strings.ReplaceAll(text, ",\n", "\n"), "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// different returns the first line in which two texts differ.
func different(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%.300q, at the source %.300q", a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, at the source %d", len(a), len(b))
}
