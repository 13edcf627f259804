package change

import (
	"encoding/binary"
	"slices"
)

// A CatalogueLook is a source's catalogue entry of one table, at or after the log position of the
// Relation that carries it. Names in a log do not identify columns: a column that was dropped and
// added again keeps its name, a renamed one does not.
type CatalogueLook struct {
	// At is a log position after all changes of the table's definition that the entry shows.
	At uint64 `json:"at"`
	// Columns are those of the stream, and dropped ones, by Number. Columns that are not in the
	// stream's publication are missing.
	Columns []CatalogueColumn `json:"columns"`
}

// A CatalogueColumn is a column that a table has or had.
type CatalogueColumn struct {
	Number    int32  `json:"number"`
	Name      string `json:"name,omitempty"`
	Type      uint32 `json:"type,omitempty"`
	Mod       int32  `json:"mod,omitempty"`
	Gone      bool   `json:"gone,omitempty"`
	Generated bool   `json:"generated,omitempty"` // its values are not in the log
	// Native is the server's name of the type, where it was asked for; a Relation has none.
	Native string `json:"native,omitempty"`
}

// If any of this is known, the columns of a message R are followed by a byte 1, the columns'
// numbers, and a byte that says whether a CatalogueLook follows.
const identitiesVersion = 1

const (
	columnGone = 1 << iota
	columnGenerated
)

func (r Relation) appendIdentities(b []byte) []byte {
	if r.Catalogue == nil && !slices.ContainsFunc(r.Columns, func(c RelationColumn) bool { return c.Number != 0 }) {
		return b
	}
	b = append(b, identitiesVersion)
	for _, c := range r.Columns {
		b = binary.BigEndian.AppendUint32(b, uint32(c.Number))
	}
	if r.Catalogue == nil {
		return append(b, 0)
	}
	b = binary.BigEndian.AppendUint64(append(b, 1), r.Catalogue.At)
	b = binary.BigEndian.AppendUint16(b, uint16(len(r.Catalogue.Columns)))
	for _, c := range r.Catalogue.Columns {
		var flags byte
		if c.Gone {
			flags |= columnGone
		}
		if c.Generated {
			flags |= columnGenerated
		}
		b = binary.BigEndian.AppendUint32(b, uint32(c.Number))
		b = append(append(append(b, flags), c.Name...), 0)
		b = binary.BigEndian.AppendUint32(b, c.Type)
		b = binary.BigEndian.AppendUint32(b, uint32(c.Mod))
	}
	return b
}

// identities reads what appendIdentities wrote.
func (d *decoder) identities(r *Relation) {
	if d.byte() != identitiesVersion {
		d.bad = true
		return
	}
	for i := range r.Columns {
		r.Columns[i].Number = int32(d.uint32())
	}
	if d.byte() == 0 || d.bad {
		return
	}
	look := &CatalogueLook{At: uint64(d.uint32())<<32 | uint64(d.uint32())}
	for range d.uint16() {
		if d.bad {
			return
		}
		c := CatalogueColumn{Number: int32(d.uint32())}
		flags := d.byte()
		c.Gone, c.Generated = flags&columnGone != 0, flags&columnGenerated != 0
		c.Name = d.text()
		c.Type, c.Mod = d.uint32(), int32(d.uint32())
		look.Columns = append(look.Columns, c)
	}
	r.Catalogue = look
}
