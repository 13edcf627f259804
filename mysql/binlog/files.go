// Package binlog reads binary logs of MySQL (5.6 and later) and MariaDB (10.0 and later) as a
// source of a workload profile: for each event its transaction, size and table, and when and in
// which group the transaction was committed. It reads no rows.
//
// Files reads files, whole or compressed, in the order of the log. Scanner does the work, event by
// event; its callers supply the events: Files, or a replica's connection.
//
// Every byte is counted once: the sizes of the records and LogScan.Headers, which counts the four
// bytes at the beginning of each file, add up to LogScan.Bytes. A transaction's bytes are those of
// its events from its GTID on, as mysqlbinlog prints them (and MySQL's transaction_length sums them
// up). The second half of an XA transaction is a transaction of its own that has the first as
// child.
//
// Times: MySQL 8 writes the moment of the commit in microseconds. Elsewhere it is the second in
// which the last statement began. MySQL restarts After and Sequence in each file.
//
// Sources: "MySQL Source Code Documentation: Replication / Binlog", MariaDB's "Replication
// Protocol", and logs of servers compared with the output of their own mysqlbinlog.
package binlog

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/archive"
)

// Options are for Open. The zero value is valid.
type Options struct {
	// Retrieve is a shell command that is run, with the file's name appended, before each file is
	// opened. Files need not exist before. They are then read in the order of the numbers in their
	// names, and not inspected beforehand.
	Retrieve string
}

// Files are the files of one log, in its order.
type Files struct {
	opt      Options
	members  []member
	findings []string
	buf      []byte
}

// Open finds the files of a log: paths are files, folders, and index files (*.index), in any order.
// Files may be compressed with gzip, zstd, bzip2 or lz4.
//
// Errors: Invalid (no path), NotFound, Forbidden, BadInput (a file that is not a binary log, is
// encrypted, or is a relay log).
func Open(paths []string, opt Options) (*Files, error) {
	f := &Files{opt: opt}
	for _, p := range paths {
		if err := f.add(p); err != nil {
			return nil, err
		}
	}
	if len(paths) == 0 {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "scan", Err: errors.New("no binary log is named"), Hint: hintForeign}
	}
	f.members = once(f.members)
	if opt.Retrieve != "" {
		f.sortByName()
		return f, nil
	}
	if err := f.readHeads(); err != nil {
		return nil, err
	}
	f.sort()
	f.dropTwins()
	return f, nil
}

// Names returns the files in the order in which they are read.
func (f *Files) Names() []string {
	var out []string
	for _, m := range f.members {
		out = append(out, m.path)
	}
	return out
}

// logName matches log files found in a folder. Logs of MariaDB's engine Aria may be next to them.
var (
	logName  = regexp.MustCompile(`\.\d{6,10}(\.(?i:gz|zst|bz2|lz4))?$`)
	ariaName = regexp.MustCompile(`^aria_log\.\d{8}$`)
)

func (f *Files) add(path string) error {
	if strings.HasSuffix(path, ".index") {
		return f.addIndex(path)
	}
	st, err := os.Stat(path)
	if err != nil && f.opt.Retrieve == "" {
		return archive.OpenError(path, err)
	}
	if err != nil || !st.IsDir() {
		f.members = append(f.members, newMember(path))
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return archive.OpenError(path, err)
	}
	n := len(f.members)
	for _, e := range entries {
		if logName.MatchString(e.Name()) && !ariaName.MatchString(e.Name()) && !e.IsDir() {
			m := newMember(filepath.Join(path, e.Name()))
			m.listed = true
			f.members = append(f.members, m)
		}
	}
	if len(f.members) == n {
		return &tidemark.Error{Kind: tidemark.NotFound, Op: "scan", Object: path, Err: errors.New("the folder has no binary logs"), Hint: "Their names end with six digits, as in binlog.000001 or binlog.000001.gz; give files with other names one by one."}
	}
	return nil
}

