package dumped

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// hintServer is for what only a server can compute.
const hintServer = "Leave the table out, or load the dump into a MySQL or MariaDB server and compare with that."

// A Survey is what a file has of each table's rows.
type Survey struct{ tables map[tidemark.TableID]*rows }

// rows are the pieces of a table.
type rows struct {
	pieces  []tidemark.Range
	columns map[string]int // how many pieces name this column, in lower case
	named   int            // pieces that name columns
	server  bool           // some statement is INSERT IGNORE, REPLACE or the like
}

// See counts a piece of rows of a table. Kind Unsupported: only a server can compute them.
func (s *Survey) See(t *tidemark.Table, p *tidemark.Piece) error {
	if err := p.Damage("compare", t.String()); err != nil {
		return err
	}
	if p.Kind == tidemark.ExecuteAt {
		return &tidemark.Error{Kind: tidemark.Unsupported, Op: "compare", Object: t.String(), Err: fmt.Errorf("the statement at line %d computes its rows, which only a server can", p.Line), Hint: hintServer}
	}
	if s.tables == nil {
		s.tables = map[tidemark.TableID]*rows{}
	}
	r := s.tables[t.TableID]
	if r == nil {
		r = &rows{columns: map[string]int{}}
		s.tables[t.TableID] = r
	}
	r.pieces = append(r.pieces, tidemark.Range{ID: p.ID, Rows: p.Rows, Bytes: p.Bytes})
	r.server = r.server || p.AsSQL
	columns := p.Columns
	if columns == nil {
		for i := range t.Columns {
			if !t.Columns[i].Invisible {
				columns = append(columns, t.Columns[i].Name)
			}
		}
	}
	r.named++
	for _, name := range columns {
		r.columns[strings.ToLower(name)]++
	}
	return nil
}

// Narrow returns the pieces of the move that all rows of the file have, as positions in m.Source,
// and says which columns it leaves out: what a copy writes there, its target decides.
func (s *Survey) Narrow(m *tidemark.Move) (keep []int, findings []tidemark.Finding, err error) {
	r := s.tables[m.From.TableID]
	var lacks []string
	for i, name := range m.Source {
		if r == nil || r.columns[strings.ToLower(name)] == r.named {
			keep = append(keep, i)
		} else {
			lacks = append(lacks, name)
		}
	}
	object := "table " + m.From.String()
	if len(keep) == 0 && len(lacks) > 0 {
		return nil, nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "compare", Object: object, Err: errors.New("no column is in all of its rows in the file"), Hint: hintServer}
	}
	if len(lacks) > 0 {
		slices.Sort(lacks)
		findings = append(findings, tidemark.Finding{Severity: tidemark.Warning, Object: object, Text: "not compared, because rows of the file do not have them: the columns " + strings.Join(lacks, ", ")})
	}
	if r != nil && r.server {
		findings = append(findings, tidemark.Finding{Severity: tidemark.Note, Object: object, Text: "INSERT IGNORE and REPLACE are compared as if each inserted its rows"})
	}
	return keep, findings, nil
}
