package backup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
)

// A Basis tells which earlier backup a new one builds on.
type Basis int

// The bases. The terms are Db2's: an incremental backup has what changed since the last full one, a
// delta backup what changed since the last one of any kind.
const (
	Nothing  Basis = iota // a full backup
	LastFull              // incremental
	LastAny               // delta
)

// basis is the part of a Job that finds the backups it builds on, and what has changed since then.
type basis struct {
	server Server
	src    Source // server, if it provides its files; nil: it sends them
	repo   *repo.Repo
	opt    Options
	set    *tidemark.DataSet
	since  since
	notes  notes
}

// triedMost is how many earlier backups are tried, newest first.
const triedMost = 5

// choose finds the backup to build on. If there is none, this one is a full backup, and findings
// tell why.
func (j *basis) choose(ctx context.Context) error {
	if j.opt.Resume != "" {
		if err := j.goOn(ctx); err != nil || j.since.parent != nil {
			return err
		}
	}
	if j.opt.Basis == Nothing && j.opt.Parent == "" {
		return nil
	}
	builder, ok := j.server.(Builder)
	if !ok {
		return j.unfounded("it is not known what has changed", "")
	}
	candidates, why, err := j.candidates(ctx)
	if err != nil {
		return err
	}
	for _, c := range candidates {
		chain, text, err := j.unfit(ctx, c)
		if err != nil {
			return err
		}
		if text != "" {
			why = append(why, c.ID+": "+text)
			continue
		}
		m := chain[len(chain)-1]
		ds, err := j.sinceParent(ctx, m)
		if err != nil {
			return err
		}
		way, findings, err := builder.Since(ctx, ds)
		if tidemark.KindOf(err) == tidemark.Unsupported && err != nil {
			return j.unfounded(err.Error(), tidemark.HintOf(err))
		}
		if tidemark.KindOf(err) == tidemark.Invalid && err != nil {
			why = append(why, m.ID+": "+err.Error())
			continue
		}
		if err != nil {
			return err
		}
		j.buildOn(m, builder, way, findings)
		return nil
	}
	if len(why) == 0 {
		return j.unfounded("there is no earlier backup of this cluster to build on", "")
	}
	return j.unfounded("no earlier backup can be its parent: "+strings.Join(why, "; "), "")
}

// buildOn records which backup this one builds on, and the result of asking for changes since.
func (j *basis) buildOn(m *repo.Manifest, builder Builder, way string, findings []tidemark.Finding) {
	j.set.Findings = append(j.set.Findings, findings...)
	j.since.parent, j.since.way = m, way
	j.since.changes, _ = builder.(Changes)
}

// sinceParent returns what an engine must know about a finished backup.
func (j *basis) sinceParent(ctx context.Context, m *repo.Manifest) (tidemark.DataSince, error) {
	ds := tidemark.DataSince{Checksums: m.Checksums, Begun: m.Started, Ranges: dataLogs(m),
		Each: func(give func(tidemark.DataFile) error) error { return j.eachFile(ctx, m, give) }}
	if j.src == nil {
		return ds, nil // a server that sends its files needs nothing else
	}
	was, err := j.filesOf(ctx, m)
	ds.Was, ds.Log = was.get, j.logOf(m)
	return ds, err
}

// unfounded makes the backup a full one, unless its parent was named.
func (j *basis) unfounded(why, hint string) error {
	if j.opt.Parent != "" {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Object: j.opt.Parent, Err: errors.New("that backup cannot be the parent: " + why), Hint: cmp.Or(hint, "Name another one, or none to use the newest suitable backup.")}
	}
	j.set.Findings = append(j.set.Findings, tidemark.Finding{Severity: tidemark.Warning, Text: "this is a full backup: " + why, Hint: hint})
	return nil
}

// candidates returns the backups that this one might build on, newest first, in brief.
func (j *basis) candidates(ctx context.Context) (all []*repo.Manifest, why []string, err error) {
	ids := []string{j.opt.Parent}
	if j.opt.Parent == "" {
		if ids, err = j.repo.IDs(ctx); err != nil {
			return nil, nil, err
		}
	}
	for _, id := range ids {
		m, err := j.repo.Brief(ctx, id)
		if j.opt.Parent == "" && repo.IsDamage(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, m)
	}
	repo.SortByAge(all)
	slices.Reverse(all)
	var fit []*repo.Manifest
	for _, m := range all {
		// A logical backup records no log that it needs.
		if m.SystemID != j.set.System || m.Engine != j.set.Engine || len(m.Ranges) == 0 || m.Kind == repo.Partial || j.opt.Basis == LastFull && m.Kind != repo.Full {
			if j.opt.Parent != "" {
				why = append(why, "it is not a complete physical backup of this cluster, or not a full one")
			}
			continue
		}
		if len(fit)+len(why) == triedMost {
			break
		}
		fit = append(fit, m)
	}
	return fit, why, nil
}

// unfit returns why a backup cannot be built on, or the full manifests of its chain, its own last.
func (j *basis) unfit(ctx context.Context, m *repo.Manifest) (chain []*repo.Manifest, why string, err error) {
	switch {
	case m.PageSize != j.set.PageSize:
		return nil, "its pages have another size", nil
	case slices.ContainsFunc(m.Notes, func(n string) bool { return strings.HasPrefix(n, damagedNote) }):
		return nil, "it has damaged pages", nil
	}
	chain, err = j.repo.Chain(ctx, m.ID)
	for i := 0; i < len(chain) && err == nil; i++ {
		err = j.repo.PacksThere(ctx, chain[i])
	}
	switch {
	case err == nil:
		return chain, "", nil
	case repo.IsDamage(err) || tidemark.KindOf(err) == tidemark.Lost:
		return nil, err.Error(), nil
	}
	return nil, "", err
}

