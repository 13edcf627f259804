package wal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/archive"
)

// Options of a scan of files. The zero value is good.
type Options struct {
	// Retrieve is a shell command that is run before each file is opened, with the file's name
	// appended: it may fetch the file from an archive, decrypt it, and remove the previous one.
	// Segments are then read in the order of their names, and each is opened only when its turn
	// comes.
	Retrieve string
}

// readSize is how much of a segment is read at once: a multiple of all page sizes that stays in a
// processor's cache until its records are parsed.
const readSize = 256 << 10

// Files are segments of a log in the order in which they were written.
type Files struct {
	opt   Options
	files []file
	left  []leftOut
}

// leftOut are files left out for the same reason.
type leftOut struct {
	reason string
	first  string
	n      int
}

func leave(all []leftOut, path, reason string) []leftOut {
	if i := slices.IndexFunc(all, func(l leftOut) bool { return l.reason == reason }); i >= 0 {
		all[i].n++
		return all
	}
	return append(all, leftOut{reason: reason, first: path, n: 1})
}

func (l leftOut) String() string {
	if l.n == 1 {
		return fmt.Sprintf("%s is left out: %s", l.first, l.reason)
	}
	return fmt.Sprintf("%s and %d more are left out: %s", l.first, l.n-1, l.reason)
}

// A file is a segment, or is assumed to be one.
type file struct {
	path     string
	at       uint64 // grows with its position in the log
	head     head   // of the first page, once it was read
	timeline uint32 // from its name, or else from its first page
	partial  bool
}

// end returns the position where the next segment begins.
func (f *file) end() uint64 { return f.head.place + uint64(f.head.segment) }

// Open finds the segments that paths name or, where they are folders, contain, and orders them by
// what their first pages say: names need not be the server's. They may be packed by gzip, zstd, lz4
// or bzip2, and incomplete (.partial).
//
// Files that are not segments in use are skipped with a finding: segments that the server keeps for
// later, second copies, and what was written on a timeline after it was left. Errors are of Kind
// Invalid, NotFound, Forbidden or BadInput: a file that is not PostgreSQL's log, a file of another
// server than the rest, or no segment at all.
func Open(paths []string, opt Options) (*Files, error) {
	fs := &Files{opt: opt}
	names, err := expand(paths, opt.Retrieve != "")
	if err != nil {
		return nil, err
	}
	if opt.Retrieve != "" {
		fs.byName(names)
		return fs, nil
	}
	for _, name := range names {
		f, left, err := readHeader(name)
		if err != nil {
			return nil, err
		}
		if left != "" {
			fs.left = leave(fs.left, name, left)
			continue
		}
		fs.files = append(fs.files, f)
	}
	for i := range fs.files {
		if err := fs.files[0].same(&fs.files[i]); err != nil {
			return nil, err
		}
	}
	fs.order()
	if len(fs.files) == 0 {
		cause := "there is no segment of PostgreSQL's log"
		if len(fs.left) > 0 {
			cause += " to read; " + fs.left[0].String()
		}
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "scan", Object: paths[0], Err: errors.New(cause), Hint: "Give segments such as 000000010000000000000001, or the folder pg_wal or an archive that has them."}
	}
	return fs, nil
}

// segmentFile matches the names of segments in folders: the server's, with the suffixes that
// servers, pg_receivewal and archiving tools append.
var segmentFile = regexp.MustCompile(`^[0-9A-F]{24}(\.partial)?(-[0-9a-f]{40})?(\.(gz|zst|lz4|bz2))?$`)

