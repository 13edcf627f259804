package postgres

import (
	"bytes"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Script writes the statements of objects as psql reads them from a file.
func (e *Engine) Script(objects []tidemark.Object) []byte {
	var b bytes.Buffer
	b.WriteString("SET client_encoding = 'UTF8';\nSET search_path = pg_catalog;\nSET standard_conforming_strings = on;\nSET check_function_bodies = off;\nSET xmloption = content;\nSET lc_monetary = 'C';\n")
	for _, o := range objects {
		b.WriteByte('\n')
		for _, sql := range o.SQL {
			b.WriteString(sql)
			if last := sql[strings.LastIndexByte(sql, '\n')+1:]; strings.Contains(last, "--") {
				b.WriteByte('\n') // it may end with a comment
			}
			b.WriteString(";\n")
		}
	}
	return b.Bytes()
}

// LoadStatements load rows of a range from psql's standard input.
func (e *Engine) LoadStatements(m *tidemark.Move, r *tidemark.Range) []string {
	if m.From.Form == tidemark.LargeObjects {
		return []string{strings.TrimSuffix(largeObjectStage, " ON COMMIT DROP"), "COPY " + largeObjectCopy + " FROM STDIN", largeObjectStore}
	}
	var cols []string
	for _, name := range m.Source {
		cols = append(cols, quoteIdent(name))
	}
	list := ""
	if len(cols) > 0 {
		list = " (" + strings.Join(cols, ", ") + ")"
	}
	return []string{"COPY " + quoteTable(sourceTable(m, r)) + list + " FROM STDIN"}
}
