package schema

import (
	"bytes"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Script writes the statements of objects as a file for psql.
func (s *Schema) Script(objects []tidemark.Object) []byte {
	var text bytes.Buffer
	text.WriteString("SET client_encoding = 'UTF8';\nSET search_path = pg_catalog;\nSET standard_conforming_strings = on;\nSET check_function_bodies = off;\nSET xmloption = content;\nSET lc_monetary = 'C';\n")
	for _, o := range objects {
		text.WriteByte('\n')
		for _, sql := range o.SQL {
			text.WriteString(sql)
			if last := sql[strings.LastIndexByte(sql, '\n')+1:]; strings.Contains(last, "--") {
				text.WriteByte('\n') // it may end with a comment
			}
			text.WriteString(";\n")
		}
	}
	return text.Bytes()
}