// expand returns the files that paths name or contain.
func expand(paths []string, absent bool) (names []string, err error) {
	if len(paths) == 0 {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "scan", Err: errors.New("no files were given"), Hint: "Give segments of the log, or a folder of them."}
	}
	for _, p := range paths {
		info, err := os.Stat(p)
		switch {
		case err != nil && absent, err == nil && !info.IsDir():
			names = append(names, p)
			continue
		case err != nil:
			return nil, archive.OpenError(p, err)
		}
		err = filepath.WalkDir(p, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return archive.OpenError(name, err)
			}
			if !d.IsDir() && segmentFile.MatchString(d.Name()) {
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return names, nil
}

// byName orders files that cannot be read yet, if all have names of segments.
func (fs *Files) byName(names []string) {
	named := true
	for _, name := range names {
		timeline, high, low, ok := parseName(filepath.Base(name))
		named = named && ok
		fs.files = append(fs.files, file{path: name, at: high<<32 | low, timeline: timeline, partial: partialName.MatchString(name)})
	}
	if named {
		fs.order()
	}
}

// readHeader reads the header of a file. left says why it is not a segment in use.
func readHeader(name string) (f file, left string, err error) {
	r, err := archive.Open(name)
	if err != nil {
		return f, "", err
	}
	defer r.Close()
	var b [longHeader]byte
	n, err := io.ReadFull(r, b[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return f, "", err
	}
	return classify(name, b[:n])
}

// classify creates a file from its first bytes.
func classify(name string, b []byte) (f file, left string, err error) {
	if len(b) < longHeader {
		return f, fmt.Sprintf("it has only %d bytes", len(b)), nil
	}
	if [longHeader]byte(b) == [longHeader]byte{} {
		return f, "nothing was written to it yet", nil
	}
	h, wrong := parseHead(b)
	if wrong != "" {
		return f, "", &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: name, Err: errors.New(wrong), Hint: "Leave this file out, or unpack and decrypt it first; a command for that can be given with --retrieve."}
	}
	f = file{path: name, at: h.place, head: h, timeline: h.timeline, partial: partialName.MatchString(name)}
	timeline, high, low, ok := parseName(filepath.Base(name))
	if !ok {
		return f, "", nil
	}
	named := high<<32 + low*uint64(h.segment)
	switch {
	case named > h.place:
		left = "the server keeps it for later use, and what is in it is an earlier segment's"
	case named == h.place:
		f.timeline = max(timeline, h.timeline) // its first pages may be copies from the previous timeline
	}
	return f, left, nil
}

var partialName = regexp.MustCompile(`\.partial[^/\\]*$`)

// order sorts the segments and removes those that do not lead to the last one.
func (fs *Files) order() {
	slices.SortStableFunc(fs.files, func(a, b file) int {
		whole := 0
		if a.partial != b.partial {
			if whole = 1; b.partial {
				whole = -1
			}
		}
		return cmp.Or(cmp.Compare(a.at, b.at), -cmp.Compare(a.timeline, b.timeline), whole)
	})
	var kept []file
	for _, f := range fs.files {
		if len(kept) == 0 {
			kept = append(kept, f)
			continue
		}
		last := &kept[len(kept)-1]
		switch {
		case f.timeline < last.timeline:
			fs.left = leave(fs.left, f.path, fmt.Sprintf("its timeline %d ended before it, when timeline %d began", f.timeline, last.timeline))
		case f.at == last.at:
			fs.left = leave(fs.left, f.path, "another file has the same segment")
		default:
			kept = append(kept, f)
		}
	}
	fs.files = kept
}

// same fails unless both segments are from the same server.
func (f *file) same(g *file) error {
	switch {
	case f.head.system != g.head.system:
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: g.path, Err: fmt.Errorf("it is of another server than %s: the system identifiers are %d and %d", f.path, g.head.system, f.head.system), Hint: "Scan the log of one server at a time."}
	case f.head.magic != g.head.magic:
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: g.path, Err: fmt.Errorf("it is of PostgreSQL %d, and %s of %d", versions[g.head.magic], f.path, versions[f.head.magic]), Hint: "Scan the log of one version at a time."}
	case f.head.page != g.head.page:
		return &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: g.path, Err: fmt.Errorf("its pages have %d bytes, and those of %s %d", g.head.page, f.path, f.head.page), Hint: "Scan the log of one server at a time."}
	}
	return nil
}

