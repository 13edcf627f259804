package load

import (
	"bytes"
	"encoding/json"

	"github.com/tidemarkdb/tidemark"
)

// A plan is stored in pieces, since there may be hundreds of thousands of tables and objects: its
// head, and parts of its lists. A head with lists is of an older version, which had no parts.

// partSize is how many bytes a part has, about.
const partSize = 256 << 10

// A planPart is some of the entries of a plan's lists.
type planPart struct {
	Moves   []tidemark.Move   `json:"moves,omitempty"` // To is null if it is From
	Formats []tidemark.Format `json:"formats,omitempty"`
	Fresh   []bool            `json:"fresh,omitempty"`
	Ranges  []tidemark.Range  `json:"ranges,omitempty"`
	Objects []tidemark.Object `json:"objects,omitempty"`
	Owner   map[string]int    `json:"owner,omitempty"` // without the tables that moves fill themselves
}

// Head returns what a plan has besides its lists, as JSON.
func (p *Plan) Head() ([]byte, error) {
	head := *p
	head.Moves, head.Formats, head.Fresh, head.Ranges, head.Objects, head.Owner = nil, nil, nil, nil, nil, nil
	return json.Marshal(&head)
}

// Parts hands on a plan's lists, in parts of JSON, each of which is only valid until put returns.
func (p *Plan) Parts(put func(part []byte) error) error {
	w := &partWriter{put: put}
	for i := range p.Moves {
		m := p.Moves[i]
		if m.To == m.From {
			m.To = nil
		}
		w.add(planPart{Moves: []tidemark.Move{m}})
	}
	w.end()
	w.add(planPart{Formats: p.Formats, Fresh: p.Fresh})
	w.end()
	for i := range p.Ranges {
		w.add(planPart{Ranges: p.Ranges[i : i+1]})
	}
	w.end()
	for i := range p.Objects {
		w.add(planPart{Objects: p.Objects[i : i+1]})
	}
	w.end()
	owner := map[string]int{}
	own := p.owners()
	for table, move := range p.Owner {
		if at, ok := own[table]; !ok || at != move {
			owner[table] = move
		}
	}
	if len(owner) > 0 {
		w.add(planPart{Owner: owner})
	}
	w.end()
	return w.err
}

// owners returns which move fills which table, without leaves of partitioned tables.
func (p *Plan) owners() map[string]int {
	out := make(map[string]int, len(p.Moves))
	for i := range p.Moves {
		out[p.Moves[i].To.String()] = i
	}
	return out
}

// A partWriter gathers entries, each a JSON document in a line of its own, to parts.
type partWriter struct {
	put func([]byte) error
	buf bytes.Buffer
	err error
}

func (w *partWriter) add(p planPart) {
	if w.err == nil {
		w.err = json.NewEncoder(&w.buf).Encode(p)
	}
	if w.buf.Len() >= partSize {
		w.end()
	}
}

// end hands on what is gathered.
func (w *partWriter) end() {
	if w.err == nil && w.buf.Len() > 0 {
		w.err = w.put(w.buf.Bytes())
	}
	w.buf.Reset()
}

// ReadPlan reads a plan that was stored. parts hands on its parts in their order.
func ReadPlan(head []byte, parts func(use func(part []byte) error) error) (*Plan, error) {
	p := &Plan{}
	if err := json.Unmarshal(head, p); err != nil {
		return nil, err
	}
	extra := map[string]int{}
	err := parts(func(part []byte) error {
		for d := json.NewDecoder(bytes.NewReader(part)); d.More(); {
			var x planPart
			if err := d.Decode(&x); err != nil {
				return err
			}
			p.Moves, p.Formats, p.Fresh = append(p.Moves, x.Moves...), append(p.Formats, x.Formats...), append(p.Fresh, x.Fresh...)
			p.Ranges, p.Objects = append(p.Ranges, x.Ranges...), append(p.Objects, x.Objects...)
			for table, move := range x.Owner {
				extra[table] = move
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range p.Moves {
		if m := &p.Moves[i]; m.To == nil {
			m.To = m.From
		}
	}
	if p.Owner == nil {
		p.Owner = p.owners()
	}
	for table, move := range extra {
		p.Owner[table] = move
	}
	return p, nil
}
