package schema

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// Script returns the statements of objects as a script for the mysql client program.
func (e *Schema) Script(objects []tidemark.Object) []byte {
	var b bytes.Buffer
	b.WriteString("SET NAMES utf8mb4;\nSET time_zone='+00:00', foreign_key_checks=0, unique_checks=0, sql_mode='STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES';\n")
	made := map[string]bool{}
	for _, o := range objects {
		// The database of the target's URL already exists.
		if s := o.Table.Schema; o.Kind == "table" && !made[s] {
			made[s] = true
			fmt.Fprintf(&b, "CREATE DATABASE IF NOT EXISTS %s;\n", server.Quote(s))
		}
	}
	for _, o := range objects {
		b.WriteByte('\n')
		for _, sql := range o.SQL {
			if !strings.Contains(sql, ";") {
				b.WriteString(sql + "\n;\n")
				continue
			}
			end := "$$"
			for strings.Contains(sql, end) {
				end += "$"
			}
			fmt.Fprintf(&b, "DELIMITER %s\n%s\n%s\nDELIMITER ;\n", end, sql, end)
		}
	}
	return b.Bytes()
}

// LoadStatements returns the statements that load rows of a range from the client program's
// standard input. Bytes are stored unchanged, as in Write (loadStatement).
func (e *Schema) LoadStatements(m *tidemark.Move, _ *tidemark.Range) []string {
	var cols, set []string
	for i, c := range m.Columns() {
		if !IsNative(c.Type, "json") && !IsNative(c.Type, "uuid") && !IsNative(c.Type, "inet") {
			cols = append(cols, server.Quote(c.Name))
			continue
		}
		v := fmt.Sprintf("@v%d", i)
		cols = append(cols, v)
		set = append(set, server.Quote(c.Name)+"=CONVERT("+v+" USING utf8mb4)")
	}
	sql := "LOAD DATA LOCAL INFILE '/dev/stdin' INTO TABLE " + server.QuoteTable(m.From.TableID) + " CHARACTER SET binary (" + strings.Join(cols, ",") + ")"
	if len(set) > 0 {
		sql += " SET " + strings.Join(set, ",")
	}
	return []string{sql}
}
