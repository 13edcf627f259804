package catalog

import (
	"regexp"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Remedy completes the hint of a stopped table with the command that lets it continue. The stream's
// name may be left out.
func Remedy(id tidemark.TableID, hint, stream string) string {
	hint = strings.TrimRight(hint, ". ")
	if !strings.Contains(hint, "tidemark sub ") {
		hint += ". Then run tidemark sub reload " + id.String()
	}
	if stream != "" && endsInReload.MatchString(hint) {
		hint += " --name " + stream
	}
	return strings.TrimLeft(hint, ". ") + "."
}

var endsInReload = regexp.MustCompile(`tidemark sub reload \S+$`)
