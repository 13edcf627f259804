package ddl

import (
	"strings"
	"testing"
	"unicode"

	"github.com/tidemarkdb/tidemark"
)

// Every kind has a rule for each pair of engines, with words that fit into a sentence.
func TestEveryKindHasARule(t *testing.T) {
	engines := []string{"postgres", "mysql", "mariadb"}
	for _, k := range Kinds() {
		if Title(k) == "" {
			t.Errorf("%s has no title", k)
		}
		for _, from := range engines {
			for _, to := range engines {
				r := Decide(k, from, to)
				what := string(k) + " " + from + " " + to
				if r.Kind != k {
					t.Errorf("%s: no rule", what)
				}
				if (r.Verdict == Stops) != (r.Then != "") || (r.Verdict == Stops) == (r.How != "") {
					t.Errorf("%s: %+v", what, r)
				}
				err := Change{Kind: k, Table: tidemark.TableID{Schema: "s", Name: "t"}, Column: "c", To: "d"}.Stop(from, to)
				hint := tidemark.HintOf(err)
				if strings.ContainsAny(hint, "{}") || !unicode.IsUpper([]rune(hint)[0]) || strings.HasSuffix(hint, "..") {
					t.Errorf("%s: hint %q", what, hint)
				}
			}
		}
	}
}
