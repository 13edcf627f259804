package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// With binlog_row_value_options=PARTIAL_JSON a MySQL source logs, for a document that an update has
// changed with JSON_SET, JSON_REPLACE and JSON_REMOVE, only these operations, if that is smaller.
// The document before them is in the before image if the log has that of all columns: so the later
// document is built here, and consumers of the stream see no difference.

// partialJSON is the one option of binlog_row_value_options, as row events have them.
const partialJSON = 1

// What a diff does (sql/json_diff.h).
const (
	diffReplace = iota
	diffInsert
	diffRemove
)

// errDiff means that a document lacks the place that a diff names.
var errDiff = errors.New("a change of a JSON document that does not fit its earlier value")

// diffImage finds the values of the after image of an update, in an event that may store documents
// as diffs (sql/rpl_record.cc, unpack_row). The values are preceded by the options in use, and a
// bit for each JSON column of the table, including columns that the image leaves out.
func (t *Table) diffImage(p, present []byte, out []field) (rest []byte, err error) {
	r := &Reader{Rest: p}
	options, partial := r.Lenenc(), []byte(nil)
	if options&partialJSON != 0 {
		partial = r.Take((len(t.Docs) + 7) / 8)
	}
	if r.Bad || options&^partialJSON != 0 {
		return nil, ErrEvent
	}
	if rest, err = t.image(r.Rest, present, out); err != nil || partial == nil {
		return rest, err
	}
	for n, i := range t.Docs {
		f := &out[i]
		switch {
		case partial[n>>3]>>(n&7)&1 == 0 || f.state != fieldValue:
		case len(f.v) == 0:
			f.state = fieldAbsent // unchanged
		default:
			f.state = fieldDiffs
		}
	}
	return rest, nil
}

// patched appends the document that results from applying an update's diffs to the one before it.
func (t *Table) patched(dst []byte, c *Column, before *field, diffs []byte) ([]byte, error) {
	switch before.state {
	case fieldAbsent:
		return dst, &tidemark.Error{Kind: tidemark.Unsupported, Op: "follow", Object: t.ID.String(), Err: errors.New("the log has only what was changed in the documents of column " + c.Name + ", and not what they were before"), Hint: "SET GLOBAL binlog_row_image = 'FULL' (or binlog_row_value_options = '') on the source, look for programs that set these for themselves, and copy the table again."}
	case fieldValue:
		return appendPatched(dst, before.v, diffs)
	}
	return dst, errDiff
}

// appendPatched appends the result of applying diffs to a document, as MySQL prints it.
//
// Each diff is a byte for the operation, a path, and unless it removes a value, that value, each
// with its length (sql/json_diff.cc, Json_diff_vector::read_binary). Diffs apply in order: the
// indexes in a path count what earlier ones have inserted and removed.
func appendPatched(dst, doc, diffs []byte) ([]byte, error) {
	root := jsonNode{kind: jsonLiteral, v: []byte{0}}
	if len(doc) > 0 {
		root = jsonNode{kind: doc[0], v: doc[1:]}
	}
	for r := (&Reader{Rest: diffs}); len(r.Rest) > 0; {
		what := r.Byte()
		path, ok := readJSONPath(r.Take(r.Lenenc()))
		var value jsonNode
		if what != diffRemove {
			v := r.Take(r.Lenenc())
			if len(v) == 0 {
				return dst, errValue
			}
			value = jsonNode{kind: v[0], v: v[1:]}
		}
		switch {
		case r.Bad || !ok || what > diffRemove:
			return dst, errValue
		case !root.apply(what, path, value):
			return dst, errDiff
		}
	}
	dst, ok := root.append(dst, 0)
	if !ok {
		return dst, errValue
	}
	return dst, nil
}

// A jsonNode is a value in a document that is being changed: in its binary form or, once a path has
// gone through it, as its members.
type jsonNode struct {
	kind    byte
	v       []byte // after the kind, in the binary form; nil once the members are known
	keys    [][]byte
	members []jsonNode
}

// A jsonLeg is a step of a path: to the member name of an object, or to the cell at of an array.
type jsonLeg struct {
	name    []byte
	at      int
	inArray bool
	fromEnd bool // at counts from the last cell
}

func (n *jsonNode) isArray() bool  { return n.kind == jsonSmallArray || n.kind == jsonLargeArray }
func (n *jsonNode) isObject() bool { return n.kind == jsonSmallObject || n.kind == jsonLargeObject }

// apply applies one diff, and reports whether the document has such a place. The root itself is
// never one: a new root is logged whole.
func (n *jsonNode) apply(what byte, path []jsonLeg, value jsonNode) bool {
	if len(path) == 0 {
		return false
	}
	parent, last := path[:len(path)-1], path[len(path)-1]
	switch what {
	case diffReplace:
		if n = n.find(path); n != nil {
			*n = value
		}
		return n != nil
	case diffInsert:
		n = n.find(parent)
		return n != nil && n.insert(last, value)
	}
	n = n.find(parent)
	return n != nil && n.remove(last)
}

// find returns the value at a path; nil if there is none. A value that is not an array is treated
// as an array of that single value.
func (n *jsonNode) find(path []jsonLeg) *jsonNode {
	for _, leg := range path {
		if leg.inArray && !n.isArray() {
			if leg.at != 0 {
				return nil
			}
			continue
		}
		i, there := n.place(leg)
		if !there {
			return nil
		}
		n = &n.members[i]
	}
	return n
}

