package advisor

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what is printed into the script files")

// Each block of the file has facts as JSON and, after "--", the advice on them. Each rule has one
// in which it applies.
func TestStreamRules(t *testing.T) {
	const path = "testdata/stream.txt"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	seen := map[string]bool{}
	for i, block := range strings.Split(string(text), "== ")[1:] {
		title, rest, _ := strings.Cut(block, "\n")
		facts, want, _ := strings.Cut(rest, "--\n")
		var f StreamFacts
		d := json.NewDecoder(strings.NewReader(facts))
		d.DisallowUnknownFields()
		if err := d.Decode(&f); err != nil {
			t.Fatalf("block %d, %s: %v", i, title, err)
		}
		var got strings.Builder
		for _, a := range ExplainStream(f) {
			seen[a.Rule] = true
			fmt.Fprintf(&got, "%s: %s\n  because %s\n", a.Rule, a, strings.Join(a.Evidence, "; "))
			if a.Gain != "" {
				fmt.Fprintf(&got, "  gain %s\n", a.Gain)
			}
			if a.Cost != "" {
				fmt.Fprintf(&got, "  cost %s (%s)\n", a.Cost, a.Sure)
			}
		}
		if got.String() != strings.TrimRight(want, "\n")+"\n" && !*update && (got.Len() > 0 || strings.TrimSpace(want) != "") {
			t.Errorf("%s: got\n%swant\n%s", title, got.String(), want)
		}
		fmt.Fprintf(&out, "== %s\n%s--\n%s\n", title, facts, got.String())
	}
	for _, r := range streamRules {
		if !seen[r.name] {
			t.Errorf("no block has advice by the rule %s", r.name)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
