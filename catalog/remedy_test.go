package catalog

import (
	"testing"

	"github.com/tidemarkdb/tidemark"
)

func TestRemedy(t *testing.T) {
	id := tidemark.TableID{Schema: "n", Name: "p"}
	for hint, want := range map[string]string{
		"":            "Then run tidemark sub reload n.p --name s.",
		"Create it. ": "Create it. Then run tidemark sub reload n.p --name s.",
		"Load it yourself: tidemark sub start n.p --no-load":                           "Load it yourself: tidemark sub start n.p --no-load --name s.",
		"As it is: tidemark sub start n.p; as planned: tidemark sub reload n.p":        "As it is: tidemark sub start n.p --name s; as planned: tidemark sub reload n.p --name s.",
		"tidemark sub reload n.p starts it again.":                                     "tidemark sub reload n.p --name s starts it again.",
		"It was stopped (tidemark sub stop n.p). Now: tidemark sub start n.p --name s": "It was stopped (tidemark sub stop n.p --name s). Now: tidemark sub start n.p --name s.",
		"tidemark sub lists them; tidemark sub start n.q adds it.":                     "tidemark sub --name s lists them; tidemark sub start n.q --name s adds it.",
	} {
		if is := Remedy(id, hint, "s"); is != want {
			t.Errorf("%q becomes %q", hint, is)
		}
	}
}
