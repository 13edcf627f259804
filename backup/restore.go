package backup

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/flow"
	sorted "github.com/tidemarkdb/tidemark/internal/spool"
)

// RestoreOptions of a Restore. Dir is the target folder; everything else is optional.
type RestoreOptions struct {
	Options
	Dir string
	// Spaces maps where tablespaces were to where they are restored; others return to where they
	// were.
	Spaces map[string]string
	// Finish is called when all files are there except the one without which a server does not
	// start: so nobody takes an interrupted restore for a complete one.
	Finish func(ctx context.Context, dir string) error
	// Delta restores over a folder that already has files of this cluster: it writes only what
	// differs.
	Delta bool
	Force bool // with Delta: accept any content of the folder, if it was once a server's
	// Leave reports whether the file of a path is left out: it becomes zeros, which take no space.
	// Not with Delta.
	Leave func(path string) bool
	// System reads the cluster's system identifier from a pg_control; Delta needs it.
	System func(control []byte) (system string, ok bool)
	// Manifest returns the path of the engine's own list of files, and begin, which starts to write
	// it: for a restore that combines several backups or leaves out files. nil: no list is written.
	Manifest func(m *repo.Manifest) (path string, begin func(w io.Writer) FileList)
}

// A FileList receives files in no particular order.
type FileList interface {
	Add(f tidemark.DataSum) error
	Close() error // all were added
}

// lastFile is what a restore puts in place last.
const lastFile = "global/pg_control"

// A Restore is one restore.
type Restore struct {
	progress
	contents

	free chan *window
	made *madeList // nil: no list is written

	empty *flow.Buffer[*fetched]
	full  *flow.Buffer[*fetched]
	work  *flow.Buffer[task]
	asked Options // as the user set them
	tuned tuned
	group *flow.Group
	crew  *crew
	sync  []string // folders, at least one in every file system
	over  *over    // nil: the folder was empty
}

// contents are what a Restore brings back: the files of a backup, and where their parts are.
type contents struct {
	files
	repo  *repo.Repo
	chain []*repo.Manifest // the backups it needs, from the full one to itself

	todo                     todo
	windowMost, layersMemory int
	layers                   *sorted.Sorter // of the files of which this backup has only pages; nil: there are none
}

// files creates a backup's files in a folder, with their owner and permissions.
type files struct {
	m    *repo.Manifest
	opt  RestoreOptions
	mode uint32 // of the data folder

	uid, gid int // who owns the files,
	give     bool
	mask     uint32 // permissions that the system removes from new files
}

// A target is a file that is restored.
type target struct {
	name     string // below the data folder, with slashes
	size     int64
	modified int64  // nanoseconds since 1970
	crc      uint32 // CRC-32C; of a layered file, known once it is written
	mode     uint32
	whole    bool // one part has all of it, and creates it; other files are created before
	layered  bool
	left     bool       // left out, by Leave: it becomes zeros
	layers   []layerSum // of a layered file: those that are restored in full
}

// A layerSum is the checksum of what a backup has of a file.
type layerSum struct {
	level int32
	crc   uint32
	size  int64 // of the file then,
	zeros bool  // whose bytes in no part are zeros that count
}

// A part is what a piece has of a file.
type part struct {
	ref    repo.Ref
	at     int64 // in the file
	level  int32 // whose piece it is: index in the chain
	file   int32 // in the window
	skip   uint32
	length uint32
	crc    uint32 // CRC-32C of its bytes, once written
	alone  bool   // the piece belongs to this file alone, from its first byte
}

// A fetched piece is on its way to the files.
type fetched struct {
	room   []byte
	stored []byte
	w      *window
	parts  []part
}

// NewRestore prepares a restore of a backup.
func NewRestore(r *repo.Repo, m *repo.Manifest, opt RestoreOptions) (*Restore, error) {
	t, err := opt.Options.tuned(r.Store(), 0)
	asked := opt.Options
	opt.Options = t.set(asked)
	return &Restore{contents: contents{files: files{m: m, opt: opt}, repo: r, windowMost: windowMost, layersMemory: layersMemory}, asked: asked, tuned: t}, err
}

