package backup

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/flow"
)

// RestoreOptions of a Restore. Dir is where to; the rest may be left open.
type RestoreOptions struct {
	Options
	Dir string
	// Spaces says where tablespaces go, by where they were; others go to where they were.
	Spaces map[string]string
	// Finish is called when all files are there, but not the one without which a server
	// does not start: so a restore that ended early is not taken for one.
	Finish func(ctx context.Context, dir string) error
}

// lastFile is what a restore puts in place last.
const lastFile = "global/pg_control"

// A Restore is one restore.
type Restore struct {
	progress
	repo *repo.Repo
	m    *repo.Manifest
	opt  RestoreOptions

	files []target
	parts []part // by place in the packs
	empty *flow.Buffer[*fetched]
	full  *flow.Buffer[*fetched]
	work  *flow.Buffer[[]part]
	group *flow.Group
	sync  []string // folders, one at least in every file system

	uid, gid int // whom files are given to,
	give     bool
}

// A target is a file that is restored.
type target struct {
	path  string // on this host
	size  int64
	mode  uint32
	whole bool // all of it is in one part, which makes it; others are made before
}

// A part is what a piece has of a file.
type part struct {
	ref    repo.Ref
	file   int
	at     int64 // in the file
	skip   uint32
	length uint32
}

// A fetched piece is on its way to the files.
type fetched struct {
	room   []byte
	stored []byte
	parts  []part
}

// NewRestore prepares a restore of a backup.
func NewRestore(r *repo.Repo, m *repo.Manifest, opt RestoreOptions) (*Restore, error) {
	tuned, err := opt.Options.tuned()
	opt.Options = tuned
	return &Restore{repo: r, m: m, opt: opt}, err
}

