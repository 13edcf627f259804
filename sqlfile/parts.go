package sqlfile

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/archive"
)

// A part is one file of a script.
type part struct {
	path     string
	size     int64  // on disk; -1 unknown
	database string // of unqualified names, until the file names another one; "" unknown
	ends     string // the delimiter of its statements; "" is a semicolon
	rows     bool   // it has rows and what they need, and its SETs apply only to them
}

// parts are the files of a script, in order.
type parts struct {
	name     string // for messages
	list     []part
	defined  int // index of the first part after the last that defines a table; len(list) if only reading tells
	server   string
	position logPosition
	findings []tidemark.Finding
}

// partsOf finds the files of a source: a file, a list separated by commas, or a folder; see
// OpenScript.
func partsOf(path string) (*parts, error) {
	path = local(path)
	st, err := os.Stat(path)
	switch {
	case path == "-" || err == nil && !st.IsDir():
		return &parts{name: path, list: []part{{path: path}}, defined: 1}, nil
	case err == nil:
		return folderParts(path)
	case strings.Contains(path, ","):
		return listedParts(path)
	}
	return nil, archive.OpenError(path, err)
}

// local returns the path of a file: URL.
func local(path string) string {
	path = strings.TrimPrefix(path, "file:")
	if strings.HasPrefix(path, "//") { // file:///dir/x.sql
		path = "/" + strings.TrimLeft(path, "/")
	}
	return path
}

// listedParts returns files to read one after the other, as if their text were in one file, except
// that each file's SETs apply only to itself.
func listedParts(list string) (*parts, error) {
	paths := strings.Split(list, ",")
	p := &parts{name: fmt.Sprintf("%d files", len(paths)), defined: len(paths)}
	for _, path := range paths {
		path = local(strings.TrimSpace(path))
		st, err := os.Stat(path)
		if masked := tidemark.MaskURL(list); err != nil && masked != list {
			path = masked // it may be a connection string, with a comma in its password
		}
		if err != nil {
			return nil, archive.OpenError(path, err)
		}
		if !st.Mode().IsRegular() {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "open", Object: path, Err: errors.New("of several dump files each has to be a plain file"), Hint: "Name a folder alone, and no pipes."}
		}
		p.list = append(p.list, part{path: path, size: st.Size()})
	}
	return p, nil
}

// packings are the file name endings of supported compressions.
var packings = []string{"", ".gz", ".zst", ".bz2"}

// stem strips .sql and the ending of its compression from a file's name; ok means that it is SQL.
func stem(name string) (stem string, ok bool) {
	for _, packing := range packings {
		if s, ok := strings.CutSuffix(name, ".sql"+packing); ok {
			return s, true
		}
	}
	return name, false
}

// folderParts returns the files of mydumper's folder, or of a folder of dump files, in the order of
// their names.
func folderParts(dir string) (*parts, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, archive.OpenError(dir, err)
	}
	f := folder{dir: dir, files: map[string]os.FileInfo{}}
	for _, e := range entries {
		if e.IsDir() {
			f.ignored = append(f.ignored, e.Name()+"/")
			continue
		}
		st, err := os.Stat(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, archive.OpenError(filepath.Join(dir, e.Name()), err)
		}
		f.files[e.Name()] = st
		f.names = append(f.names, e.Name())
	}
	if f.isMydumper() {
		return f.mydumper()
	}
	p := &parts{name: dir}
	for _, name := range f.names {
		base, sql := stem(name)
		if _, tab := f.files[base+".txt"]; sql && tab {
			return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "open", Object: filepath.Join(dir, base+".txt"), Err: errors.New("it holds rows for LOAD DATA (mysqldump --tab), which are not read"), Hint: "Make the dump without --tab, or copy from the server itself."}
		}
		if !sql {
			f.ignored = append(f.ignored, name)
			continue
		}
		p.list = append(p.list, f.part(name))
	}
	if len(p.list) == 0 {
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "open", Object: dir, Err: errors.New("the folder has no dump files (.sql, .sql.gz, .sql.zst, .sql.bz2)"), Hint: "Name the file, or the folder that holds them."}
	}
	p.defined, p.findings = len(p.list), f.findings()
	return p, nil
}

// A folder is a folder of files, by name.
type folder struct {
	dir     string
	names   []string // in order
	files   map[string]os.FileInfo
	ignored []string
}

func (f *folder) part(name string) part {
	return part{path: filepath.Join(f.dir, name), size: f.files[name].Size()}
}

// findings names the files that are ignored.
func (f *folder) findings() []tidemark.Finding {
	if len(f.ignored) == 0 {
		return nil
	}
	return []tidemark.Finding{{Severity: tidemark.Note, Object: "folder", Text: "not read, since they are no SQL of a dump: " + tidemark.Some(f.ignored, 5)}}
}

// stamp changes when one of the files does.
func (p *parts) stamp() string {
	sum := sha256.New()
	one := ""
	for _, it := range p.list {
		st, err := os.Stat(it.path)
		if err != nil || !st.Mode().IsRegular() {
			return ""
		}
		one = fmt.Sprintf("%d bytes of %s", st.Size(), st.ModTime().UTC().Format("2006-01-02T15:04:05.000000000Z"))
		fmt.Fprintf(sum, "%q %s\n", filepath.Base(it.path), one)
	}
	if len(p.list) == 1 {
		return one
	}
	return fmt.Sprintf("%d files, %x", len(p.list), sum.Sum(nil)[:8])
}

// size returns the total size of the files; 0 unknown.
func (p *parts) size() (n int64) {
	for _, it := range p.list {
		n += max(it.size, 0)
	}
	return n
}

// beginning returns the first bytes of a file's text.
func beginning(path string) (string, error) {
	f, err := Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b := make([]byte, 64<<10)
	n, err := io.ReadFull(f, b)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return "", err
	}
	return string(b[:n]), nil
}
