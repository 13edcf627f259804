package screen

import (
	"fmt"
	"io"

	"github.com/tidemarkdb/tidemark"
)

// Needs shows what a stream needs on both sides.
func Needs(w io.Writer, needs []tidemark.Need) {
	if len(needs) == 0 {
		return
	}
	fmt.Fprintln(w, "\nWhat a stream needs:")
	for _, n := range needs {
		if n.Met {
			Printf(w, "ok: %s: %s: %s\n", n.End, n.Name, n.Have)
		} else {
			Finding(w, n.Finding())
		}
	}
}

// How many of the largest values are printed: in a plain run, and with -v.
const (
	lobsPlain   = 3
	lobsPrinted = 20
)

// Lobs shows the largest values that were found, the largest first.
func Lobs(w io.Writer, lobs []tidemark.LobSize, whole bool) {
	if len(lobs) == 0 {
		return
	}
	most, rest := lobsPlain, "-v shows more, --json all"
	if whole {
		most, rest = lobsPrinted, "--json lists them"
	}
	fmt.Fprintln(w, "\nLargest values, by column:")
	for _, l := range lobs[:min(len(lobs), most)] {
		of := " (of some rows: --lobs whole reads all)"
		if l.Whole {
			of = ""
		}
		Printf(w, "%s.%s, %s: %s%s\n", l.Table, l.Column, l.Type, Bytes(l.Bytes), of)
	}
	if n := len(lobs) - most; n > 0 {
		Printf(w, "and %s, none larger: %s\n", Count(n, "more column"), rest)
	}
}