// addIndex adds the files in the list that the server keeps. A list that was moved together with
// its files still names their old paths.
func (f *Files) addIndex(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return archive.OpenError(path, err)
	}
	n := len(f.members)
	for line := range strings.Lines(string(text)) {
		name := filepath.FromSlash(strings.TrimSpace(line))
		if name == "" {
			continue
		}
		if strings.ContainsRune(name, 0) || len(name) > 4096 {
			return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: path, Err: errors.New("it is not a list of binary logs"), Hint: hintForeign}
		}
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		if beside := filepath.Join(filepath.Dir(path), filepath.Base(name)); !exists(name) && exists(beside) {
			name = beside
		}
		f.members = append(f.members, newMember(name))
	}
	if len(f.members) == n {
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: path, Err: errors.New("the list of binary logs is empty"), Hint: hintForeign}
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func newMember(path string) member {
	m := member{path: path, name: filepath.Base(path)}
	m.number, _ = Number(path)
	return m
}

// once leaves out files that are named more than once.
func once(all []member) []member {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(m member) bool {
		path, err := filepath.Abs(m.path)
		if err != nil {
			path = m.path
		}
		twice := seen[path]
		seen[path] = true
		return twice
	})
}

// readHeads reads the heads of the files. Other files in a folder are skipped.
func (f *Files) readHeads() error {
	var kept []member
	for _, m := range f.members {
		err := m.inspect()
		var e *tidemark.Error
		if err != nil && m.listed && errors.As(err, &e) && e.Kind == tidemark.BadInput && (e.Hint == hintRelay || e.Hint == hintForeign) {
			f.findings = append(f.findings, fmt.Sprintf("%s was skipped: %v.", m.path, e.Err))
			continue
		}
		if err != nil {
			return err
		}
		kept = append(kept, m)
	}
	if len(kept) == 0 {
		return &tidemark.Error{Kind: tidemark.NotFound, Op: "scan", Object: f.members[0].path, Err: errors.New("no file is a binary log"), Hint: hintForeign}
	}
	f.members = kept
	return nil
}

// sort puts the files in log order: by number, unless one is unknown or the times show that the
// numbers were restarted.
func (f *Files) sort() {
	const drift = 60 // seconds by which a clock may be set back
	byNumber := !slices.ContainsFunc(f.members, func(m member) bool { return m.number == 0 })
	if byNumber {
		slices.SortStableFunc(f.members, func(a, b member) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.time, b.time)) })
		for i := 1; i < len(f.members); i++ {
			byNumber = byNumber && f.members[i].time+drift >= f.members[i-1].time
		}
		if byNumber {
			return
		}
		f.findings = append(f.findings, "The files were read in the order of their start times, which is not the order of their numbers.")
	}
	slices.SortStableFunc(f.members, func(a, b member) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.number, b.number)) })
}

// sortByName sorts files that do not exist yet.
func (f *Files) sortByName() {
	if !slices.ContainsFunc(f.members, func(m member) bool { return m.number == 0 }) {
		slices.SortStableFunc(f.members, func(a, b member) int { return cmp.Compare(a.number, b.number) })
	}
}

// dropTwins leaves out files that also exist compressed, or twice under different names.
func (f *Files) dropTwins() {
	var kept []member
	for _, m := range f.members {
		if n := len(kept) - 1; n >= 0 {
			if k := kept[n]; k.number != 0 && k.number == m.number && k.time == m.time && k.server == m.server {
				if k.packed && !m.packed {
					kept[n], m = m, k
				}
				f.findings = append(f.findings, fmt.Sprintf("%s was skipped: it is the same file of the log as %s.", m.path, kept[n].path))
				continue
			}
		}
		kept = append(kept, m)
	}
	f.members = kept
}

