package apply

import (
	"fmt"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// Conflict rules look at what a row had before a change. Such a change is a statement of
// its own, which has that in its WHERE: many of them still go out in one packet.

// checks says whether a change has to find more than its key.
func (a *batcher) checks(p *plan, c change.Change) bool {
	return !a.blind && p.id != nil && c.Old != nil && !c.OldKey && p.b.Conflict.Rule.Checks(c.Kind)
}

// leaves says whether an update leaves column i as it is, since the source has not changed
// it, and only what it has changed is looked at.
func (a *batcher) leaves(p *plan, c change.Change, i int) bool {
	return a.checks(p, c) && p.b.Conflict.Rule == tidemark.CheckChanged && equalValues(a.vals[i], a.olds[i])
}

func equalValues(a, b change.Value) bool {
	return a.Kind == b.Kind && string(a.Data) == string(b.Data)
}

// stillSo appends the conditions that a row is as it was: all of it, or what the change
// has changed.
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

// same appends the condition that a column still has a value, as equals does, but for:
//
//   - what is NULL here, or was none on its way (infinity);
//   - times, which the server rounds to the digits of the column;
//   - MariaDB's JSON, which is text: spaces and the order of members are no difference.
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
