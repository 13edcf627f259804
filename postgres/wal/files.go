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
	// Retrieve is a command of the shell that is run before each file is opened, with the
	// file's name behind it: it may fetch the file from an archive, decrypt it, and remove the
	// one before. Segments are then read in the order of their names, and not looked at
	// before their turn.
	Retrieve string
}

// readSize is how much of a segment is read at once: a multiple of all page sizes that stays
// in a processor's cache until its records are read.
const readSize = 256 << 10

// Files are segments of a log in the order in which they were written.
type Files struct {
	opt   Options
	files []file
	left  []leftOut
}

// leftOut are files that are left out for the same reason.
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

// A file is a segment, or what should be one.
type file struct {
	path     string
	at       uint64 // grows with its place in the log
	head     head   // where it was looked at
	timeline uint32 // by its name, or else by its first page
	partial  bool
}

// end is where the segment behind it begins.
func (f *file) end() uint64 { return f.head.place + uint64(f.head.segment) }

// Open finds the segments that paths are or, where they are folders, hold, and puts them in
// order by what their first pages say: names need not be the server's. They may be packed
// by gzip, zstd, lz4 or bzip2, and incomplete (.partial).
//
// What is no segment in use is left out with a finding: segments that the server keeps for
// later, second copies, and what was written on a timeline after it was left. Errors are of
// Kind Invalid, NotFound, Forbidden or BadInput: a file that is not PostgreSQL's log, one of another
// server than the others, no segment at all.
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
		f, left, err := look(name)
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

// segmentFile is what segments are called in folders: as the server does, with what servers,
// pg_receivewal and archiving tools put behind it.
var segmentFile = regexp.MustCompile(`^[0-9A-F]{24}(\.partial)?(-[0-9a-f]{40})?(\.(gz|zst|lz4|bz2))?$`)

// expand gives the files that paths are or hold.
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

// byName orders files that cannot be looked at yet, if all names are segments'.
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

// look reads the header of a file. left says why it is no segment in use.
func look(name string) (f file, left string, err error) {
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

// classify makes a file of the first bytes in it.
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
		f.timeline = max(timeline, h.timeline) // its first pages may be copies of those of the timeline before
	}
	return f, left, nil
}

var partialName = regexp.MustCompile(`\.partial[^/\\]*$`)

// order sorts the segments and takes out what is not on the way to the last one.
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
			fs.left = leave(fs.left, f.path, fmt.Sprintf("its timeline %d was left before for timeline %d", f.timeline, last.timeline))
		case f.at == last.at:
			fs.left = leave(fs.left, f.path, "another file has the same segment")
		default:
			kept = append(kept, f)
		}
	}
	fs.files = kept
}

// same says whether two segments are of one server.
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

// Scan reads the segments from the first to the last. Where something between them is
// missing or cannot be read, it goes on with the next, and says so in that one's first record.
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

// fetch has a file retrieved and looks at it; left says why it is left out.
func (fs *Files) fetch(ctx context.Context, s *scanner, path string, first *file) (f file, left string, err error) {
	if err := archive.Fetch(ctx, fs.opt.Retrieve, path); err != nil {
		return f, "", err
	}
	if f, left, err = look(path); err != nil || left != "" {
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

// short is what a file is that has only so many bytes of its segment. What a log switch has
// left empty need not be there.
func (s *scanner) short(f *file, total int) error {
	if s.until == f.end() {
		s.next = f.end()
		return nil
	}
	return s.end("%s has only %d of its %d bytes", f.path, total, f.head.segment)
}

// given leaves the end of a log out of errors.
func given(err error) error {
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}
