package wal

import (
	"errors"
	"fmt"

	"github.com/tidemarkdb/tidemark"
)

// A Stream reads a log that arrives as bytes, as a server sends it.
type Stream struct {
	s    *scanner
	size int
	page []byte // the page being received
}

// NewStream creates a Stream whose first byte is the first of a segment; page is the page size in
// bytes. Records that begin before from are not emitted, nor records that begin at or after until,
// unless until is 0.
func NewStream(from, until uint64, page int, emit func(*tidemark.LogRecord) error) *Stream {
	s := newScanner(emit)
	s.start, s.stop = from, until
	return &Stream{s: s, size: page}
}

// Write takes the next bytes. Errors are emit's, or of Kind BadInput: the bytes are not a log.
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
		if err := t.scanPage(q); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Over reports whether the stream needs no more bytes: until is reached, or the log cannot be read
// further.
func (t *Stream) Over() bool { return t.s.over }

// Damage returns why the last segment cannot be read to its end: a sentence, "" if it can.
func (t *Stream) Damage() string {
	switch {
	case !t.s.over:
		return ""
	case t.s.why != "":
		return t.s.why
	}
	return fmt.Sprintf("the log ends at %s, and the segment continues", FormatLSN(t.s.scan.To))
}

// scanPage hands a page to the scanner.
func (t *Stream) scanPage(p []byte) error {
	if t.s.over {
		return nil
	}
	if t.s.scan.Files == 0 || t.s.next%uint64(t.s.head.segment) == 0 {
		h, wrong := parseHead(p)
		if wrong != "" {
			return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Err: errors.New("what the server sent at " + FormatLSN(t.s.next) + " cannot be read: " + wrong)}
		}
		t.s.begin(h, SegmentName(h.timeline, h.place, h.segment))
	}
	return given(t.s.page(p))
}

// Finish processes what was received of the last page, and returns the result of the scan. An
// incomplete record does not count.
func (t *Stream) Finish() (tidemark.LogScan, error) {
	var err error
	if len(t.page) >= longHeader {
		err = t.scanPage(t.page)
	}
	t.s.part, t.s.missing = t.s.part[:0], 0
	return t.s.finish(), err
}