// place returns the index of the member that a leg refers to or, if it does not exist, the index it
// would get; -1 if the value cannot have such members.
func (n *jsonNode) place(leg jsonLeg) (i int, there bool) {
	if leg.inArray && !n.isArray() || !leg.inArray && !n.isObject() || !n.open() {
		return -1, false
	}
	size := len(n.members)
	switch {
	case !leg.inArray:
		return slices.BinarySearchFunc(n.keys, leg.name, compareJSONKeys)
	case leg.at >= size && leg.fromEnd:
		return 0, false
	case leg.fromEnd:
		return size - 1 - leg.at, true
	}
	return min(leg.at, size), leg.at < size
}

// compareJSONKeys implements MySQL's order of the members of an object.
func compareJSONKeys(a, b []byte) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return bytes.Compare(a, b)
}

func (n *jsonNode) insert(leg jsonLeg, value jsonNode) bool {
	i, there := n.place(leg)
	if i < 0 || there && !leg.inArray {
		return false
	}
	n.members = slices.Insert(n.members, i, value)
	if !leg.inArray {
		n.keys = slices.Insert(n.keys, i, leg.name)
	}
	return true
}

func (n *jsonNode) remove(leg jsonLeg) bool {
	i, there := n.place(leg)
	if !there {
		return false
	}
	n.members = slices.Delete(n.members, i, i+1)
	if !leg.inArray {
		n.keys = slices.Delete(n.keys, i, i+1)
	}
	return true
}

// open parses the members of an object or an array.
func (n *jsonNode) open() bool {
	if n.v == nil {
		return true
	}
	l, ok := readJSONList(n.kind, n.v)
	if !ok {
		return false
	}
	n.members = make([]jsonNode, l.n)
	if n.isObject() {
		n.keys = make([][]byte, l.n)
	}
	for i := range n.members {
		m := &n.members[i]
		if n.keys != nil {
			if n.keys[i], ok = l.key(i); !ok {
				return false
			}
		}
		if m.kind, m.v, ok = l.value(i); !ok {
			return false
		}
	}
	n.v = nil
	return true
}

// append appends the value as MySQL prints it.
func (n *jsonNode) append(dst []byte, depth int) ([]byte, bool) {
	if n.v != nil || !n.isArray() && !n.isObject() {
		return appendJSONValue(dst, n.kind, n.v, depth)
	}
	if depth >= jsonDepth {
		return dst, false
	}
	dst = append(dst, jsonBrackets[n.kind][0])
	for i := range n.members {
		if i > 0 {
			dst = append(dst, ',', ' ')
		}
		if n.isObject() {
			dst = append(appendJSONString(dst, n.keys[i]), ':', ' ')
		}
		var ok bool
		if dst, ok = n.members[i].append(dst, depth+1); !ok {
			return dst, false
		}
	}
	return append(dst, jsonBrackets[n.kind][1]), true
}

// readJSONPath parses a path as MySQL prints it: $, followed by .name, ."name", [3], [last] and
// [last-3].
func readJSONPath(p []byte) (path []jsonLeg, ok bool) {
	if len(p) == 0 || p[0] != '$' {
		return nil, false
	}
	for p = p[1:]; len(p) > 0; {
		var leg jsonLeg
		switch p[0] {
		case '.':
			leg.name, p, ok = readJSONName(p[1:])
		case '[':
			text, rest, closed := strings.Cut(string(p[1:]), "]")
			leg, ok = readJSONCell(text)
			ok, p = ok && closed, []byte(rest)
		default:
			return nil, false
		}
		if !ok {
			return nil, false
		}
		path = append(path, leg)
	}
	return path, true
}

// readJSONName parses the name of a member. Names that are not identifiers are quoted like JSON
// strings.
func readJSONName(p []byte) (name, rest []byte, ok bool) {
	end := 0
	if len(p) > 0 && p[0] == '"' {
		for end = 1; end < len(p) && p[end] != '"'; end++ {
			if p[end] == '\\' {
				end++
			}
		}
		if end >= len(p) {
			return nil, nil, false
		}
		name, rest = p[1:end], p[end+1:]
	} else {
		if end = bytes.IndexAny(p, ".[* \t\r\n"); end < 0 {
			end = len(p)
		}
		if name, rest = p[:end], p[end:]; end == 0 {
			return nil, nil, false
		}
	}
	if bytes.IndexByte(name, '\\') < 0 {
		return name, rest, true
	}
	var s string
	err := json.Unmarshal(slices.Concat([]byte{'"'}, name, []byte{'"'}), &s)
	return []byte(s), rest, err == nil
}

// readJSONCell parses the text between the brackets of an array cell.
func readJSONCell(text string) (jsonLeg, bool) {
	leg := jsonLeg{inArray: true}
	if text, leg.fromEnd = strings.CutPrefix(text, "last"); leg.fromEnd {
		if text == "" {
			return leg, true
		}
		var minus bool
		if text, minus = strings.CutPrefix(text, "-"); !minus {
			return leg, false
		}
	}
	at, err := strconv.ParseUint(text, 10, 31)
	leg.at = int(at)
	return leg, err == nil
}
