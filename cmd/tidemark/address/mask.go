package address

import (
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// WithoutSecrets hides possible secrets from the arguments in a text: also those of an argument
// that is almost a connection string, and is in a message as the file or the name for which it was
// taken.
func WithoutSecrets(text string, args []string) string {
	hidden := map[string]string{}
	hide := func(is, by string) {
		if len(is) < 4 { // too short to be a secret, and found in any text
			return
		}
		quoted := strconv.Quote(is)
		hidden[is], hidden[quoted[1:len(quoted)-1]] = by, by
	}
	for _, arg := range args {
		for _, part := range []string{arg, arg[strings.IndexByte(arg, '=')+1:], arg[strings.IndexByte(arg, ':')+1:]} {
			by := tidemark.MaskURL(part)
			if by == part {
				continue
			}
			hide(part, by)
			hide(filepath.Clean(part), by)
			hide(strings.TrimSpace(part), by)
			if !strings.Contains(arg, "://") { // a list of files is cut at its commas
				for one := range strings.SplitSeq(part, ",") {
					hide(one, tidemark.Hidden)
				}
			}
		}
	}
	var pairs []string
	for _, is := range slices.SortedFunc(maps.Keys(hidden), func(a, b string) int { return len(b) - len(a) }) { // the longest first
		pairs = append(pairs, is, hidden[is])
	}
	return tidemark.MaskText(strings.NewReplacer(pairs...).Replace(text))
}
