package screen

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemarkdb/tidemark/define"
)

// Definitions prints a comparison as SQL that can be run, with the rest as comments.
func Definitions(w io.Writer, result *define.Result) {
	for _, n := range result.Notes {
		fmt.Fprintf(w, "-- note: %s\n", oneLine(n))
	}
	if result.Equal {
		fmt.Fprintf(w, "-- definitions: %s, all equal\n", Count(result.Compared, "object"))
		return
	}
	fmt.Fprintf(w, "-- definitions: %s, these differ:\n", Count(result.Compared, "object"))
	for _, d := range result.Differences {
		fmt.Fprintf(w, "--   %-9s %s\n", d.Change, oneLine(d.Object))
		for _, what := range d.What {
			fmt.Fprintf(w, "--             %s\n", oneLine(what))
		}
		if d.Manual != "" {
			fmt.Fprintf(w, "--             by hand: %s\n", oneLine(d.Manual))
		}
	}
	if len(result.SQL) == 0 {
		return
	}
	fmt.Fprintln(w, "-- to update the target:")
	for _, s := range result.SQL {
		if s.Loses {
			fmt.Fprintln(w, "-- drops objects that may hold rows:")
		}
		fmt.Fprintln(w, SQL(terminated(s.SQL)))
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// terminated ends a statement as a client reads it. A MySQL body that contains semicolons needs
// another delimiter.
func terminated(sql string) string {
	upper := strings.ToUpper(strings.TrimLeft(sql, "/*!M0123456789 \n"))
	if strings.Contains(sql, ";") && strings.Contains(sql, "`") && strings.HasPrefix(upper, "CREATE") && !strings.HasPrefix(upper, "CREATE TABLE") {
		return "DELIMITER ;;\n" + sql + ";;\nDELIMITER ;"
	}
	return sql + ";"
}