// Scan reads the files and emits a record for each event. If a file is truncated or damaged, the
// scan continues in the next one, with a Gap; for the last file, LogScan.End reports it.
//
// Errors: Invalid (the command that retrieves failed), NotFound, Forbidden, BadInput, Cancelled,
// and those of emit unchanged.
func (f *Files) Scan(ctx context.Context, emit func(*tidemark.LogRecord) error) (tidemark.LogScan, error) {
	s := NewScanner(emit)
	for _, m := range f.members {
		if err := f.scanFile(ctx, s, m); err != nil {
			return s.Result(), err
		}
	}
	out := s.Result()
	out.Findings = append(slices.Clone(f.findings), out.Findings...)
	return out, nil
}

func (f *Files) scanFile(ctx context.Context, s *Scanner, m member) error {
	if err := archive.Fetch(ctx, f.opt.Retrieve, m.path); err != nil {
		return err
	}
	file, err := archive.Open(m.path)
	if err != nil {
		return err
	}
	defer file.Close()
	if f.buf == nil {
		f.buf = make([]byte, 1<<20)
	}
	in := input{ctx: ctx, r: file, buf: f.buf}
	head := in.peek(len(magic))
	if len(head) < len(magic) && in.err != nil {
		return in.err
	}
	if err := checkMagic(m.name, head); err != nil {
		return err
	}
	in.at += len(magic)
	s.File(m.name, m.number, 0)
	for {
		err := next(s, &in)
		switch e := err.(type) {
		case nil:
			continue
		case *damage:
			s.Close(fmt.Sprintf("%s ends at offset %d: the event there cannot be read, %s", m.name, s.off, e.text))
			return nil
		case *tidemark.Error:
			return atOffset(e, m.name, s.off)
		}
		if err == io.EOF {
			s.Close("")
			return nil
		}
		return err
	}
}

// next reads the next event.
func next(s *Scanner, in *input) error {
	head := in.peek(headerSize)
	switch {
	case len(head) < headerSize && in.err != nil:
		return in.err
	case len(head) == 0:
		return io.EOF
	case len(head) < headerSize:
		return damaged("only %d of the %d bytes of its header are there", len(head), headerSize)
	}
	size := binary.LittleEndian.Uint32(head[9:])
	if size < headerSize {
		return damaged("its size is recorded as %d bytes", size)
	}
	if uint64(size) > uint64(len(in.buf)) {
		return s.Large(in)
	}
	ev := in.peek(int(size))
	if len(ev) < int(size) && in.err != nil {
		return in.err
	}
	if len(ev) < int(size) {
		return damaged("only %d of its %d bytes are there", len(ev), size)
	}
	in.at += int(size)
	return s.Event(ev)
}

// An input reads a file through one buffer.
type input struct {
	ctx     context.Context
	r       io.Reader
	buf     []byte
	at, end int   // the range read but not yet consumed
	err     error // except io.EOF
	eof     bool
}

// peek returns the next n bytes, or fewer before the end or an error.
func (in *input) peek(n int) []byte {
	if in.end-in.at < n {
		in.fill(n)
	}
	return in.buf[in.at:min(in.end, in.at+n)]
}

func (in *input) fill(n int) {
	copy(in.buf, in.buf[in.at:in.end])
	in.end -= in.at
	in.at = 0
	for in.end < n && !in.eof && in.err == nil {
		if in.ctx.Err() != nil {
			in.err = context.Cause(in.ctx)
			return
		}
		m, err := in.r.Read(in.buf[in.end:])
		in.end += m
		switch {
		case err == io.EOF:
			in.eof = true
		case tidemark.KindOf(err) == tidemark.BadInput: // a truncated compressed file
			in.err = damaged("%v", errors.Unwrap(err))
		default:
			in.err = err
		}
	}
}

// Read returns what is in the buffer, and then what follows it.
func (in *input) Read(p []byte) (int, error) {
	b := in.peek(1)
	if len(b) == 0 && in.err != nil {
		return 0, in.err
	}
	if len(b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, in.buf[in.at:in.end])
	in.at += n
	return n, nil
}
