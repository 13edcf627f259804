package job

import (
	"errors"

	"github.com/tidemarkdb/tidemark"
)

// Streamable are the moves that a stream can carry, and the findings against others.
// Kind Empty: there are none.
func Streamable(moves []tidemark.Move) ([]tidemark.Move, []tidemark.Finding, error) {
	var out []tidemark.Move
	var findings []tidemark.Finding
	for _, m := range moves {
		switch {
		case m.From.Form == tidemark.LargeObjects:
			findings = append(findings, tidemark.Finding{Severity: tidemark.Warning, Object: "large objects", Text: "are copied, but their later changes are not in the stream"})
		case m.From.PartitionOf != (tidemark.TableID{}):
			// replicated under the name of its root
		default:
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil, nil, &tidemark.Error{Kind: tidemark.Empty, Op: "replicate", Object: "source", Err: errors.New("it has no tables to replicate, or the rules select none"), Hint: "Check that the URL names the right database, and check --include and --exclude."}
	}
	return out, findings, nil
}
