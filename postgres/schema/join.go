package schema

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// smallKey is the size in bytes up to which a key gains nothing from a build of its index beside
// others.
const smallKey = 1 << 20

// plainColumns matches what an index and a constraint write alike: columns without anything else.
var plainColumns = regexp.MustCompile(`^\((?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+")(?:, (?:[a-z_][a-z0-9_$]*|"(?:[^"]|"")+"))*\)$`)

// Join makes one object of the index of a small key and the constraint that takes it over: a server
// makes both in one statement for less.
func (s *Schema) Join(objects []tidemark.Object) []tidemark.Object {
	small := map[string]*tidemark.Object{}
	for i := range objects {
		if o := &objects[i]; o.Kind == "index" && o.Bytes <= smallKey && len(o.SQL) == 1 {
			small[o.ID] = o
		}
	}
	into := map[string]string{} // by the ID of a joined index: that of its constraint
	for i := range objects {
		if o := &objects[i]; o.Kind == "constraint" && len(o.SQL) > 0 {
			for _, id := range o.Depends {
				if x := small[id]; x != nil && joined(o, x) {
					into[id] = o.ID
					break
				}
			}
		}
	}
	if len(into) == 0 {
		return objects
	}
	out := objects[:0]
	for _, o := range objects {
		if into[o.ID] != "" {
			continue
		}
		o.Depends = withKeys(o.Depends, into, o.ID)
		if o.Kind == "constraint" { // none waits for a small key, which waits for the others' indexes
			o.After = slices.DeleteFunc(slices.Clone(o.After), func(id string) bool { return into[id] != "" })
		}
		o.After = withKeys(o.After, into, o.ID)
		out = append(out, o)
	}
	clear(objects[len(out):])
	return out
}

// joined turns a constraint into one that makes its own index, if nothing else is to be made of it.
func joined(o, x *tidemark.Object) bool {
	table := server.QuoteTable(o.Table)
	_, name, _ := strings.Cut(o.ID, " ")
	name, named := strings.CutSuffix(name, " ON "+table)
	columns, unique := strings.CutPrefix(x.SQL[0], "CREATE UNIQUE INDEX "+name+" ON "+table)
	if columns = strings.TrimPrefix(strings.TrimPrefix(columns, " USING btree"), " "); !named || !unique || x.Table != o.Table || x.Phase != o.Phase || !plainColumns.MatchString(columns) {
		return false
	}
	for _, kind := range []string{" PRIMARY KEY", " UNIQUE"} {
		for _, only := range []string{"ONLY ", ""} {
			add := "ALTER TABLE " + only + table + " ADD CONSTRAINT " + name + kind
			if rest, is := strings.CutPrefix(o.SQL[0], add+" USING INDEX "+name); is {
				o.SQL = append([]string{add + " " + columns + rest}, o.SQL[1:]...)
				o.Bytes, o.Heavy = x.Bytes, x.Heavy
				o.Depends, o.After = slices.Concat(o.Depends, x.Depends), slices.Concat(o.After, x.After)
				return true
			}
		}
	}
	return false
}

// withKeys returns IDs with those of joined indexes replaced, without the object's own.
func withKeys(ids []string, into map[string]string, own string) []string {
	if !slices.ContainsFunc(ids, func(id string) bool { return into[id] != "" }) {
		return ids
	}
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		if to := into[id]; to != "" {
			id = to
		}
		if id != own && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