// Run restores. Kind NotEmpty: the folder, or that of a tablespace, is not empty, and nothing was
// touched. Kind Corrupt: a piece of the backup is damaged.
func (x *Restore) Run(ctx context.Context) error {
	x.enter("plan")
	if err := x.readChain(ctx); err != nil {
		return err
	}
	spec := repo.LockSpec{Purpose: "restore"}
	for _, m := range x.chain {
		spec.Needs = append(spec.Needs, m.ID)
	}
	ctx, release, err := x.repo.Use(ctx, spec)
	if err != nil {
		return err
	}
	defer release()
	if err := x.lookAtFolder(); err != nil {
		return err
	}
	spaces, err := x.places()
	if err != nil {
		return err
	}
	defer x.close()
	folders, err := x.plan(ctx)
	if err != nil {
		return err
	}
	x.expect(x.todo.files, x.todo.parts, x.todo.bytes)
	x.enter("prepare")
	x.uid, x.gid, x.give = x.owner()
	x.mask = umask()
	if err := x.prepare(ctx, folders, spaces); err != nil {
		return err
	}
	x.enter("copy")
	if err := x.copy(ctx); err != nil {
		return err
	}
	x.enter("sync")
	if err := x.finish(ctx); err != nil {
		return err
	}
	x.enter("")
	return nil
}

// close closes what is open.
func (x *Restore) close() {
	if x.layers != nil {
		x.layers.Close()
	}
	if x.made != nil && x.made.f != nil {
		x.made.f.Close() // it ended early
	}
}

// prepare creates folders and files with their final attributes, but without their bytes.
func (x *Restore) prepare(ctx context.Context, folders []repo.File, spaces map[string]string) error {
	if x.over != nil {
		if err := x.moveAway(); err != nil {
			return err
		}
	}
	if err := x.makeFolders(folders, spaces); err != nil {
		return err
	}
	if x.over != nil {
		names := map[string]bool{}
		for _, f := range folders {
			names[string(f.Path)] = true
		}
		if err := x.clear(ctx, names); err != nil {
			return err
		}
	}
	if err := x.makeList(); err != nil {
		return err
	}
	return x.makeFiles(ctx)
}

// notYet is the suffix of the last file's name until all others are safe.
const notYet = ".not-yet"

func (x *files) place(p string) string { return filepath.Join(x.opt.Dir, filepath.FromSlash(p)) }

// path returns where a file is during the restore.
func (x *files) path(t *target) string {
	if t.name == lastFile {
		return x.place(t.name) + notYet
	}
	return x.place(t.name)
}

// copy runs the workers.
func (x *Restore) copy(ctx context.Context) error {
	var err error
	if x.tuned, err = x.asked.tuned(x.repo.Store(), int64(max(x.todo.stored, x.todo.plain, bufferUnit))); err != nil {
		return err
	}
	x.group = flow.NewGroup(ctx)
	x.work = flow.NewBuffer[task](x.tuned.begin.sessions, 0, nil)
	x.empty = flow.NewBuffer[*fetched](x.tuned.most.buffers, 0, nil)
	x.full = flow.NewBuffer[*fetched](x.tuned.most.buffers, 0, nil)
	x.crew = &crew{group: x.group, restore: true, tuned: x.tuned, closeFull: x.full.Close, server: x.write, place: x.fetch,
		buffer: func() { _ = x.empty.Put(ctx, nil, &fetched{}) }} // there is room for all
	x.crew.start()
	err = x.restoreAll(x.group.Context())
	x.work.Close()
	if gerr := x.group.Wait(); gerr != nil {
		return gerr
	}
	return err
}

// fetchBytes is how much of a pack one reader fetches at a time. fetchGap is the largest unwanted
// gap that it reads to reach what follows.
const (
	fetchBytes = 16 << 20
	fetchGap   = 512 << 10
)

