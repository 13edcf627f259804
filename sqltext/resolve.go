package sqltext

import "bytes"

// Resolve returns a text of MySQL or MariaDB as this server reads it: comments that it does not run
// are gone, and so are the marks around those that it runs. Other comments stay. What is left has
// one meaning, whatever the server thinks of versions and of comments within comments.
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
			end, _ = blockEnd(text, end)
			out = append(out, ' ')
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
