package tidemark

import (
	"errors"
	"fmt"
	"strings"
)

// A Need is what a stream wants of the server at one of its ends: what there is, what is wanted, and what makes the
// one the other.
type Need struct {
	End      string   `json:"end"`  // "source" or "target"
	Name     string   `json:"name"` // of a setting, a right or an object
	Have     string   `json:"have"`
	Want     string   `json:"want"`
	Met      bool     `json:"met"`
	Severity Severity `json:"severity"` // of a need that is not met: a Blocker keeps a stream from being begun
	Kind     Kind     `json:"kind,omitempty"`
	Why      string   `json:"why,omitempty"`     // what comes of it where it is not met
	Change   []string `json:"change,omitempty"`  // statements for that server, in their order
	Restart  bool     `json:"restart,omitempty"` // it has to be started again behind them
	Hint     string   `json:"hint,omitempty"`    // what else helps, or what does where no statement can
}

// Remedy says in one line what to do about a need that is not met.
func (n *Need) Remedy() string {
	var out []string
	for _, sql := range n.Change {
		out = append(out, sql+";")
	}
	if n.Restart {
		out = append(out, "Then restart the server.")
	}
	if n.Hint != "" {
		out = append(out, n.Hint)
	}
	return strings.Join(out, " ")
}

// Finding is the need as a check has to tell of it.
func (n *Need) Finding() Finding {
	f := Finding{Severity: n.Severity, Kind: n.Kind, Object: n.End + ": " + n.Name, Text: n.Have + ", wanted: " + n.Want, Hint: n.Remedy()}
	if n.Why != "" {
		f.Text += ": " + n.Why
	}
	return f
}

// Needs collects what a stream wants of one end.
type Needs struct {
	End  string
	List []Need
}

// Add notes a need.
func (l *Needs) Add(n Need) {
	n.End = l.End
	if n.Severity == Blocker && n.Kind == 0 {
		n.Kind = Unsupported
	}
	if n.Met {
		n.Severity, n.Kind, n.Why, n.Change, n.Restart, n.Hint = Note, 0, "", nil, false, ""
	}
	l.List = append(l.List, n)
}

// FirstUnmet is the error of the first need that keeps a stream from being begun; nil if there is none.
func FirstUnmet(op string, needs []Need) error {
	var first *Need
	others := 0
	for i := range needs {
		switch n := &needs[i]; {
		case n.Met || n.Severity != Blocker:
		case first == nil:
			first = n
		default:
			others++
		}
	}
	if first == nil {
		return nil
	}
	f := first.Finding()
	if others > 0 {
		f.Text += fmt.Sprintf("; and %d more, which tidemark check --replicate lists", others)
	}
	return &Error{Kind: f.Kind, Op: op, Object: f.Object, Err: errors.New(f.Text), Hint: f.Hint}
}

// A LobSize is how large the largest value of a column is.
type LobSize struct {
	Table  string `json:"table"`
	Column string `json:"column"`
	Type   string `json:"type"`
	Bytes  int64  `json:"bytes"` // of the largest that was looked at
	Whole  bool   `json:"whole"` // all rows were looked at; else some
}
