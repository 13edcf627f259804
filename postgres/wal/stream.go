package wal

import (
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
)

// A Stream is a log that comes as bytes, as a server sends it.
type Stream struct {
	s    *scanner
	size int
	page []byte // the page that is coming
}

// NewStream makes a Stream whose first byte is the first of a segment, with pages of so many
// bytes. What begins before from is not emitted, nor what begins at until or behind it,
// unless that is 0.
func NewStream(from, until uint64, page int, emit func(*tidemark.LogRecord) error) *Stream {
	s := newScanner(emit)
	s.start, s.stop = from, until
	return &Stream{s: s, size: page}
}

// Write takes the next bytes. Errors are emit's, or of Kind BadInput: what came is no log.
func (t *Stream) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		q := p[:min(len(p), t.size-len(t.page))]
		p = p[len(q):]
		if len(q) < t.size {
			if t.page = append(t.page, q...); len(t.page) < t.size {
				break
			}
			q, t.page = t.page, t.page[:0]
		}
		if err := t.take(q); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Over says that what follows is not wanted: until is reached, or the log cannot be read on.
func (t *Stream) Over() bool { return t.s.over }

// Damage says what keeps the segment that came last from being read to its end: a sentence, ""
// nothing.
func (t *Stream) Damage() string {
	switch {
	case !t.s.over:
		return ""
	case t.s.why != "":
		return t.s.why
	}
	return fmt.Sprintf("the log ends at %s, and the segment goes on", FormatLSN(t.s.scan.To))
}

// take gives the scanner a page.
func (t *Stream) take(p []byte) error {
	if t.s.over {
		return nil
	}
	if t.s.scan.Files == 0 || t.s.next%uint64(t.s.head.segment) == 0 {
		h, wrong := parseHead(p)
		if wrong != "" {
			return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Err: errors.New("what the server sends at " + FormatLSN(t.s.next) + " is not read: " + wrong)}
		}
		t.s.begin(h, SegmentName(h.timeline, h.place, h.segment))
	}
	return given(t.s.page(p))
}

// Finish takes what has come of the last page, and says what the scan has found. A record
// whose end has not come yet is none.
func (t *Stream) Finish() (tidemark.LogScan, error) {
	var err error
	if len(t.page) >= longHeader {
		err = t.take(t.page)
	}
	t.s.part, t.s.missing = t.s.part[:0], 0
	return t.s.finish(), err
}
