// Package manual prints the pages of the manual that are made from the program's own tables, so that they cannot be wrong:
// types, engines, what a stream measures, changed definitions, IBM's parameters. Start with Pages.
package manual

import (
	"fmt"
	"io"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/engines"
)

// Pages gives what prints each page, by its name. settable are the options that tidemark set takes.
func Pages(book option.Book, settable []string) map[string]func(io.Writer) {
	out := map[string]func(io.Writer){"options": book.Page, "types": types, "engines": engineMatrix, "monitor": monitor, "ddl": definitions}
	for name, table := range map[string]parameterTable{"parameters-capture": captureParameters, "parameters-queue": queueParameters,
		"parameters-apply": applyParameters, "parameters-table": tableParameters} {
		out[name] = table.print(name, book, settable)
	}
	return out
}

func engineMatrix(w io.Writer) {
	fmt.Fprint(w, "| job | what | PostgreSQL | MySQL, MariaDB | dump file |\n|---|---|---|---|---|\n")
	for _, c := range engines.Matrix() {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", c.Job, c.What, orDash(c.PostgreSQL), orDash(c.MySQL), orDash(c.File))
	}
}

func types(w io.Writer) {
	fmt.Fprint(w, "# Types\n\nMade by `tidemark manual types`. Between servers of one kind types stay what they are; these tables say what becomes of\nthem otherwise. `change-data-type` rules (see mapping.md) override them.\n")
	for _, m := range engines.TypeMaps() {
		fmt.Fprintf(w, "\n## %s\n\n| from | to | what changes |\n|---|---|---|\n", m.Title)
		for _, r := range m.Rules {
			fmt.Fprintf(w, "| %s | %s | %s |\n", r.From, r.To, r.Note)
		}
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
