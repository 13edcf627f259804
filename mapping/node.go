package mapping

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A node is a piece of JSON or YAML with its position.
type node struct {
	kind    nodeKind
	text    string // of quoted and plain
	items   []*node
	members []member
	place
}

type place struct{ line, col int } // from 1; col is 0 if it was not counted

type member struct {
	key   string
	value *node
	place
}

type nodeKind uint8

const (
	quoted nodeKind = iota // a string
	plain                  // a number, true, false, or an unquoted YAML scalar
	null
	list
	object
)

func (k nodeKind) String() string {
	return [...]string{"a text", "a plain value", "null", "a list", "an object"}[k]
}

// problems collects the errors and warnings of a text, so that its author sees all of them at once.
type problems struct {
	op       string // of the resulting error
	findings []tidemark.Finding
	errs     []*tidemark.Error
}

// fail records an error of who: `rule-id 3`.
func (p *problems) fail(kind tidemark.Kind, who, hint, format string, args ...any) {
	p.errs = append(p.errs, &tidemark.Error{Kind: kind, Object: who, Err: fmt.Errorf(format, args...), Hint: hint})
}

func (p *problems) find(s tidemark.Severity, who, hint, format string, args ...any) {
	p.findings = append(p.findings, tidemark.Finding{Severity: s, Object: who, Text: fmt.Sprintf(format, args...), Hint: hint})
}

func (p *problems) warn(who, hint, format string, args ...any) {
	p.find(tidemark.Warning, who, hint, format, args...)
}

// maxErrors is how many errors one message lists.
const maxErrors = 8

// err returns all errors as one, with the Kind and hint of the first; nil if there are none.
func (p *problems) err() error {
	if len(p.errs) == 0 {
		return nil
	}
	first := p.errs[0]
	var texts []string
	for i, e := range p.errs {
		if i == maxErrors {
			texts = append(texts, fmt.Sprintf("and %d more", len(p.errs)-i))
			break
		}
		texts = append(texts, strings.TrimSpace(e.Error()))
	}
	return &tidemark.Error{Op: p.op, Kind: first.Kind, Hint: first.Hint, Err: errors.New(strings.Join(texts, "; "))}
}

// A reader reads an object key by key, and remembers the keys, so that it can report those that
// were not read.
type reader struct {
	n    *node
	who  string // whose object it is, for messages
	path string // where in it: "object-locator."
	p    *problems
	asks []string
}

func newReader(n *node, who, path string, p *problems) *reader {
	return &reader{n: n, who: who, path: path, p: p}
}

// get returns a key's value; nil if it is missing or null.
func (r *reader) get(key string) *node {
	r.asks = append(r.asks, key)
	for i := range r.n.members {
		if r.n.members[i].key == key && r.n.members[i].value.kind != null {
			return r.n.members[i].value
		}
	}
	return nil
}

func (r *reader) has(key string) bool { return r.get(key) != nil }

// bad records that a key's value is invalid.
func (r *reader) bad(n *node, key, want string) {
	got := n.kind.String()
	if n.kind <= plain {
		got = strconv.Quote(n.text)
	}
	r.p.fail(tidemark.Invalid, r.who, "", "%s%s at line %d must be %s, not %s", r.path, key, n.line, want, got)
}

// text returns a scalar as written; "" if it is missing.
func (r *reader) text(key string) string {
	n := r.get(key)
	if n == nil {
		return ""
	}
	if n.kind > plain {
		r.bad(n, key, "a text")
		return ""
	}
	return n.text
}

// required is text for a key that must be present and not empty.
func (r *reader) required(key string) string {
	s := r.text(key)
	if s == "" {
		r.p.fail(tidemark.Invalid, r.who, "", "%s%s is missing", r.path, key)
	}
	return s
}

// number returns a whole number, written as a number or as a string; ok is false if the key is
// missing, null, the empty string, or wrong (which is recorded).
func (r *reader) number(key string, lo, hi int64) (v int64, ok bool) {
	n := r.get(key)
	if n == nil || n.kind == quoted && strings.TrimSpace(n.text) == "" {
		return 0, false
	}
	want := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	if hi == math.MaxInt64 {
		want = fmt.Sprintf("a whole number from %d", lo)
	}
	if n.kind > plain {
		r.bad(n, key, want)
		return 0, false
	}
	v, err := strconv.ParseInt(strings.TrimSpace(n.text), 10, 64)
	if err != nil || v < lo || v > hi {
		r.bad(n, key, want)
		return 0, false
	}
	return v, true
}

// object returns a key's object, nil if it is missing.
func (r *reader) object(key string) *reader {
	n := r.get(key)
	if n == nil {
		return nil
	}
	if n.kind != object {
		r.bad(n, key, "an object")
		return nil
	}
	return newReader(n, r.who, r.path+key+".", r.p)
}

// list returns a key's list, nil if it is missing.
func (r *reader) list(key string) []*node {
	n := r.get(key)
	if n == nil {
		return nil
	}
	if n.kind != list {
		r.bad(n, key, "a list")
		return nil
	}
	return n.items
}

// texts returns a list of scalars.
func (r *reader) texts(key string) []string {
	items := r.list(key)
	out := make([]string, 0, len(items))
	for _, it := range items {
		if it.kind > plain {
			r.bad(it, key, "a list of texts")
			continue
		}
		out = append(out, it.text)
	}
	return out
}

// unknown lists the keys that were not read.
func (r *reader) unknown() []member {
	var out []member
	for _, m := range r.n.members {
		known := false
		for _, a := range r.asks {
			known = known || a == m.key
		}
		if !known {
			out = append(out, m)
		}
	}
	return out
}

// warnUnknown reports the keys that were not read as Warnings, for DMS files: real ones contain
// undocumented keys.
func (r *reader) warnUnknown() {
	for _, m := range r.unknown() {
		r.p.warn(r.who, "", "the key %s%s at line %d is unknown and has no effect%s", r.path, m.key, m.line, didYouMean(m.key, r.asks))
	}
}

// failUnknown reports them as errors, for our own files.
func (r *reader) failUnknown() {
	for _, m := range r.unknown() {
		hint := ""
		if near := nearest(m.key, r.asks); near != "" {
			hint = fmt.Sprintf("Write %s.", near)
		} else if len(r.asks) > 0 {
			hint = "Use one of " + strings.Join(r.asks, ", ") + "."
		}
		r.p.fail(tidemark.Invalid, fmt.Sprintf("line %d", m.line), hint, "the key %s%s is unknown%s", r.path, m.key, didYouMean(m.key, r.asks))
	}
}

// duplicates reports as errors the keys that an object has twice, at all levels.
func duplicates(n *node, p *problems) {
	seen := map[string]int{}
	for _, m := range n.members {
		if first, twice := seen[m.key]; twice {
			p.fail(tidemark.BadInput, fmt.Sprintf("line %d", m.line), "", "the object already has the key %s at line %d", m.key, first)
		}
		seen[m.key] = m.line
		duplicates(m.value, p)
	}
	for _, it := range n.items {
		duplicates(it, p)
	}
}

func didYouMean(key string, known []string) string {
	if near := nearest(key, known); near != "" {
		return fmt.Sprintf(" (%s is)", near)
	}
	return ""
}

// nearest returns the known word that was most likely meant, "" if none is similar.
func nearest(word string, known []string) string {
	best, at := "", max(2, len(word)/3+1)
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < at {
			best, at = k, d
		}
	}
	return best
}

// distance counts the edits (insert, delete, replace a byte) from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost = 1 + min(diag, row[j], row[j-1])
			}
			diag, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
