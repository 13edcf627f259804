package sqltext

import "regexp"

// An array of literals that is cast as a whole, and one of its literals.
var (
	castArray = regexp.MustCompile(`\(ARRAY\[((?:'(?:[^']|'')*'::[a-z ]+(?:, )?)+)\]\)::([a-z ]+)\[\]`)
	castText  = regexp.MustCompile(`'(?:[^']|'')*'::[a-z ]+`)
)

// SpreadCasts returns a text of PostgreSQL as if the server had read its own text of it: what it
// shows of a varchar v IN ('a', 'b') is a cast of an array, and it makes casts of the elements.
func SpreadCasts(s string) string {
	return castArray.ReplaceAllStringFunc(s, func(array string) string {
		m := castArray.FindStringSubmatch(array)
		return "ARRAY[" + castText.ReplaceAllString(m[1], "(${0})::"+m[2]) + "]"
	})
}
