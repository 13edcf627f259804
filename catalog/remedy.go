package catalog

import (
	"regexp"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Remedy completes the hint of a stopped table with the command that lets it continue.
func Remedy(id tidemark.TableID, hint, stream string) string {
	hint = strings.TrimRight(hint, ". ")
	if !strings.Contains(hint, "tidemark sub ") {
		hint += ". Then run tidemark sub reload " + id.String()
	}
	return strings.TrimLeft(OfStream(hint, stream), ". ") + "."
}

// OfStream gives the sub commands in a hint the stream's name.
func OfStream(hint, stream string) string {
	var out strings.Builder
	for {
		at := subCommand.FindStringIndex(hint)
		if at == nil {
			return out.String() + hint
		}
		out.WriteString(hint[:at[1]])
		if hint = hint[at[1]:]; !strings.HasPrefix(hint, " --name ") {
			out.WriteString(" --name " + stream)
		}
	}
}

// subCommand is a sub command, as a rule on a table; what ends a sentence or a part of one does not
// belong to it.
var subCommand = regexp.MustCompile(`tidemark sub\b( (start|stop|reload|loaddone) \S*[^\s.,:;)]( --no-load)?)?`)
