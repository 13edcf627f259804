package sqltext

import (
	"bytes"
	"regexp"
)

// attribute matches comments that say what a column or key is in words that no server runs as
// anything else. Who translates a definition for another server has to see them.
var attribute = regexp.MustCompile(`(?i)^\s*(invisible|srid\s+[0-9]+|compressed)\s*\*/$`)

// Resolve returns a text of MySQL or MariaDB as this server reads it: comments that it does not run
// are gone, but for attributes such as INVISIBLE, and so are the marks around those that it runs.
// Other comments stay. What is left has one meaning, whatever the server thinks of versions and of
// comments within comments.
func (x Dialect) Resolve(text []byte, v Server) []byte {
	if !bytes.Contains(text, []byte("/*!")) && !bytes.Contains(text, []byte("/*M!")) {
		return text
	}
	out := make([]byte, 0, len(text))
	open := 0
	for i := 0; i < len(text); {
		kind, end, _ := x.Next(text, i)
		switch {
		case kind == Open && v.Runs(string(text[i:end])):
			open++
			out = append(out, ' ')
		case kind == Open:
			from := end
			if end, _ = blockEnd(text, end); attribute.Match(text[from:end]) {
				out = append(out, text[i:end]...)
			} else {
				out = append(out, ' ')
			}
		case kind == Close && open > 0:
			open--
			out = append(out, ' ')
		default:
			out = append(out, text[i:end]...)
		}
		i = end
	}
	return bytes.TrimSpace(out)
}