// handOut gives readers the parts of pieces that are near each other.
func (x *Restore) handOut(ctx context.Context, w *window, parts []part) error {
	for len(parts) > 0 {
		n := near(parts)
		if err := x.work.Put(ctx, nil, task{w, parts[:n:n]}); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// near returns how many parts, of at least one, are fetched at once.
func near(parts []part) int {
	first, end := &parts[0], int64(0)
	for n := range parts {
		p := &parts[n]
		if p.level != first.level || p.ref.Pack != first.ref.Pack || p.ref.Offset-first.ref.Offset >= fetchBytes || n > 0 && p.ref.Offset-end > fetchGap {
			return n
		}
		end = p.ref.Offset + int64(p.ref.Stored)
	}
	return len(parts)
}

// fetch is a Reader: it fetches the stored bytes of pieces.
func (x *Restore) fetch(ctx context.Context, c *flow.Clock) error {
	for {
		run, ok, err := x.work.Take(ctx, c)
		if err != nil || !ok {
			return err
		}
		if err := x.fetchRun(ctx, c, run); err != nil {
			return err
		}
	}
}

func (x *Restore) fetchRun(ctx context.Context, c *flow.Clock, r task) error {
	was := c.Enter(flow.IO)
	defer c.Enter(was)
	run := r.parts
	first, last := run[0].ref, run[len(run)-1].ref
	in, err := x.repo.ReadPack(ctx, x.chain[run[0].level], first.Pack, first.Offset, last.Offset+int64(last.Stored)-first.Offset)
	if err != nil {
		return err
	}
	defer in.Close()
	at := first.Offset
	for len(run) > 0 {
		ref, n := run[0].ref, 1
		for n < len(run) && run[n].ref.Offset == ref.Offset {
			n++
		}
		b, _, err := x.empty.TakeAs(ctx, c, flow.WaitBuffer)
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, in, ref.Offset-at); err != nil && err != io.EOF {
			return err
		}
		if b.room == nil {
			b.room = make([]byte, x.todo.stored)
		}
		read, err := io.ReadFull(in, b.room[:ref.Stored])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		at = ref.Offset + int64(ref.Stored)
		b.stored, b.w, b.parts = b.room[:read], r.w, run[:n] // too few bytes are damage, and reported as such
		run = run[n:]
		c.Count(1, int64(read), 0)
		x.stored(int64(read))
		if err := x.full.Put(ctx, c, b); err != nil {
			return err
		}
	}
	return nil
}

// write is a Writer: it opens pieces and writes their content to files.
func (x *Restore) write(ctx context.Context, c *flow.Clock) error {
	openers := make([]*repo.Opener, len(x.chain))
	for i, m := range x.chain {
		openers[i] = x.repo.Opener(m)
	}
	var plain []byte
	for {
		b, ok, err := x.full.Take(ctx, c)
		if err != nil || !ok {
			return err
		}
		if plain, err = openers[b.parts[0].level].Open(plain, b.parts[0].ref, b.stored); err != nil {
			return err
		}
		was := c.Enter(flow.IO)
		err = x.put(b.w, b.parts, plain)
		c.Enter(was)
		if err != nil {
			return err
		}
		c.Count(1, int64(len(plain)), int64(len(b.parts)))
		if err := x.written(b.w, len(b.parts)); err != nil {
			return err
		}
		if err := x.empty.Put(ctx, c, b); err != nil {
			return err
		}
	}
}

// put writes parts that are in the same piece.
func (x *Restore) put(w *window, parts []part, plain []byte) error {
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].file == parts[0].file {
			n++
		}
		t := &w.files[parts[0].file]
		if err := x.putFile(t, parts[:n], plain); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// bytes returns what a part has of its piece.
func (p *part) bytes(plain []byte, path string) ([]byte, error) {
	if int(p.skip)+int(p.length) > len(plain) {
		return nil, &tidemark.Error{Kind: tidemark.Corrupt, Op: "restore", Object: path, Err: errors.New("the file list refers beyond the end of a piece"), Hint: "Run tidemark verify."}
	}
	return plain[p.skip:][:p.length], nil
}

// summed notes the checksum of a part, and compares it if the part is all of its file. That of a
// whole piece was compared when the piece was opened.
func (p *part) summed(t *target, b []byte) error {
	if p.crc = p.ref.CRC; !p.alone || p.length != p.ref.Plain {
		p.crc = crc32.Checksum(b, castagnoli)
	}
	if t.whole && !t.layered && p.crc != t.crc {
		return wrongFile(t.name, repo.WrongSum(p.crc, t.crc))
	}
	return nil
}

// putFile writes parts of one file.
func (x *Restore) putFile(t *target, parts []part, plain []byte) error {
	path := x.path(t)
	if t.whole && x.over == nil {
		return x.putWhole(path, t, &parts[0], plain)
	}
	flags := os.O_WRONLY
	if x.over != nil {
		flags = os.O_RDWR | os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, os.FileMode(t.mode).Perm())
	if err != nil {
		return writeFailed(path, err)
	}
	for i := 0; i < len(parts) && err == nil; i++ {
		p := &parts[i]
		var b []byte
		if b, err = p.bytes(plain, path); err != nil {
			break
		}
		if err = p.summed(t, b); err != nil {
			break
		}
		switch {
		case x.over != nil:
			err = x.rewrite(f, b, p.at)
		case x.opt.Direct:
			err = writeDirect(f, b, p.at)
		default:
			_, err = f.WriteAt(b, p.at)
		}
		x.moved(1, int64(p.length))
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return writeFailed(path, err)
}

// putWhole creates a file that is all in one part.
func (x *Restore) putWhole(path string, t *target, p *part, plain []byte) error {
	b, err := p.bytes(plain, path)
	if err != nil {
		return err
	}
	if err := p.summed(t, b); err != nil {
		return err
	}
	if x.opt.Direct {
		err = x.makeDirect(path, t, b)
	} else {
		err = x.makeWith(path, t.mode, b)
	}
	x.moved(1, int64(p.length))
	return writeFailed(path, err)
}

func (x *files) makeDirect(path string, t *target, b []byte) error {
	return x.create(path, t.mode, func(f *os.File) error { return writeDirect(f, b, 0) })
}

// Report returns where the time went so far.
func (x *Restore) Report() Report {
	r := Report{Restore: true, Phases: x.phases.UntilNow(), Forecasts: x.forecasts()}
	r.of(x.crew, x.tuned)
	return r
}

// Left returns how many bytes of files were left out.
func (x *Restore) Left() int64 { return x.todo.left }

// places returns where the tablespaces go, and rejects folders that are in use.
func (x *Restore) places() (spaces map[string]string, err error) {
	if x.over == nil {
		if err := mustBeEmpty(x.opt.Dir, "Name another folder, empty this one, or use --delta to restore over a data folder of this cluster."); err != nil {
			return nil, err
		}
	}
	used := map[string]bool{}
	spaces = map[string]string{}
	for _, s := range x.m.Tablespaces {
		name := fmt.Sprintf("%s/%d", spaceFolder, s.OID)
		used[s.Path] = true
		to, empty, err := x.spacePlace(name, s.Path)
		if err != nil {
			return nil, err
		}
		if empty {
			if err := mustBeEmpty(to, fmt.Sprintf("The server had tablespace %d there: choose another folder with --tablespace-map %s=FOLDER.", s.OID, s.Path)); err != nil {
				return nil, err
			}
		}
		spaces[name] = to
	}
	for old := range x.opt.Spaces {
		if !used[old] {
			return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "restore", Object: old, Err: errors.New("the backup has no tablespace with that path"), Hint: "List the backup's tablespaces with tidemark backups --json."}
		}
	}
	return spaces, nil
}