// Scan reads the segments from the first to the last. If one between them is missing or unreadable,
// it continues with the next, and reports the gap in the first record after it.
func (fs *Files) Scan(ctx context.Context, emit func(*tidemark.LogRecord) error) (tidemark.LogScan, error) {
	s := newScanner(emit)
	left := slices.Clone(fs.left)
	buf := make([]byte, readSize)
	var err error
	var first *file
	for i := 0; i < len(fs.files) && err == nil; i++ {
		f := fs.files[i]
		if fs.opt.Retrieve != "" {
			var why string
			if f, why, err = fs.fetch(ctx, s, f.path, first); err != nil {
				break
			}
			if why != "" {
				left = leave(left, f.path, why)
				continue
			}
			if first == nil {
				first = &f
			}
		}
		err = s.segment(ctx, &f, buf)
	}
	if err == nil && s.scan.Files == 0 {
		err = &tidemark.Error{Kind: tidemark.NotFound, Op: "scan", Object: fs.files[0].path, Err: errors.New("what was retrieved has no segment of PostgreSQL's log to read; " + left[0].String()), Hint: "Correct the command, or the names."}
	}
	out := s.finish()
	for _, l := range left {
		out.Findings = append(out.Findings, l.String())
	}
	return out, err
}

// fetch retrieves a file and reads its header; left says why it is left out.
func (fs *Files) fetch(ctx context.Context, s *scanner, path string, first *file) (f file, left string, err error) {
	if err := archive.Fetch(ctx, fs.opt.Retrieve, path); err != nil {
		return f, "", err
	}
	if f, left, err = readHeader(path); err != nil || left != "" {
		return file{path: path}, left, err
	}
	if first != nil {
		if err := first.same(&f); err != nil {
			return f, "", err
		}
		if f.head.place <= s.head.place {
			return f, "", &tidemark.Error{Kind: tidemark.BadInput, Op: "scan", Object: path, Err: fmt.Errorf("it begins at %s, and the one before it at %s", FormatLSN(f.head.place), FormatLSN(s.head.place)), Hint: "Give the files in the order in which they were written, each once."}
		}
	}
	return f, "", nil
}

// segment reads the pages of one file.
func (s *scanner) segment(ctx context.Context, f *file, buf []byte) error {
	r, err := archive.Open(f.path)
	if err != nil {
		return err
	}
	defer r.Close()
	s.begin(f.head, f.path)
	size, page := int(f.head.segment), int(f.head.page)
	total := 0
	for total < size {
		if err := ctx.Err(); err != nil {
			return &tidemark.Error{Op: "scan", Object: f.path, Kind: tidemark.Cancelled, Err: context.Cause(ctx)}
		}
		n, err := io.ReadFull(r, buf[:min(len(buf), size-total)])
		for p := buf[:n]; len(p) > 0; p = p[min(page, len(p)):] {
			if err := s.page(p[:min(page, len(p))]); err != nil {
				return given(err)
			}
		}
		total += n
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return given(s.short(f, total))
		case err != nil:
			return given(s.end("%s cannot be read: %v", f.path, errors.Unwrap(err)))
		}
	}
	if n, _ := io.ReadFull(r, buf[:1]); n > 0 {
		s.scan.Findings = append(s.scan.Findings, fmt.Sprintf("%s has more than the %d bytes of a segment; the rest was not read", f.path, size))
	}
	return nil
}

// short handles a file that has only total bytes of its segment. The part that a log switch left
// empty may be missing.
func (s *scanner) short(f *file, total int) error {
	if s.until == f.end() {
		s.next = f.end()
		return nil
	}
	return s.end("%s has only %d of its %d bytes", f.path, total, f.head.segment)
}

// given returns err, or nil for the end of a log.
func given(err error) error {
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}
