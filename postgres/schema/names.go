package schema

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// Names reads the names that the target has in the schemas of tables: what Render names itself
// then gets others, unless it is of the same table, or the same.
func (s *Schema) Names(ctx context.Context, tables []tidemark.TableID) error {
	return s.names.Read(ctx, s.Server, tables)
}

// reserve reserves a name in a schema; it returns false if the name is taken.
func (r *renderer) reserve(schema, name string, by server.Holder) bool {
	list := r.taken[schema]
	if list == nil {
		list = map[string]server.Holder{}
		r.taken[schema] = list
	}
	if by.Table.Name = server.Clip(by.Table.Name); !strings.HasSuffix(name, "()") {
		name = server.Clip(name)
	}
	if _, is := list[name]; is || !r.names.Free(schema, name, by) {
		return false
	}
	list[name] = by
	return true
}

// takeNative reserves the name of an index that keeps the name it has on the source. What has it on
// the target must be of a table that the copy fills.
func (r *renderer) takeNative(m *tidemark.Move, name string) {
	if r.reserve(m.To.Schema, name, server.Holder{Table: m.To.TableID}) {
		return
	}
	h := r.names.There(m.To.Schema, server.Clip(name))
	for id := range r.byTo {
		if id.Schema == h.Table.Schema && server.Clip(id.Name) == h.Table.Name {
			return
		}
	}
	r.findings = append(r.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Collision, Object: "index " + m.To.Schema + "." + name,
		Text: "something else on the target has this name, and so " + m.To.String() + " would be without the index", Hint: "Rename one of the two."})
}

// lateFor refuses a table of a file that comes after another one with an index of that name: it is
// built already, or is going to be.
func (r *renderer) lateFor(m *tidemark.Move) {
	if h := r.names.Given(m.To.Schema, server.Clip(m.To.Name)); h.Table.Name != "" && h.Table != m.To.TableID {
		r.findings = append(r.findings, tidemark.Finding{Severity: tidemark.Blocker, Kind: tidemark.Collision, Object: "table " + m.To.String(),
			Text: "an index, type or sequence of " + h.Table.String() + ", which comes earlier in the file, has this name", Hint: "Rename the table with a transformation rule, or load the file into MySQL or MariaDB and copy from there."})
	}
}

// free returns a name that no relation or type of the schema has yet, but for what is the same:
// name, table_name, or name with a number.
func (r *renderer) free(name, table string, by server.Holder) string {
	for i := 0; ; i++ {
		try := name
		switch {
		case i == 1 && table != "":
			try = table + "_" + name
		case i > 0:
			try = fmt.Sprintf("%s_%d", name, i+1)
		}
		if try = shorten(try); r.reserve(by.Table.Schema, try, by) {
			return try
		}
	}
}

// freeFunction is free for a function without parameters.
func (r *renderer) freeFunction(name string, by server.Holder) string {
	for i := 1; ; i++ {
		try := name
		if i > 1 {
			try = fmt.Sprintf("%s_%d", name, i)
		}
		if try = shorten(try); r.reserve(by.Table.Schema, try+"()", by) {
			return try
		}
	}
}

// shorten returns a name that the server does not truncate: what is cut off is replaced by a hash
// of the whole name, so that different names stay different.
func shorten(name string) string {
	if len(name) <= server.MaxName {
		return name
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	n := server.MaxName - 9
	for n > 0 && name[n]&0xc0 == 0x80 {
		n--
	}
	return fmt.Sprintf("%s_%08x", name[:n], h.Sum32())
}

// holder is the maker's table as what has a name.
func (mk *maker) holder(text string) server.Holder {
	return server.Holder{Table: mk.t.TableID, Text: text}
}
