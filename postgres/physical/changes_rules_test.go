package physical

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// changesOf creates a set of changes, as in a server's summary: for each fork its tablespace,
// database, relation, number and limit, and the pages.
func changesOf(t *testing.T, forks [][5]uint32, pages ...[]uint32) *wal.Changes {
	t.Helper()
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0x652b137b)
	for i, f := range forks {
		for _, n := range f {
			b = le.AppendUint32(b, n)
		}
		var chunks [][]byte
		for _, page := range pages[i] {
			for int(page>>16) >= len(chunks) {
				chunks = append(chunks, nil)
			}
			chunks[page>>16] = le.AppendUint16(chunks[page>>16], uint16(page))
		}
		b = le.AppendUint32(b, uint32(len(chunks)))
		for _, c := range chunks {
			b = le.AppendUint16(b, uint16(len(c)/2))
		}
		b = append(b, slices.Concat(chunks...)...)
	}
	b = append(b, make([]byte, 24)...)
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	c := wal.NewChanges()
	if err := c.AddSummary(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRulesPerFile covers what may have happened to a file.
func TestRulesPerFile(t *testing.T) {
	const none, page, most = wal.NoLimit, 8192, 131072 // pages of a segment
	modified := time.Unix(1_700_000_000, 123456789)
	was := map[string]tidemark.DataFile{}
	b := &Backup{dataFolder: dataFolder{facts: facts{page: page, segment: most * page}}}
	b.since.Was = func(p string) (tidemark.DataFile, bool) { f, ok := was[p]; return f, ok }
	b.logged = changesOf(t, [][5]uint32{
		{defaultSpace, 5, 100, 0, none}, {defaultSpace, 5, 101, 0, most + 2}, {defaultSpace, 5, 102, 0, most}, {defaultSpace, 5, 103, 0, none},
		{defaultSpace, 5, 104, 0, none}, {defaultSpace, 5, 105, 0, 0}, {defaultSpace, 5, 107, 2, none}, {defaultSpace, 6, 0, 0, 0}, {16400, 5, 100, 0, none}, {globalSpace, 0, 1262, 0, none},
	}, []uint32{1, 5, most + 3}, []uint32{most + 2}, nil, []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8}, []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, []uint32{1}, []uint32{0}, nil, []uint32{2}, []uint32{0})
	whole := tidemark.FileChange{Whole: true}
	for _, x := range []struct {
		path  string
		pages int64
		why   string
		want  tidemark.FileChange
	}{
		{"base/5/100", 10, "two pages", tidemark.FileChange{Pages: []uint32{1, 5}, Limit: 10}},
		{"base/5/100", 4, "it is shorter by now", tidemark.FileChange{Pages: []uint32{1}, Limit: 4}},
		{"base/5/100.1", 4, "its second segment", tidemark.FileChange{Pages: []uint32{3}, Limit: 4}},
		{"base/5/101", most, "cut in the next segment", tidemark.FileChange{Pages: []uint32{}, Limit: most}},
		{"base/5/101.1", 5, "cut in this segment, and extended", tidemark.FileChange{Pages: []uint32{2}, Limit: 2}},
		{"base/5/101.2", 5, "cut before this segment", whole},
		{"base/5/102", most, "cut at the next segment", tidemark.FileChange{Pages: []uint32{}, Limit: most}},
		{"base/5/102.1", 5, "cut at this segment", whole},
		{"base/5/103", 10, "nine of ten", tidemark.FileChange{Pages: []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8}, Limit: 10}},
		{"base/5/104", 10, "all", whole},
		{"base/5/105", 10, "made anew", whole},
		{"base/5/106", 10, "nothing", tidemark.FileChange{Limit: 10}},
		{"base/5/106_vm", 1, "nothing of its table", tidemark.FileChange{Limit: 1}},
		{"base/5/106_fsm", 3, "nothing of its table", tidemark.FileChange{Limit: 3}},
		{"base/5/100_vm", 1, "its table has changed", whole},
		{"base/5/100_fsm", 3, "its table has changed", whole},
		{"base/5/107_vm", 1, "it has changed, and its table not", whole},
		{"base/6/106", 10, "a database that was made", whole},
		{"pg_tblspc/16400/PG_15_202209061/5/100", 10, "another tablespace", tidemark.FileChange{Pages: []uint32{2}, Limit: 10}},
		{"pg_tblspc/16401/PG_15_202209061/5/100", 10, "one of which nothing is said", tidemark.FileChange{Limit: 10}},
		{"global/1262", 10, "what all databases share", tidemark.FileChange{Pages: []uint32{0}, Limit: 10}},
		{"base/5/110", most + 1, "longer than a segment", whole},
		{"base/5/pg_filenode.map", 1, "no relation", whole},
		{"pg_xact/0000", 1, "no relation", whole},
	} {
		f := tidemark.DataFile{Path: x.path, Size: x.pages * page, Modified: modified}
		was[x.path] = f
		if got := b.Changed(&f); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s, %s: %+v, and not %+v", x.path, x.why, got, x.want)
		}
		delete(was, x.path)
		if got := b.Changed(&f); !got.Whole {
			t.Errorf("%s is not in the earlier backup: %+v", x.path, got)
		}
		was[x.path] = f
		if f.Size++; !b.Changed(&f).Whole {
			t.Errorf("%s ends within a page", x.path)
		}
	}
	f := tidemark.DataFile{Path: "base/5/106_fsm", Size: 3 * page, Modified: modified.Add(1)}
	if !b.Changed(&f).Whole {
		t.Errorf("%s was modified since", f.Path)
	}
}
