package job

import (
	"encoding/json"
	"strconv"

	"github.com/tidemarkdb/tidemark/load"
)

// An EndFact says what stood at one end of a job.
type EndFact struct {
	On      string `json:"on"` // "source" or "target"
	Engine  string `json:"engine"`
	Version string `json:"version,omitempty"`
}

// endFacts are those of the two ends of a copy, as far as they can say.
func endFacts(src, tgt any) []EndFact {
	var out []EndFact
	for _, end := range []struct {
		on string
		is any
	}{{"source", src}, {"target", tgt}} {
		named, ok := end.is.(interface{ Name() string })
		if !ok {
			continue
		}
		fact := EndFact{On: end.on, Engine: named.Name()}
		if v, ok := end.is.(versioner); ok {
			fact.Version = v.Version()
		}
		out = append(out, fact)
	}
	return out
}

var prepText = map[load.Prep]string{load.MustBeEmpty: "empty", load.KeepTables: "keep", load.DropTables: "drop", load.Truncate: "truncate"}

// settings are the options that shape a copy, by the names that users know, for its record: two
// runs are compared by them.
func (s CopySpec) settings() json.RawMessage {
	all := map[string]string{
		"lanes": strconv.Itoa(s.Load.Lanes), "finishers": strconv.Itoa(s.Load.Finishers), "range-size": strconv.FormatInt(s.Plan.RangeBytes, 10),
		"buffer": strconv.FormatInt(s.Load.Buffer, 10), "prep": prepText[s.Plan.Prep], "retry-for": s.Load.RetryTime().String(),
		"reject-limit": strconv.FormatInt(s.RejectLimit, 10), "lob-max": strconv.FormatInt(s.Lob.MaxBytes, 10), "sample": onOff(s.Load.Sample),
		"target-schema": s.TargetSchema, "on-table-error": "stop",
	}
	if s.Load.RejectTables {
		all["on-table-error"] = "continue"
	}
	text, err := json.Marshal(all)
	if err != nil { // a map of texts can be written
		return nil
	}
	return text
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
