package physical

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

const (
	controlPath     = "global/" + controlFileName // read by End, after all other files
	controlFileName = "pg_control"
	logFolder       = "pg_wal"
	spaceFolder     = "pg_tblspc"
	versionFile     = "PG_VERSION" // in a database's folder, in its own tablespace
)

// A backup leaves out what PostgreSQL's own backup leaves out: files that a server recreates when
// it starts, that only the running server can use, or that would make a copy believe that it is
// that server.

// emptied are folders that must exist, but whose contents the server does not need.
var emptied = []string{"pg_dynshmem", "pg_notify", "pg_replslot", "pg_serial", "pg_snapshots", "pg_stat_tmp", "pg_subtrans", logFolder}

// leftOutNames are left out in every folder.
var leftOutNames = []string{"postmaster.pid", "postmaster.opts", "backup_label", "backup_label.old", "tablespace_map", "tablespace_map.old",
	"backup_manifest", "backup_manifest.tmp", "postgresql.auto.conf.tmp", "current_logfiles.tmp", "recovery.signal", "standby.signal"}

// A lister walks through a data folder.
type lister struct {
	b   *Backup
	set *tidemark.DataSet
	// version is the folder of this server's version in a tablespace, which servers of
	// several versions may share.
	version string
}

// list finds what to read. What is added to the folder later is in the log.
func (b *Backup) list(set *tidemark.DataSet) error {
	root, err := os.Stat(b.dir)
	if err != nil {
		return b.listFailed(b.dir, err)
	}
	set.Owner, b.mode = ownerOf(root), uint32(root.Mode().Perm())
	set.Files.Add(tidemark.DataFile{Path: ".", Dir: true, Mode: b.mode, Modified: root.ModTime()})
	l := &lister{b: b, set: set, version: fmt.Sprintf("PG_%d_%d", b.e.Major, b.catalogVersion)}
	b.unlogged = map[string]numbers{}
	return l.folder("")
}

// numbers are the file numbers of relations, ascending: there may be many.
type numbers []uint64

func (n numbers) has(number string) bool {
	x, err := strconv.ParseUint(number, 10, 64)
	_, found := slices.BinarySearch(n, x)
	return found && err == nil
}

