package screen

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Names []string `json:"names"`
}

type document struct {
	Event string            `json:"event"`
	List  []string          `json:"list"`
	Left  []string          `json:"left,omitempty"`
	Deep  []inner           `json:"deep"`
	To    *inner            `json:"to"`
	None  *inner            `json:"none"`
	By    map[string]inner  `json:"by"`
	Any   any               `json:"any"`
	Raw   json.RawMessage   `json:"raw"`
	Bytes []byte            `json:"bytes"`
	When  time.Time         `json:"when"`
	Texts map[string]string `json:"texts"`
	inner
}

// Lists without elements are [] wherever they are, what was given stays as it is, and an event has
// its time.
func TestJSONListsAndTimes(t *testing.T) {
	d := document{Event: "e", Deep: []inner{{}}, To: &inner{}, By: map[string]inner{"a": {}}, Any: inner{}, Raw: json.RawMessage(`{"x":null}`)}
	var out bytes.Buffer
	Event(&out, d)
	const want = `{"event":"e","list":[],"deep":[{"names":[]}],"to":{"names":[]},"none":null,"by":{"a":{"names":[]}},"any":{"names":[]},"raw":{"x":null},"bytes":null,"when":"0001-01-01T00:00:00Z","texts":null,"names":[],"time":"`
	if !strings.HasPrefix(out.String(), want) || !strings.HasSuffix(out.String(), "\"}\n") {
		t.Errorf("%s\nwant %s", &out, want)
	}
	if d.List != nil || d.Deep[0].Names != nil || d.To.Names != nil || d.By["a"].Names != nil {
		t.Error("what was given has changed")
	}
	out.Reset()
	Event(&out, map[string]any{"event": "x", "time": 7})
	if out.String() != "{\"event\":\"x\",\"time\":7}\n" {
		t.Error(out.String())
	}
	out.Reset()
	if JSON(&out, []string(nil)); out.String() != "[]\n" {
		t.Error(out.String())
	}
}