// Run restores. Kind NotEmpty: the folder, or that of a tablespace, has something in it,
// and nothing was touched. Kind Corrupt: a piece of the backup is damaged.
func (x *Restore) Run(ctx context.Context) error {
	x.enter("plan")
	lock, err := x.repo.Lock(ctx, repo.LockSpec{Purpose: "restore", Needs: []string{x.m.ID}})
	if err != nil {
		return err
	}
	defer lock.Release()
	ctx = lock.Context()
	spaces, err := x.places()
	if err != nil {
		return err
	}
	folders, err := x.plan(ctx)
	if err != nil {
		return err
	}
	x.enter("prepare")
	x.uid, x.gid, x.give = x.owner()
	if err := x.makeFolders(folders, spaces); err != nil {
		return err
	}
	if err := x.makeFiles(ctx); err != nil {
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

// plan reads the list of files.
func (x *Restore) plan(ctx context.Context) (folders []repo.File, err error) {
	var bytes int64
	for f, err := range x.repo.Files(ctx, x.m) {
		if err != nil {
			return nil, err
		}
		if !filepath.IsLocal(filepath.FromSlash(string(f.Path))) || f.Blocks != nil || f.Type == repo.Link {
			return nil, tidemark.Errorf(tidemark.Unsupported, "restore", string(f.Path), "it is of a kind that this version cannot restore", "Use the version of tidemark that has made the backup.")
		}
		if f.Type == repo.Folder {
			folders = append(folders, f)
			continue
		}
		t := target{path: x.place(string(f.Path)), size: f.Size, mode: f.Mode}
		if string(f.Path) == lastFile {
			t.path += notYet
		}
		t.whole = len(f.Extents) == 1 && f.Extents[0].At == 0 && int64(f.Extents[0].Length) == f.Size
		for _, e := range f.Extents {
			x.parts = append(x.parts, part{ref: e.Ref, file: len(x.files), at: e.At, skip: e.Skip, length: e.Length})
			bytes += int64(e.Length)
		}
		x.files = append(x.files, t)
	}
	slices.SortFunc(x.parts, func(a, b part) int {
		if c := cmp.Compare(a.ref.Pack, b.ref.Pack); c != 0 {
			return c
		}
		if c := cmp.Compare(a.ref.Offset, b.ref.Offset); c != 0 {
			return c
		}
		return cmp.Compare(a.skip, b.skip)
	})
	slices.SortFunc(folders, func(a, b repo.File) int { return strings.Compare(string(a.Path), string(b.Path)) })
	x.expect(int64(len(x.files)), bytes)
	return folders, nil
}

// notYet is behind the name of the last file until all others are safe.
const notYet = ".not-yet"

func (x *Restore) place(p string) string { return filepath.Join(x.opt.Dir, filepath.FromSlash(p)) }

// copy runs the workers.
func (x *Restore) copy(ctx context.Context) error {
	o := x.opt
	var largest uint32
	for _, p := range x.parts {
		largest = max(largest, p.ref.Stored)
	}
	x.group = flow.NewGroup(ctx)
	x.work = flow.NewBuffer[[]part](o.Sessions, 0, nil)
	x.empty = flow.NewBuffer[*fetched](o.Buffers, 0, nil)
	x.full = flow.NewBuffer[*fetched](o.Buffers, 0, nil)
	for range o.Buffers {
		_ = x.empty.Put(ctx, nil, &fetched{room: make([]byte, largest)}) // there is room for all
	}
	var readers sync.WaitGroup
	readers.Add(o.Sessions)
	for range o.Sessions {
		x.group.Go(readerRole, func(ctx context.Context, c *flow.Clock) error {
			defer readers.Done()
			return x.fetch(ctx, c)
		})
	}
	for range o.Parallelism {
		x.group.Go(writerRole, x.write)
	}
	go func() { readers.Wait(); x.full.Close() }()
	err := x.handOut(x.group.Context())
	x.work.Close()
	if gerr := x.group.Wait(); gerr != nil {
		return gerr
	}
	return err
}

// fetchBytes is how much of a pack one reader fetches at a time.
const fetchBytes = 16 << 20

// handOut gives readers the parts of pieces that lie near each other.
func (x *Restore) handOut(ctx context.Context) error {
	for first := 0; first < len(x.parts); {
		end := first
		for end < len(x.parts) && x.parts[end].ref.Pack == x.parts[first].ref.Pack && x.parts[end].ref.Offset-x.parts[first].ref.Offset < fetchBytes {
			end++
		}
		if err := x.work.Put(ctx, nil, x.parts[first:end:end]); err != nil {
			return err
		}
		first = end
	}
	return nil
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

func (x *Restore) fetchRun(ctx context.Context, c *flow.Clock, run []part) error {
	was := c.Enter(flow.IO)
	defer c.Enter(was)
	first, last := run[0].ref, run[len(run)-1].ref
	in, err := x.repo.ReadPack(ctx, x.m, first.Pack, first.Offset, last.Offset+int64(last.Stored)-first.Offset)
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
		read, err := io.ReadFull(in, b.room[:ref.Stored])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		at = ref.Offset + int64(ref.Stored)
		b.stored, b.parts = b.room[:read], run[:n] // too little is damage, and is told as such
		run = run[n:]
		c.Count(1, int64(read), 0)
		x.stored(int64(read))
		if err := x.full.Put(ctx, c, b); err != nil {
			return err
		}
	}
	return nil
}

// write is a Writer: it opens pieces and writes what is in them to files.
func (x *Restore) write(ctx context.Context, c *flow.Clock) error {
	opener := x.repo.Opener(x.m)
	var plain []byte
	for {
		b, ok, err := x.full.Take(ctx, c)
		if err != nil || !ok {
			return err
		}
		if plain, err = opener.Open(plain, b.parts[0].ref, b.stored); err != nil {
			return err
		}
		was := c.Enter(flow.IO)
		for _, p := range b.parts {
			if int(p.skip)+int(p.length) > len(plain) {
				return tidemark.Errorf(tidemark.Corrupt, "restore", x.files[p.file].path, "the list of files asks for more than its piece has", "Run tidemark verify.")
			}
			if err := x.put(&x.files[p.file], plain[p.skip:][:p.length], p.at); err != nil {
				return err
			}
			x.moved(int64(p.length))
		}
		c.Enter(was)
		c.Count(1, int64(len(plain)), int64(len(b.parts)))
		if err := x.empty.Put(ctx, c, b); err != nil {
			return err
		}
	}
}

// put writes a part of a file.
func (x *Restore) put(t *target, b []byte, at int64) error {
	flags := os.O_WRONLY
	if t.whole {
		flags |= os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(t.path, flags, os.FileMode(t.mode))
	if err != nil {
		return writeFailed(t.path, err)
	}
	if t.whole {
		err = x.own(f, t.mode)
	}
	if err == nil {
		_, err = f.WriteAt(b, at)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return writeFailed(t.path, err)
}

// Report says where the time went until now.
func (x *Restore) Report() Report {
	r := Report{Restore: true, Phases: x.phasesUntilNow(), Parallelism: x.opt.Parallelism, Sessions: x.opt.Sessions, Buffers: x.opt.Buffers, BufferSize: x.opt.BufferSize}
	if x.group != nil {
		r.Workers = x.group.Report()
	}
	return r
}

// places says where the tablespaces go, and refuses folders that are in use.
func (x *Restore) places() (spaces map[string]string, err error) {
	if err := mustBeEmpty(x.opt.Dir, "Name another folder, or empty this one."); err != nil {
		return nil, err
	}
	used := map[string]bool{}
	spaces = map[string]string{}
	for _, s := range x.m.Tablespaces {
		to := s.Path
		if moved, ok := x.opt.Spaces[s.Path]; ok {
			to, used[s.Path] = moved, true
		}
		if to, err = filepath.Abs(to); err != nil {
			return nil, err
		}
		if err := mustBeEmpty(to, fmt.Sprintf("The tablespace %d was there: give it another place with --tablespace-map %s=FOLDER.", s.OID, s.Path)); err != nil {
			return nil, err
		}
		spaces[fmt.Sprintf("%s/%d", spaceFolder, s.OID)] = to
	}
	for old := range x.opt.Spaces {
		if !used[old] {
			return nil, tidemark.Errorf(tidemark.Invalid, "restore", old, "the backup has no tablespace there", "tidemark backups --json lists those that it has.")
		}
	}
	return spaces, nil
}