// unloggedIn returns the numbers of unlogged relations in a database's folder: those with an _init
// file.
func unloggedIn(all *fileNames) (out numbers) {
	for name := range all.each() {
		if number, found := strings.CutSuffix(name, "_init"); found && isNumber(number) {
			n, _ := strconv.ParseUint(number, 10, 64) // it has few digits
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// unloggedSince reports which files were listed as those of a logged relation, but are not; nil:
// none. An index of an unlogged table gets its _init file once it is filled. With such a file in
// the backup, a server that creates the _init file during recovery would stop when recovery ends.
func (b *Backup) unloggedSince() func(path string) bool {
	since := map[string]numbers{}
	for at, was := range b.unlogged {
		all, _ := b.namesIn(at) // it may have been dropped
		now := slices.DeleteFunc(unloggedIn(all), func(n uint64) bool {
			_, found := slices.BinarySearch(was, n)
			return found
		})
		if len(now) > 0 {
			since[at] = now
		}
	}
	if len(since) == 0 {
		return nil
	}
	return func(p string) bool {
		at, name := path.Split(p)
		return isUnlogged(name, since[path.Clean(at)])
	}
}

// fileNames is a sorted list of file names that uses little memory.
type fileNames struct {
	text []byte
	at   []uint32 // where in text each begins: its length in two bytes, then the name
}

func (n *fileNames) name(at uint32) []byte {
	return n.text[at+2:][:binary.LittleEndian.Uint16(n.text[at:])]
}

func (n *fileNames) each() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, at := range n.at {
			if !yield(string(n.name(at))) {
				return
			}
		}
	}
}

// namesIn reads the names in the folder at a path below the data folder, in portions: there may be
// a million.
func (b *Backup) namesIn(at string) (*fileNames, error) {
	n := &fileNames{}
	folder, err := os.Open(filepath.Join(b.dir, filepath.FromSlash(at)))
	if err != nil {
		return n, err
	}
	defer folder.Close()
	for {
		some, err := folder.Readdirnames(1000)
		for _, name := range some {
			if len(n.text) > math.MaxInt32 {
				return n, errors.New("it has more files than a list can hold")
			}
			n.at = append(n.at, uint32(len(n.text)))
			n.text = append(binary.LittleEndian.AppendUint16(n.text, uint16(len(name))), name...)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return n, err
		}
	}
	slices.SortFunc(n.at, func(x, y uint32) int { return bytes.Compare(n.name(x), n.name(y)) })
	return n, nil
}

func (b *Backup) listFailed(object string, err error) error {
	return &tidemark.Error{Op: "list", Object: object, Kind: tidemark.Forbidden, Err: tidemark.Pathless(err), Hint: "Run it as the user that the server runs as, or as root."}
}

// folder lists the contents of the folder at a path below the data folder.
func (l *lister) folder(at string) error {
	names, err := l.b.namesIn(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // dropped since its own folder was read
	}
	if err != nil {
		return l.b.listFailed(at, err)
	}
	inDatabase := isDatabaseFolder(at)
	var unlogged numbers
	if inDatabase {
		unlogged = unloggedIn(names)
		l.b.unlogged[at] = unlogged
	}
	for name := range names.each() {
		if leftOut(name) || inDatabase && (isTemporary(name) || isUnlogged(name, unlogged)) {
			continue
		}
		if err := l.entry(path.Join(at, name)); err != nil {
			return err
		}
	}
	return nil
}

func (l *lister) entry(p string) error {
	info, err := os.Lstat(filepath.Join(l.b.dir, filepath.FromSlash(p)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return l.b.listFailed(p, err)
	}
	f := tidemark.DataFile{Path: p, Size: info.Size(), Modified: info.ModTime(), Mode: uint32(info.Mode().Perm())}
	folder, name := path.Split(p)
	switch {
	case info.Mode().IsRegular():
		_, is := relationAt(p)
		f.Pages = is && l.b.checksums
		if is {
			l.b.relations += f.Size
		}
		if name == versionFile && isDatabaseFolder(path.Clean(folder)) {
			l.b.versions = append(l.b.versions, f)
		}
		l.set.Files.Add(f)
		return nil
	case folder == spaceFolder+"/" && info.Mode()&fs.ModeSymlink != 0:
		return l.tablespace(p, name)
	case folder == "" && slices.Contains(emptied, name):
		return l.empty(p)
	case info.IsDir():
		f.Dir, f.Size = true, 0
		l.set.Files.Add(f)
		return l.folder(p)
	}
	what := "it is neither a file nor a folder"
	if info.Mode()&fs.ModeSymlink != 0 {
		what = "it is a symbolic link, which PostgreSQL's own backup leaves out too"
	}
	l.set.Findings = append(l.set.Findings, tidemark.Finding{Severity: tidemark.Warning, Object: p, Text: "not in the backup: " + what})
	return nil
}

// empty keeps a folder without its contents; the folder itself may be elsewhere.
func (l *lister) empty(p string) error {
	keep := []string{p}
	if p == logFolder {
		keep = append(keep, p+"/archive_status", p+"/summaries")
	}
	for _, p := range keep {
		info, err := os.Stat(filepath.Join(l.b.dir, filepath.FromSlash(p)))
		if errors.Is(err, fs.ErrNotExist) {
			continue // summaries came with 17
		}
		if err != nil {
			return l.b.listFailed(p, err)
		}
		l.set.Files.Add(tidemark.DataFile{Path: p, Dir: true, Mode: uint32(info.Mode().Perm()), Modified: info.ModTime()})
	}
	return nil
}

func (l *lister) tablespace(p, oid string) error {
	number, err := strconv.ParseUint(oid, 10, 32)
	if err != nil {
		return nil // not the server's
	}
	target, err := os.Readlink(filepath.Join(l.b.dir, filepath.FromSlash(p)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return l.b.listFailed(p, err)
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(l.b.dir, spaceFolder, target)
	}
	info, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // dropped in the meantime, or it would hinder the server too
	}
	if err != nil {
		return l.b.listFailed(target, err)
	}
	l.set.Tablespaces = append(l.set.Tablespaces, tidemark.Tablespace{OID: uint32(number), Path: target})
	inside := path.Join(p, l.version)
	version, err := os.Stat(filepath.Join(target, l.version))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return l.b.listFailed(target, err)
	}
	l.set.Files.Add(tidemark.DataFile{Path: p, Dir: true, Mode: uint32(info.Mode().Perm()), Modified: info.ModTime()})
	l.set.Files.Add(tidemark.DataFile{Path: inside, Dir: true, Mode: uint32(version.Mode().Perm()), Modified: version.ModTime()})
	return l.folder(inside)
}

// leftOut reports whether a name belongs to a file that no backup contains.
func leftOut(name string) bool {
	return name == controlFileName || slices.Contains(leftOutNames, name) || strings.HasPrefix(name, "pgsql_tmp") ||
		strings.HasPrefix(name, "pg_internal.init")
}

// isDatabaseFolder reports whether a path is that of a database's folder, whose files are named
// after relations: base/5, pg_tblspc/16400/PG_15_202209061/5.
func isDatabaseFolder(p string) bool {
	words := strings.Split(p, "/")
	switch {
	case len(words) == 2 && words[0] == "base":
		return isNumber(words[1])
	case len(words) == 4 && words[0] == spaceFolder:
		return isNumber(words[3])
	}
	return false
}

// A relationFile is the parsed name of a relation's file: "16384_vm.2".
type relationFile struct {
	number  string
	fork    string // "" the main fork, "fsm", "vm", "init"
	segment int64
}

func parseRelation(name string) (r relationFile, ok bool) {
	name, segment, parted := strings.Cut(name, ".")
	if parted {
		if !isNumber(segment) {
			return r, false
		}
		for _, c := range segment {
			r.segment = r.segment*10 + int64(c-'0')
		}
	}
	r.number, r.fork, parted = strings.Cut(name, "_")
	if parted && r.fork != "fsm" && r.fork != "vm" && r.fork != "init" {
		return r, false
	}
	return r, isNumber(r.number)
}

// relationAt parses the path of a relation's file.
func relationAt(p string) (r relationFile, ok bool) {
	folder, name := path.Split(p)
	if folder != "global/" && !isDatabaseFolder(path.Clean(folder)) {
		return r, false
	}
	return parseRelation(name)
}

// isTemporary reports whether a name is that of a temporary relation's file: t3_16384.
func isTemporary(name string) bool {
	rest, found := strings.CutPrefix(name, "t")
	if !found {
		return false
	}
	session, rest, found := strings.Cut(rest, "_")
	_, relation := parseRelation(rest)
	return found && isNumber(session) && relation
}

// isUnlogged reports whether a file is one that a restored server recreates from its relation's
// _init.
func isUnlogged(name string, unlogged numbers) bool {
	r, ok := parseRelation(name)
	return ok && r.fork != "init" && unlogged.has(r.number)
}

func isNumber(s string) bool { return s != "" && len(s) <= 10 && strings.Trim(s, "0123456789") == "" }
