package screen

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/tidemarkdb/tidemark/engines"
)

// Engines prints what each engine can do.
func Engines(w io.Writer, all []engines.Capability) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tWHAT\tPostgreSQL\tMySQL, MariaDB\tDb2\tdump file")
	for _, c := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Job, c.What, cmp.Or(c.PostgreSQL, "-"), cmp.Or(c.MySQL, "-"), cmp.Or(c.Db2, "-"), cmp.Or(c.File, "-"))
	}
	_ = t.Flush() // of a writer whose errors nobody here can act on
}
