package tidemark

import (
	"errors"
	"fmt"
	"strings"
)

// A Need is a requirement of a stream on the server at one of its ends: what it has, what is
// required, and how to get there.
type Need struct {
	End      string   `json:"end"`  // "source" or "target"
	Name     string   `json:"name"` // of a setting, a right or an object
	Have     string   `json:"have"`
	Want     string   `json:"want"`
	Met      bool     `json:"met"`
	Severity Severity `json:"severity"` // of an unmet need: a Blocker keeps a stream from starting
	Kind     Kind     `json:"kind,omitempty"`
	Why      string   `json:"why,omitempty"`     // the consequence if it is unmet
	Change   []string `json:"change,omitempty"`  // statements for that server, in their order
	Restart  bool     `json:"restart,omitempty"` // it must be restarted after them
	Hint     string   `json:"hint,omitempty"`    // what else helps, or what to do if no statement can
}

// Remedy returns in one line what to do about an unmet need.
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

// Finding returns the need as a check reports it.
func (n *Need) Finding() Finding {
	f := Finding{Severity: n.Severity, Kind: n.Kind, Object: n.End + ": " + n.Name, Text: n.Have + ", wanted: " + n.Want, Hint: n.Remedy()}
	if n.Why != "" {
		f.Text += ": " + n.Why
	}
	return f
}

// Needs collects a stream's requirements on one end.
type Needs struct {
	End  string
	List []Need
}

// Add adds a need.
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

// FirstUnmet returns the error of the first need that keeps a stream from starting; nil if there is
// none.
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

// A Doubt is a column with values for which the target has no place.
type Doubt struct {
	Table  TableID `json:"table"`
	Column string  `json:"column"`
	What   string  `json:"what"` // "zero or incomplete dates"
	Rows   int64   `json:"rows"`
	Policy string  `json:"policy,omitempty"` // the option that decides what becomes of them; "": none
	// ForeignKey is a key that such rows do not fulfil there; Column is its first one then.
	ForeignKey string `json:"foreign_key,omitempty"`
}
