package apply

import (
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// Conflict rules check a row's values from before a change. Such a change gets a statement of its
// own, with those values in its WHERE; many of them are still sent in one packet.

// checks reports whether a change has to match more than its key.
func (a *batcher) checks(p *plan, c change.Change) bool {
	return !a.blind && p.id != nil && c.Old != nil && !c.OldKey && p.b.Conflict.Rule.Checks(c.Kind)
}

// leaves reports whether an update leaves out column i, because the source has not changed it and
// the rule checks only changed columns.
func (a *batcher) leaves(p *plan, c change.Change, i int) bool {
	return a.checks(p, c) && p.b.Conflict.Rule == tidemark.CheckChanged && equalValues(a.vals[i], a.olds[i])
}

func equalValues(a, b change.Value) bool {
	return a.Kind == b.Kind && string(a.Data) == string(b.Data)
}

// stillSo appends the conditions that a row is unchanged since before the change: all of it, or the
// columns that the change has changed.
func (a *batcher) stillSo(dst []byte, p *plan, c change.Change) (_ []byte, err error) {
	if !a.checks(p, c) {
		return dst, nil
	}
	for _, i := range p.stored {
		if a.leaves(p, c, i) || c.New != nil && p.b.Conflict.Rule == tidemark.CheckChanged && a.vals[i].Kind == change.UnchangedValue {
			continue
		}
		if dst, err = a.same(append(dst, " AND "...), &p.cols[i], a.olds[i]); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// same appends the condition that a column still has a value, like equals, except for:
//
//   - values that are NULL here, or became NULL on the way (infinity);
//   - times, which the server rounds to the digits of the column;
//   - MariaDB's JSON, which is text: spaces and the order of members are ignored.
func (l *literals) same(dst []byte, c *setCol, v change.Value) ([]byte, error) {
	defer func(n int) { l.odd = n }(l.odd) // nothing is written
	_, form, err := l.value(c, v)
	if err != nil {
		return dst, err
	}
	kind := ""
	switch {
	case form == asNull:
		v = change.Value{Kind: change.NullValue}
	case c.to.Kind == tidemark.DateTime, c.to.Kind == tidemark.Timestamp:
		kind = "DATETIME"
	case c.to.Kind == tidemark.Time:
		kind = "TIME"
	case c.to.Kind == tidemark.JSON && l.srv.MariaDB:
		if l.srv.AtLeast(10, 7, 0) {
			dst, err = l.literal(append(append(append(dst, "JSON_EQUALS("...), c.name...), ','), c, v)
			return append(dst, ')'), err
		}
		dst, err = l.literal(append(append(append(dst, "JSON_COMPACT("...), c.name...), ")=JSON_COMPACT("...), c, v)
		return append(dst, ')'), err
	}
	if kind == "" {
		return l.equals(dst, c, v, true)
	}
	digits := c.to.Precision
	if digits < 0 {
		digits = 6
	}
	dst, err = l.literal(append(append(dst, c.name...), "=CAST("...), c, v)
	return fmt.Appendf(dst, " AS %s(%d))", kind, digits), err
}
