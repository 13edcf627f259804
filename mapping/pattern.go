package mapping

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A pattern matches names. The zero pattern matches only the empty name.
type pattern struct {
	src   string // as the user wrote it, for messages
	steps []step
	exact bool   // no wildcard: matches only lit
	lit   string // exact: the name
}

type stepKind uint8

const (
	oneRune  stepKind = iota // the rune itself
	anyRune                  // any one rune
	anyRun                   // any number of runes, including none
	oneOfSet                 // a rune of one of the spans
)

type step struct {
	kind stepKind
	r    rune
	set  []span
}

type span struct{ lo, hi rune }

// wildcards are the two runes with a meaning in a language of patterns. [ab] and [a-d] are the same
// in both languages.
type wildcards struct{ run, one rune }

var (
	dmsWildcards  = wildcards{'%', '_'}
	yamlWildcards = wildcards{'*', '?'}
)

// literal returns the pattern that matches only name.
func literal(name string) pattern { return pattern{src: name, exact: true, lit: name} }

// anything returns the pattern that matches every name.
func anything(w wildcards) pattern {
	return pattern{src: string(w.run), steps: []step{{kind: anyRun}}}
}

// parse reads a pattern. A bracket that is never closed, or is empty, is literal; there is no
// negation, so [^a] is ^ or a.
func (w wildcards) parse(src string) (pattern, error) {
	p := pattern{src: src, exact: true, lit: src}
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRuneInString(src[i:])
		t := step{kind: oneRune, r: r}
		switch r {
		case w.run:
			t = step{kind: anyRun}
		case w.one:
			t = step{kind: anyRune}
		case '[':
			set, size, err := parseSet(src[i:])
			if err != nil {
				return pattern{}, err
			}
			if size > 0 {
				t, n = step{kind: oneOfSet, set: set}, size
			}
		}
		p.exact = p.exact && t.kind == oneRune
		p.steps = append(p.steps, t)
		i += n
	}
	if !p.exact {
		p.lit = ""
		p.fold()
	}
	return p, nil
}

// fold turns a set of one rune into that rune, so that order[_]item is exact.
func (p *pattern) fold() {
	var lit strings.Builder
	for i, t := range p.steps {
		if t.kind == oneOfSet && len(t.set) == 1 && t.set[0].lo == t.set[0].hi {
			t = step{kind: oneRune, r: t.set[0].lo}
			p.steps[i] = t
		}
		if t.kind != oneRune {
			return
		}
		lit.WriteRune(t.r)
	}
	p.exact, p.lit = true, lit.String()
}

// parseSet reads [ab] or [a-d] at the start of s and returns its length in bytes, 0 if there is no
// set. A - at either end is literal.
func parseSet(s string) ([]span, int, error) {
	end := strings.IndexByte(s, ']')
	if end < 2 {
		return nil, 0, nil
	}
	rs := []rune(s[1:end])
	var set []span
	for i := 0; i < len(rs); i++ {
		if i+2 < len(rs) && rs[i+1] == '-' {
			if rs[i+2] < rs[i] {
				return nil, 0, fmt.Errorf("the range %c-%c in %q is reversed", rs[i], rs[i+2], s[:end+1])
			}
			set = append(set, span{rs[i], rs[i+2]})
			i += 2
			continue
		}
		set = append(set, span{rs[i], rs[i]})
	}
	return set, end + 1, nil
}

func (t *step) takes(r rune) bool {
	switch t.kind {
	case oneRune:
		return t.r == r
	case oneOfSet:
		for _, s := range t.set {
			if s.lo <= r && r <= s.hi {
				return true
			}
		}
		return false
	}
	return true
}

// match reports whether the pattern matches the whole name. Its time is at most len(name) *
// len(pattern): only the last run of a pattern is ever retried.
func (p *pattern) match(name string) bool {
	if p.exact {
		return name == p.lit
	}
	ti, run, mark := 0, -1, 0
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		switch {
		case ti < len(p.steps) && p.steps[ti].kind == anyRun:
			run, mark = ti, i
			ti++
		case ti < len(p.steps) && p.steps[ti].takes(r):
			ti++
			i += n
		case run >= 0:
			_, n := utf8.DecodeRuneInString(name[mark:])
			mark += n
			i, ti = mark, run+1
		default:
			return false
		}
	}
	for ti < len(p.steps) && p.steps[ti].kind == anyRun {
		ti++
	}
	return ti == len(p.steps)
}

// named reports whether the pattern is meant as one name: it is exact, or its only wildcards match
// single runes, like an unescaped _ in a DMS name.
func (p *pattern) named() bool {
	if p.exact {
		return true
	}
	for _, t := range p.steps {
		if t.kind == anyRun || t.kind == oneOfSet {
			return false
		}
	}
	return true
}

// around returns how many runes precede and follow the only run of the pattern; ok is false if it
// has none or several.
func (p *pattern) around() (before, after int, ok bool) {
	at := -1
	for i, t := range p.steps {
		if t.kind == anyRun {
			if at >= 0 {
				return 0, 0, false
			}
			at = i
		}
	}
	return at, len(p.steps) - at - 1, at >= 0
}

// lower returns the pattern that matches lower-cased names whatever case p is in.
func (p *pattern) lower() pattern {
	out := pattern{src: p.src, exact: p.exact, lit: strings.ToLower(p.lit), steps: make([]step, len(p.steps))}
	for i, t := range p.steps {
		t.r = unicode.ToLower(t.r)
		for _, s := range t.set {
			t.set = append(t.set, span{unicode.ToLower(s.lo), unicode.ToLower(s.hi)})
		}
		out.steps[i] = t
	}
	return out
}
