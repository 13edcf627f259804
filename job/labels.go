package job

import (
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// hiddenLabels names the ENUM and SET columns of a dump file whose labels may be others on the
// server. SHOW CREATE TABLE, from which mysqldump, mariadb-dump and mydumper have them, shows a
// character beyond three bytes of UTF-8 as a question mark (MariaDB each byte of it in a binary
// column). The rows have it as it is, and match no label then.
func hiddenLabels(m *tidemark.Move) (out []tidemark.Finding) {
	for i := range m.From.Columns {
		c := &m.From.Columns[i]
		if c.Type.Kind != tidemark.Enum && c.Type.Kind != tidemark.Set || !slices.Contains([]string{"", "binary", "utf8mb4", "utf16", "utf16le", "utf32", "gb18030"}, c.Type.Charset) {
			continue
		}
		if slices.ContainsFunc(c.Type.Labels, func(l string) bool { return strings.Contains(l, "?") }) {
			out = append(out, tidemark.Finding{Severity: tidemark.Warning, Object: "column " + m.From.String() + "." + c.Name,
				Text: "a label has a ?, which may stand for an emoji that SHOW CREATE TABLE did not show: rows that have it are refused then",
				Hint: "Correct the labels in the file's CREATE TABLE, or copy from the server."})
		}
	}
	return out
}
