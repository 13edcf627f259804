package peek

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/queue"
)

// errEnough ends the reading of a queue.
var errEnough = errors.New("all that was requested is printed")

// Print prints the content of a queue. It skips what is trimmed meanwhile.
func Print(ctx context.Context, log *queue.Log, out io.Writer, q Question) error {
	p := &printer{out: out, json: q.JSON, relations: map[uint32]change.Relation{}}
	n, printed := 0, uint64(0)
	for try := 0; ; try++ {
		st, err := log.Stats(ctx)
		if err != nil {
			return err
		}
		if first := max(st.First, printed); st.Last > 0 && first < st.Last {
			err = log.Read(ctx, first, func(tx *change.Tx) error {
				if err := p.print(tx); err != nil {
					return err
				}
				if !tx.More {
					n++
					printed = tx.Place
				}
				if n >= q.Limit || !tx.More && tx.Place >= st.Last {
					return errEnough
				}
				return nil
			})
		}
		switch {
		case tidemark.KindOf(err) == tidemark.Lost && !p.within && try < 10:
			continue
		case errors.Is(err, errEnough):
			return nil
		case err == nil && n == 0 && !q.JSON:
			_, err = fmt.Fprintln(out, "the queue is empty")
		}
		return err
	}
}

// A printer prints transactions.
type printer struct {
	out       io.Writer
	json      bool
	relations map[uint32]change.Relation
	within    bool // inside a transaction with more pieces to come
}

// A printedChange is a change as JSON.
type printedChange struct {
	Place  uint64             `json:"place"`
	Time   time.Time          `json:"commit_time"`
	XID    uint32             `json:"xid,omitempty"`
	GTID   string             `json:"gtid,omitempty"`
	Origin string             `json:"origin,omitempty"`
	Op     string             `json:"op"`
	Table  string             `json:"table,omitempty"`
	Old    map[string]*string `json:"old,omitempty"`
	New    map[string]*string `json:"new,omitempty"`
	Text   string             `json:"text,omitempty"`
}

func (p *printer) print(tx *change.Tx) error {
	if !p.json && !p.within {
		name := tx.GTID
		if name == "" {
			name = fmt.Sprint(tx.XID)
		}
		fmt.Fprintf(p.out, "transaction %s at %d, committed %s\n", name, tx.Place, tx.Time.UTC().Format("2006-01-02 15:04:05.000000"))
	}
	p.within = tx.More
	for rest := tx.Changes; len(rest) > 0; {
		c, next, err := change.Next(rest)
		if err != nil {
			return err
		}
		rest = next
		if c.Kind == tidemark.RelationChange {
			rel, err := change.ParseRelation(c.Body)
			if err != nil {
				return err
			}
			p.relations[rel.ID] = rel
			continue
		}
		if err := p.change(tx, c); err != nil {
			return err
		}
	}
	return nil
}

func (p *printer) change(tx *change.Tx, c change.Change) error {
	x := printedChange{Place: tx.Place, Time: tx.Time.UTC(), XID: tx.XID, GTID: tx.GTID, Origin: tx.Origin}
	rel := p.relations[c.Table]
	switch c.Kind {
	case tidemark.InsertChange, tidemark.UpdateChange, tidemark.DeleteChange:
		x.Op = map[tidemark.ChangeKind]string{tidemark.InsertChange: "insert", tidemark.UpdateChange: "update", tidemark.DeleteChange: "delete"}[c.Kind]
		x.Table, x.Old, x.New = rel.Table.String(), named(rel, c.Old, c.OldKey), named(rel, c.New, false)
	case tidemark.TruncateChange:
		t, err := change.ParseTruncation(c.Body)
		if err != nil {
			return err
		}
		var names []string
		for _, id := range t.Tables {
			names = append(names, p.relations[id].Table.String())
		}
		x.Op, x.Table = "truncate", strings.Join(names, ", ")
	case tidemark.MessageChange:
		m, err := change.ParseLogicalMessage(c.Body)
		if err != nil {
			return err
		}
		x.Op, x.Text = "message", m.Prefix+": "+string(m.Data)
	}
	if p.json {
		return json.NewEncoder(p.out).Encode(x)
	}
	_, err := fmt.Fprintf(p.out, "  %s %s%s%s%s\n", x.Op, x.Table, values(" was ", rel, c.Old, c.OldKey), values(" ", rel, c.New, false), x.Text)
	return err
}

// named returns a tuple's values by column; values that it lacks are left out.
func named(rel change.Relation, t change.Tuple, keyOnly bool) map[string]*string {
	if t == nil {
		return nil
	}
	out := map[string]*string{}
	for i, v := range t.Values(nil) {
		if i >= len(rel.Columns) || v.Kind == change.UnchangedValue || keyOnly && !rel.Columns[i].Key {
			continue
		}
		out[rel.Columns[i].Name] = nil
		if v.Kind != change.NullValue {
			text := string(v.Data)
			out[rel.Columns[i].Name] = &text
		}
	}
	return out
}

// values formats a tuple in one line; long values are cut.
func values(before string, rel change.Relation, t change.Tuple, keyOnly bool) string {
	if t == nil {
		return ""
	}
	var parts []string
	for i, v := range t.Values(nil) {
		if i >= len(rel.Columns) || keyOnly && !rel.Columns[i].Key {
			continue
		}
		text := "NULL"
		switch v.Kind {
		case change.UnchangedValue:
			text = "(unchanged)"
		case change.NullValue:
		default:
			text = string(v.Data)
			if len(text) > 60 {
				text = strings.ToValidUTF8(text[:57], "") + "..."
			}
			text = fmt.Sprintf("%q", text)
		}
		parts = append(parts, rel.Columns[i].Name+"="+text)
	}
	return before + strings.Join(parts, " ")
}
