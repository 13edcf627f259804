package tidemark

import (
	"fmt"
	"strings"
)

// Some lists the first n names and counts the others: "a, b and 3 more".
func Some(names []string, n int) string {
	if len(names) > n {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
	}
	return strings.Join(names, ", ")
}

// Meant begins a hint with the one of names that is spelled most like name: "Did you mean prod? ".
// It is empty if none is like it.
func Meant(name string, names []string) string {
	if near := Nearest(name, names); near != "" {
		return "Did you mean " + near + "? "
	}
	return ""
}

// Nearest returns the one of names that is spelled most like name, or "" if none is like it.
func Nearest(name string, names []string) string {
	best, least := "", len(name)/3+1
	for _, n := range names {
		if d := Distance(name, n); d <= least && (best == "" || d < least) {
			best, least = n, d
		}
	}
	return best
}

// Distance returns how many letters have to be changed, added or left out (Levenshtein's).
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
