package notice

import (
	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// HiddenLabels names the ENUM and SET columns of a dump file whose labels may be others on the
// server: mysqldump, mariadb-dump and mydumper have them from SHOW CREATE TABLE. The rows have them
// as they are, and match no label then.
func HiddenLabels(m *tidemark.Move) (out []tidemark.Finding) {
	for i := range m.From.Columns {
		if c := &m.From.Columns[i]; mysqltype.MayHideLabel(&c.Type) {
			out = append(out, tidemark.Finding{Severity: tidemark.Warning, Object: "column " + m.From.String() + "." + c.Name,
				Text: "a label has a ?, which may stand for an emoji that SHOW CREATE TABLE did not show: rows that have it are refused then",
				Hint: "Correct the labels in the file's CREATE TABLE, or copy from the server."})
		}
	}
	return out
}
