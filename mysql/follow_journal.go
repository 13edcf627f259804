package mysql

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A journal is what a stream has to remember of the server's log besides how far it was
// applied: places are numbers of files and offsets in them, and a server whose log was
// reset, or another server, has the same ones again with other transactions.
//
// It is a file of lines, which are only ever appended. Each says what has to be known
// before anything behind it is given away:
//
//	F key number created server   the file of this number was begun then, by the server of this number; places in it have the key in their upper half
//
// F lines are synced: there are as many as files. A last line that has no end was being
// written when the machine went down, and nothing behind it was given away.
type journal struct {
	path string
	f    *os.File // nil until something is written
	head map[uint32]logHead
}

// A logHead is what a file of the log begins with.
type logHead struct {
	number  uint32 // that its name ends with
	created uint32 // seconds since 1970
	server  uint32 // server_id
}

// Journal names the file in which streams of this engine remember the log. With anew
// there is nothing to remember: Freeze begins it. It comes before both.
func (e *Engine) Journal(path string, anew bool) {
	e.mu.Lock()
	e.journal, e.anew = path, anew
	e.mu.Unlock()
}

func (e *Engine) journalPath() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.journal
}

// readJournal reads a journal; one that is not there is empty.
func readJournal(path string) (*journal, error) {
	j := &journal{path: path, head: map[uint32]logHead{}}
	if path == "" {
		return j, nil
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	if len(whole) < len(text) {
		if err := os.Truncate(path, int64(len(whole))); err != nil {
			return nil, err
		}
	}
	for line := range strings.Lines(string(whole)) {
		if err := j.read(strings.Fields(line)); err != nil {
			return nil, fmt.Errorf("%s holds %q, which is not in its format", path, strings.TrimSpace(line))
		}
	}
	return j, nil
}

var errJournal = errors.New("not in the format of a journal")

func (j *journal) read(words []string) error {
	if len(words) != 5 || words[0] != "F" {
		return errJournal
	}
	n := [4]uint32{}
	for i, w := range words[1:] {
		v, err := strconv.ParseUint(w, 10, 32)
		if err != nil {
			return errJournal
		}
		n[i] = uint32(v)
	}
	j.head[n[0]] = logHead{n[1], n[2], n[3]}
	return nil
}

// putHead appends what a file begins with.
func (j *journal) putHead(key uint32, h logHead) error {
	j.head[key] = h
	if err := j.write(fmt.Appendf(nil, "F %d %d %d %d\n", key, h.number, h.created, h.server)); err != nil || j.f == nil {
		return err
	}
	return j.f.Sync()
}

func (j *journal) write(line []byte) (err error) {
	if j.path == "" {
		return nil
	}
	if j.f == nil {
		if err := os.MkdirAll(filepath.Dir(j.path), 0o700); err != nil {
			return err
		}
		if j.f, err = os.OpenFile(j.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return err
		}
	}
	_, err = j.f.Write(line)
	return err
}

func (j *journal) close() {
	if j.f != nil {
		j.f.Close() // what matters is synced
		j.f = nil
	}
}

// beginJournal begins the journal of a new stream at a position, if there is to be one.
func (e *Engine) beginJournal(ctx context.Context, pos tidemark.Position) error {
	e.mu.Lock()
	path, anew := e.journal, e.anew
	e.anew = false
	e.mu.Unlock()
	if path == "" || !anew || pos.Place == 0 {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	name, _, _ := strings.Cut(pos.Text, ":")
	h, err := e.headOf(ctx, name)
	if err != nil {
		return err
	}
	j, err := readJournal(path)
	if err != nil {
		return err
	}
	defer j.close()
	return j.putHead(h.number, h)
}

// headOf reads what a file of the log begins with.
func (e *Engine) headOf(ctx context.Context, file string) (logHead, error) {
	number, _ := logNumber(file)
	s := e.newStream("", file, uint64(number)<<32|4)
	s.seek = &seeking{until: uint64(number)<<32 | 5}
	if err := s.connect(ctx, false); err != nil {
		return logHead{}, err
	}
	defer s.Close()
	err := s.Run(ctx, func(*tidemark.Tx) error { return nil })
	if errors.Is(err, errFound) {
		err = nil
	}
	return s.head, err
}

// headRead takes note of the event that a file begins with, which comes first too where a
// stream begins within it. One that is not what it was is of another log.
func (s *Stream) headRead(ev []byte) error {
	s.head = logHead{s.file, binary.LittleEndian.Uint32(ev), binary.LittleEndian.Uint32(ev[5:])}
	was, known := s.journal.head[s.file]
	switch {
	case !known:
		return s.journal.putHead(s.file, s.head)
	case was == s.head:
		return nil
	}
	return tidemark.Errorf(tidemark.Lost, "follow", placeText(s.place()), "this file of the server's log is not the one that the stream has read",
		"Somebody has reset the source's binlogs, or this is another server: copy again.")
}

// follows looks whether files of the server are those of the journal where that does not
// know the file at a place: behind a file of more than 4 GB.
func (s *Stream) follows(ctx context.Context, after uint64, files []logFile) error {
	key := uint32(after >> 32)
	if _, known := s.journal.head[key]; known || len(s.journal.head) == 0 {
		return nil
	}
	for _, f := range files {
		if f.number != key-1 || after&math.MaxUint32 != 4 {
			continue
		}
		if h, err := s.e.headOf(ctx, f.name); err != nil || h == s.journal.head[f.number] {
			return err
		}
	}
	return tidemark.Errorf(tidemark.Lost, "follow", s.name, fmt.Sprintf("whether file %d of the server's log is the one that the stream comes to is not known", key), "Copy again.")
}
