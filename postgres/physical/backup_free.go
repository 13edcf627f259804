package physical

import (
	"context"
	"encoding/binary"
	"path"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// Free returns how much of the pages read of a table or an index is empty: the space between the
// end of the line pointers and the first row (pd_lower and pd_upper,
// src/include/storage/bufpage.h). VACUUM leaves such space: it truncates files only at their end.
// relation is the path of the file without the segment number.
func (d *dataFolder) Free(f *tidemark.DataFile, at int64, content []byte) (relation string, free, of int64) {
	folder, name := path.Split(f.Path)
	r, ok := parseRelation(name)
	if !ok || r.fork != "" || !isDatabaseFolder(path.Clean(folder)) {
		return "", 0, 0
	}
	const header = 24 // bytes
	for ; len(content) >= d.page; content = content[d.page:] {
		lower, upper := int(binary.NativeEndian.Uint16(content[12:])), int(binary.NativeEndian.Uint16(content[14:]))
		of += int64(d.page)
		switch {
		case lower == 0 && upper == 0: // never written
			free += int64(d.page)
		case header <= lower && lower <= upper && upper <= d.page:
			free += int64(upper - lower)
		}
	}
	return folder + r.number, free, of
}

// NameRelation returns a relation's name by the path of its first file: "shop.public.item".
func (d *dataFolder) NameRelation(ctx context.Context, relation string) string {
	words := strings.Split(relation, "/")
	if len(words) < 3 {
		return ""
	}
	space := "0" // the database's own tablespace
	if words[0] == spaceFolder {
		space = words[1]
	}
	name, err := d.relationName(ctx, words[len(words)-2], space, words[len(words)-1])
	if err != nil {
		return "" // dropped in the meantime
	}
	return name
}
