package manual

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemarkdb/tidemark/ddl"
)

// definitions says what becomes of each change of a definition between each pair of engines.
func definitions(w io.Writer) {
	fmt.Fprint(w, "# Changed definitions in a stream\n\nMade by `tidemark manual ddl`, from the rules that the stream asks. A change goes along to the target, stays on the source, or stops its table, and that table alone: nothing stops the stream.\nA stopped table is loaded again with `tidemark sub reload TABLE`, after what is said here is done on the target. If the target was changed in the same way before, most changes do not stop the table. See [replicate](replicate.md#single-tables).\n\n| change | from | to | | what to do, or how |\n|---|---|---|---|---|\n")
	any := func(engines string) string {
		if engines == "" {
			return "any"
		}
		return strings.ReplaceAll(engines, ",", ", ")
	}
	verdicts := map[ddl.Verdict]string{ddl.Goes: "goes along", ddl.Stays: "stays", ddl.Stops: "**stops its table**", ddl.Offers: "is announced"}
	words := strings.NewReplacer("{table}", "TABLE", "{column}", "NAME", "{to}", "NEW")
	for _, k := range ddl.Kinds() {
		for _, r := range ddl.RulesOf(k) {
			verdict := verdicts[r.Verdict]
			if r.Logged {
				verdict += " with `--follow-ddl`"
			}
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", ddl.Title(k), any(r.From), any(r.To), verdict, words.Replace(r.How+r.Then))
		}
	}
}
