package apply

import (
	"encoding/binary"
	"maps"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// Rebind binds all relations again from the next transaction on, because Bind would now return
// something else.
func (r *Run) Rebind() { r.rebind.Store(true) }

// refresh carries out a Rebind.
func (b *browser) refresh() {
	if !b.rebind.Swap(false) {
		return
	}
	for id := range b.received {
		b.unbound[id] = true
	}
}

// bindFor binds the relations of a change, if they were sent again since they were bound. It does
// not bind them on arrival: before a place that the target has already, a table may have had
// another form than it has now.
func (b *browser) bindFor(message []byte, place uint64, fresh *bool) error {
	if len(b.unbound) == 0 {
		return nil
	}
	if tidemark.ChangeKind(message[0]) == tidemark.TruncateChange {
		t, err := change.ParseTruncation(message[1:])
		if err != nil {
			return err
		}
		for _, id := range t.Tables {
			if err := b.bindOne(id, place, fresh); err != nil {
				return err
			}
		}
		return nil
	}
	if len(message) < 5 {
		return nil // its decoder reports the error
	}
	return b.bindOne(binary.BigEndian.Uint32(message[1:]), place, fresh)
}

// skippedAs calls OnSkipped for an update or a delete of a table that is not selected.
func (b *browser) skippedAs(message []byte) error {
	c, err := change.Parse(message)
	if err != nil || b.bindings[c.Table] != nil {
		return err
	}
	return b.opt.OnSkipped(c)
}

// bindOne binds a relation. Maps are replaced, once per piece of a transaction.
func (b *browser) bindOne(id uint32, place uint64, fresh *bool) error {
	if !b.unbound[id] {
		return nil
	}
	delete(b.unbound, id)
	rel := b.received[id]
	if last, ok := b.current[rel.Table]; ok && last != id {
		b.unbound[last] = true // a table may get back a form that it had before, which is the same relation of MySQL
	}
	b.current[rel.Table] = id
	bound, err := b.opt.Bind(rel, place)
	if err != nil {
		return err
	}
	if b.bindings[id].same(bound) && !b.isOff(bound.Table.TableID) {
		return nil // servers send it again and again
	}
	if !*fresh {
		b.bounds, b.bindings, *fresh = maps.Clone(b.bounds), maps.Clone(b.bindings), true
	}
	delete(b.bounds, id)
	delete(b.bindings, id)
	if bound != nil {
		b.bounds[id], b.bindings[id] = &bound.Bound, bound
	}
	return nil
}