// earlier lists a backup's files by the hashes of their paths: with a million files, 32 MB.
type earlier []fileWas

type fileWas struct {
	name     xxh3.Uint128
	size     int64
	modified int64
}

func (f earlier) get(name string) (tidemark.DataFile, bool) {
	i, ok := slices.BinarySearchFunc(f, xxh3.HashString128(name), func(w fileWas, name xxh3.Uint128) int { return compareSums(w.name, name) })
	if !ok {
		return tidemark.DataFile{}, false
	}
	return tidemark.DataFile{Path: name, Size: f[i].size, Modified: time.Unix(0, f[i].modified)}, true
}

func compareSums(a, b xxh3.Uint128) int {
	return cmp.Or(cmp.Compare(a.Hi, b.Hi), cmp.Compare(a.Lo, b.Lo))
}

// filesOf reads a backup's files.
func (j *basis) filesOf(ctx context.Context, m *repo.Manifest) (earlier, error) {
	was := make(earlier, 0, min(max(m.Count, 0), 1<<20)) // a damaged manifest may have any count
	for f, err := range j.repo.Files(ctx, m) {
		if err != nil {
			return nil, err
		}
		if f.Type == "" {
			was = append(was, fileWas{xxh3.HashString128(string(f.Path)), f.Size, f.MTime})
		}
	}
	slices.SortFunc(was, func(a, b fileWas) int { return compareSums(a.name, b.name) })
	return was, nil
}

// eachFile passes give a backup's files.
func (j *basis) eachFile(ctx context.Context, m *repo.Manifest, give func(tidemark.DataFile) error) error {
	for f, err := range j.repo.Files(ctx, m) {
		if err != nil {
			return err
		}
		if f.Type != "" {
			continue
		}
		if err := give(tidemark.DataFile{Path: string(f.Path), Size: f.Size, Modified: time.Unix(0, f.MTime)}); err != nil {
			return err
		}
	}
	return nil
}

// logOf reads log files: from the repository's archive, or from the parent if it contains them.
func (j *basis) logOf(m *repo.Manifest) func(context.Context, string) (io.ReadCloser, error) {
	var own map[string][]repo.Extent // of the parent's; nil: not needed so far
	return func(ctx context.Context, name string) (io.ReadCloser, error) {
		whose, err := j.repo.LogServer(ctx)
		if err == nil && whose.System == m.SystemID { // else the archive is another server's
			in, err := j.repo.GetLog(ctx, name)
			if err == nil || tidemark.KindOf(err) != tidemark.NotFound {
				return in, err
			}
		} else if err != nil && tidemark.KindOf(err) != tidemark.NotFound {
			return nil, err
		}
		if own == nil {
			own = map[string][]repo.Extent{}
			for f, err := range j.repo.Files(ctx, m) {
				if err != nil {
					return nil, err
				}
				if name, ok := strings.CutPrefix(string(f.Path), "pg_wal/"); ok && f.Type == "" {
					own[name] = f.Extents
				}
			}
		}
		extents, ok := own[path.Base(name)]
		if !ok {
			return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "read log", Object: name, Err: errors.New("it is neither in the archive nor in the backup")}
		}
		return &fileReader{ctx: ctx, from: j.repo.Opener(m), left: extents}, nil
	}
}

// A fileReader reads a file of a backup that has no holes.
type fileReader struct {
	ctx  context.Context
	from *repo.Opener
	left []repo.Extent
	room []byte
	now  bytes.Reader
}

func (r *fileReader) Read(p []byte) (int, error) {
	for r.now.Len() == 0 {
		if len(r.left) == 0 {
			return 0, io.EOF
		}
		e := r.left[0]
		r.left = r.left[1:]
		var err error
		if r.room, err = r.from.Piece(r.ctx, r.room, e.Ref); err != nil {
			return 0, err
		}
		if int64(e.Skip)+int64(e.Length) > int64(len(r.room)) {
			return 0, &tidemark.Error{Op: "read", Kind: tidemark.Corrupt, Err: errors.New("the file list refers beyond the end of a piece"), Hint: "Run tidemark verify."}
		}
		r.now.Reset(r.room[e.Skip:][:e.Length])
	}
	return r.now.Read(p)
}

func (*fileReader) Close() error { return nil }

// increment returns the summary of an incremental backup.
func (j *Job) increment() *Increment {
	if j.since.parent == nil {
		return nil
	}
	i := &Increment{Parent: j.since.parent.ID, Way: j.since.way, Looked: j.since.looked.Load(), Stored: j.since.stored.Load(), Resumed: j.notes.of != nil}
	for _, m := range j.notes.of {
		i.Had += m.Plain
	}
	if j.notes.base != nil {
		i.Base = j.notes.base.ID
	}
	return i
}

// String formats it in one line.
func (i *Increment) String() string {
	if i.Base != "" {
		return fmt.Sprintf("incremental on %s, continues %s, which had %d MB: %d pages checked, %d had changed; found by %s", i.Base, i.Parent, i.Had/1e6, i.Looked, i.Stored, i.Way)
	}
	if i.Resumed {
		return fmt.Sprintf("continues %s, which had %d MB of files: %d of their pages checked, %d had changed; found by %s", i.Parent, i.Had/1e6, i.Looked, i.Stored, i.Way)
	}
	return fmt.Sprintf("incremental on %s: %d pages checked, %d had changed; found by %s", i.Parent, i.Looked, i.Stored, i.Way)
}
