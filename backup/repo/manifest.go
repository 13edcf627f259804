package repo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// Kinds of backups.
const (
	Full        = "full"
	Incremental = "incremental" // has only what changed since its parent
	// Partial is what exists of an unfinished backup. It cannot be restored; the backup that
	// resumes it is of the requested kind, and has it as its parent.
	Partial = "partial"
)

// Logical is the form of a backup of rows and definitions, which are objects that people can read
// (plain.go). Other backups have the server's files in packs.
const Logical = "logical"

// A Manifest describes a backup, and where its parts are. It is written last, under backups/ and
// the id: the backup exists once its manifest does. The files are in separate lists, which Files
// reads.
type Manifest struct {
	Format  int       `json:"format"` // of the manifest: 1
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`             // Full, Incremental or Partial
	Form    string    `json:"form,omitempty"`   // Logical, or ""
	Parent  string    `json:"parent,omitempty"` // the backup that this one needs
	Label   string    `json:"label,omitempty"`  // set by the user
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Tool    string    `json:"tool,omitempty"` // which version of tidemark

	// The server.
	Engine     string `json:"engine"`             // postgres; a logical one's may be mysql or mariadb
	Version    string `json:"version"`            // as the server reports it
	VersionNum int    `json:"version_num"`        // 150018
	SystemID   string `json:"system_id"`          // distinguishes the cluster from all others
	Source     string `json:"source,omitempty"`   // where it was, without secrets
	Server     string `json:"server,omitempty"`   // the user's name for it
	Standby    bool   `json:"standby,omitempty"`  // it was a standby
	Checksums  bool   `json:"checksums"`          // its pages have checksums
	PageSize   int    `json:"page_size"`          // bytes
	LogSize    int64  `json:"log_size,omitempty"` // bytes of a file of the log

	// Of a logical one: which database ("" is a whole MySQL server), and the log position of its
	// snapshot.
	Database string            `json:"database,omitempty"`
	Position tidemark.Position `json:"position,omitzero"`
	Tables   int               `json:"tables,omitempty"` // whose rows it has
	Rows     int64             `json:"rows,omitempty"`

	// The log that it needs to become consistent, in order of time; each timeline once.
	Ranges []LogRange `json:"ranges,omitempty"`

	Owner       Owner                   `json:"owner,omitzero"` // of the data directory
	Tablespaces []Tablespace            `json:"tablespaces,omitempty"`
	Databases   []tidemark.DatabaseName `json:"databases,omitempty"`      // those that existed when it began
	BackupLabel string                  `json:"backup_label,omitempty"`   // PostgreSQL's, byte for byte; restored as a file
	SpaceMap    string                  `json:"tablespace_map,omitempty"` // likewise

	Count  int64 `json:"files"`  // files and folders
	Bytes  int64 `json:"bytes"`  // of the source's files; of a logical one, of the rows' text
	Plain  int64 `json:"plain"`  // of these, bytes in the backup's pieces
	Stored int64 `json:"stored"` // bytes of its packs and plain objects

	// Notes are findings, such as damaged pages.
	Notes []string `json:"notes,omitempty"`
	// Report is the job's report, in its own form.
	Report json.RawMessage `json:"report,omitempty"`

	// Buried means that there is no such backup: it was not finished, and prune has removed its
	// packs.
	Buried bool `json:"buried,omitempty"`

	Packs []PackStat `json:"packs"` // by number
	Lists []Ref      `json:"lists"` // the pieces that list the files, in order
	// Left are paths in the lists that turned out not to belong in the backup, with everything
	// below them. Files skips them.
	Left []Path `json:"left,omitempty"`
}

// A LogRange is log of one timeline.
type LogRange struct {
	Timeline uint32 `json:"timeline"`
	Start    string `json:"start"` // log position, as the engine writes it
	End      string `json:"end"`
	// First and Last are the names of the first and last log with the range, as CreateLog takes
	// them, and Count is the number of logs. With Count 0, the range is in the backup's files, and
	// the names show from where on the log is needed to recover beyond the backup: prune keeps log
	// by these names, and keeps all log if a backup has no names.
	First string `json:"first,omitempty"`
	Last  string `json:"last,omitempty"`
	Count int    `json:"count,omitempty"`
}

// Owner is a file's owner: restore sets it, if permitted.
type Owner struct {
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
	UID   int    `json:"uid"`
	GID   int    `json:"gid"`
}

// A Tablespace is a folder outside of the data directory.
type Tablespace struct {
	OID  uint32 `json:"oid"`
	Path string `json:"path"`
}

// A Path is a file's path, with slashes, below the data directory. It may have any bytes; in JSON
// it is a string, or {"hex":"..."} if it is not UTF-8.
type Path string

type hexPath struct {
	Hex string `json:"hex"`
}

// MarshalJSON implements json.Marshaler.
func (p Path) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(p)) {
		return json.Marshal(string(p))
	}
	return json.Marshal(hexPath{hex.EncodeToString([]byte(p))})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Path) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var h hexPath
		if err := json.Unmarshal(b, &h); err != nil {
			return err
		}
		raw, err := hex.DecodeString(h.Hex)
		*p = Path(raw)
		return err
	}
	return json.Unmarshal(b, (*string)(p))
}

// Types of a File that is not a regular file.
const (
	Folder = "folder"
	Link   = "link"
)

// A File is a file, a folder or a symbolic link of a backup.
type File struct {
	Path  Path   `json:"path"`
	Type  string `json:"type,omitempty"` // "", Folder or Link
	Size  int64  `json:"size,omitempty"` // bytes of the whole file as it is restored
	Mode  uint32 `json:"mode"`           // permission bits
	MTime int64  `json:"mtime"`          // nanoseconds since 1970
	CRC   uint32 `json:"crc,omitempty"`  // CRC-32C of the whole file; of an incremental one, of its extents' bytes in order
	To    Path   `json:"to,omitempty"`   // of a link: its target

	// Extents are where the file's bytes are, by offset and without overlap. Bytes in no extent are
	// zeros, or come from the parent's file if Blocks is set.
	Extents []Extent `json:"extents,omitempty"`
	// Blocks, if set, means that this is not the whole file.
	Blocks *Blocks `json:"blocks,omitempty"`
	// Object, if set, means that the bytes are in a plain object, and in no extents (plain.go).
	Object *Object `json:"object,omitempty"`
}

// An Extent is a run of a file's bytes within one piece.
type Extent struct {
	At     int64  // offset in the file
	Length uint32 // bytes
	Skip   uint32 // their offset in the piece's plain bytes
	Ref    Ref
}

// MarshalJSON writes [at, length, skip, ref].
func (e Extent) MarshalJSON() ([]byte, error) {
	b := fmt.Appendf(make([]byte, 0, 96), "[%d,%d,%d,", e.At, e.Length, e.Skip)
	ref, _ := e.Ref.MarshalJSON() // it cannot fail
	return append(append(b, ref...), ']'), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Extent) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&e.At, &e.Length, &e.Skip, &e.Ref})
}

// Blocks describes what an incremental backup has of a file: pages of PageSize bytes, which are
// those that its extents cover. All other pages come from the parent's file up to Truncate; beyond
// it they are zeros.
type Blocks struct {
	PageSize int   `json:"page_size"`
	Truncate int64 `json:"truncate"` // pages up to which the parent's file counts
}

// Publish ends the packs of the lists, makes the backup exist, and releases its lock. All packs
// must be closed. It fills in what the Writer knows: ID, Parent, Started, Ended, Packs, Lists,
// Count, Bytes (except for a logical backup), Plain, Stored. Kind Lost: the lock was lost, and
// others may have removed parts; the backup does not exist then.
func (w *Writer) Publish(ctx context.Context, m Manifest) (*Manifest, error) {
	if err := w.files.close(); err != nil {
		return nil, err
	}
	m.Format, m.ID, m.Parent, m.Started, m.Ended = 1, w.ID, w.parent, w.begun, time.Now().UTC()
	if m.Kind == "" {
		m.Kind = Full
	}
	w.mu.Lock()
	m.Packs = slices.Clone(w.packs)
	w.mu.Unlock()
	slices.SortFunc(m.Packs, comparePacks)
	if m.Form != Logical {
		m.Bytes = w.files.bytes
	}
	m.Lists, m.Count, m.Plain, m.Stored = w.files.refs, w.files.count, w.files.plain, w.plain.stored
	for _, p := range m.Packs {
		m.Stored += p.Size
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, &tidemark.Error{Op: "publish", Object: w.ID, Kind: tidemark.Bug, Err: err}
	}
	if err := w.whole(ctx, m.Packs); err != nil {
		return nil, err
	}
	// A remover that considers our lock dead puts a mark under the manifest's name before it
	// removes the packs (bury), so that one of the two is refused.
	err = w.repo.writeObject(ctx, manifestName(w.ID), store.New, text)
	if tidemark.KindOf(err) == tidemark.Exists && err != nil {
		return nil, w.lock.lost(errors.New("another process has removed what was written"))
	}
	if err != nil {
		return nil, err
	}
	w.published = true
	w.forgetCheckpoint(ctx)
	w.lock.Release()
	return &m, nil
}

// whole checks that the lock is held and all packs exist.
func (w *Writer) whole(ctx context.Context, packs []PackStat) error {
	if err := w.lock.check(ctx); err != nil {
		return err
	}
	there, err := w.repo.packsOf(ctx, w.ID)
	if err != nil {
		return err
	}
	for _, p := range packs {
		if size, ok := there[p.Number]; !ok || size != p.Size {
			return &tidemark.Error{Kind: tidemark.Lost, Op: "publish", Object: packName(w.ID, p.Number), Err: errors.New("it is missing, or was changed after it was written"), Hint: "Find out what else writes there, and back up again."}
		}
	}
	return w.wholePlain(ctx)
}

// PacksThere checks that all packs of a backup exist with their sizes. Kind Lost: they do not.
func (r *Repo) PacksThere(ctx context.Context, m *Manifest) error {
	there, err := r.packsOf(ctx, m.ID)
	if err != nil {
		return err
	}
	for _, p := range m.Packs {
		if size, ok := there[p.Number]; !ok || size != p.Size {
			return &tidemark.Error{Kind: tidemark.Lost, Op: "read backup", Object: packName(m.ID, p.Number), Err: errors.New("it is missing, or was changed after it was written" + r.where(packName(m.ID, p.Number))), Hint: "Run tidemark verify: it lists everything that is wrong."}
		}
	}
	return nil
}

// packsOf returns the sizes of a backup's existing packs.
func (r *Repo) packsOf(ctx context.Context, id string) (map[uint32]int64, error) {
	out := map[uint32]int64{}
	for i, err := range r.store.List(ctx, "packs/"+id+"/") {
		if err != nil {
			return nil, err
		}
		if n, ok := packNumber(i.Name); ok {
			out[n] = i.Size
		}
	}
	return out, nil
}

func manifestName(id string) string { return "backups/" + id }

// manifestLimit limits how much a damaged manifest can make us read.
const manifestLimit = 256 << 20

// Manifest reads a backup's manifest. Kind NotFound, Corrupt, Unsupported.
func (r *Repo) Manifest(ctx context.Context, id string) (*Manifest, error) {
	m := new(Manifest)
	if err := r.readManifest(ctx, id, m, m); err != nil {
		return nil, err
	}
	// All packs of a session have the same salt: one copy of the string suffices.
	for i := 1; i < len(m.Packs); i++ {
		if m.Packs[i].Salt == m.Packs[i-1].Salt {
			m.Packs[i].Salt = m.Packs[i-1].Salt
		}
	}
	slices.SortFunc(m.Packs, comparePacks)
	return m, nil
}

// Brief is Manifest without Packs, Lists and Report, which can take megabytes: for callers that
// read many.
func (r *Repo) Brief(ctx context.Context, id string) (*Manifest, error) {
	m := new(Manifest)
	without := struct {
		*Manifest
		Packs  unread `json:"packs"`
		Lists  unread `json:"lists"`
		Report unread `json:"report"`
	}{Manifest: m}
	if err := r.readManifest(ctx, id, m, &without); err != nil {
		return nil, err
	}
	return m, nil
}

// unread skips a JSON value.
type unread struct{}

func (*unread) UnmarshalJSON([]byte) error { return nil }

func comparePacks(a, b PackStat) int { return cmp.Compare(a.Number, b.Number) }

// pack returns one of the manifest's packs; nil: it has no such pack.
func (m *Manifest) pack(number uint32) *PackStat {
	if i, ok := slices.BinarySearchFunc(m.Packs, PackStat{Number: number}, comparePacks); ok {
		return &m.Packs[i]
	}
	return nil
}

// readManifest decodes a manifest into a value that is m, or contains it.
func (r *Repo) readManifest(ctx context.Context, id string, m *Manifest, into any) error {
	name := manifestName(id)
	if store.CheckName(name) != nil || strings.Contains(id, "/") {
		return r.noBackup(id)
	}
	text, err := r.readObject(ctx, name, manifestLimit)
	if err != nil {
		if tidemark.KindOf(err) == tidemark.NotFound {
			return r.noBackup(id)
		}
		return err
	}
	switch err := json.Unmarshal(text, into); {
	case err != nil:
		return damaged(name, err)
	case m.Format != 1:
		return damaged(name, errVersion)
	case m.ID != id:
		return damaged(name, fmt.Errorf("it belongs to %s", m.ID))
	case m.Buried:
		return r.noBackup(id)
	}
	if err := m.check(); err != nil {
		return damaged(name, err)
	}
	return nil
}

func (r *Repo) noBackup(id string) error {
	return &tidemark.Error{Kind: tidemark.NotFound, Op: "read backup", Object: id, Err: errors.New("there is no such backup in " + r.store.String()), Hint: "Choose one that tidemark backups lists."}
}

// IDs returns the ids of all backups, sorted. Some may no longer exist, which Manifest reports.
func (r *Repo) IDs(ctx context.Context) ([]string, error) {
	var ids []string
	for i, err := range r.store.List(ctx, "backups/") {
		if err != nil {
			return nil, err
		}
		ids = append(ids, strings.TrimPrefix(i.Name, "backups/"))
	}
	slices.Sort(ids)
	return ids, nil
}

// Backups returns all backups' manifests in brief (Brief), oldest first. A damaged one is an error;
// use IDs and Brief to read the others.
func (r *Repo) Backups(ctx context.Context) ([]*Manifest, error) {
	ids, err := r.IDs(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]*Manifest, 0, len(ids))
	for _, id := range ids {
		m, err := r.Brief(ctx, id)
		if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	SortByAge(out)
	return out, nil
}

// SortByAge sorts backups by when they began. Their names have whole seconds only.
func SortByAge(all []*Manifest) {
	slices.SortFunc(all, func(a, b *Manifest) int {
		if c := a.Started.Compare(b.Started); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// Chain returns a backup and those it needs: the full one first.
func (r *Repo) Chain(ctx context.Context, id string) ([]*Manifest, error) {
	var chain []*Manifest
	seen := map[string]bool{}
	for id != "" {
		if seen[id] {
			return nil, damaged(manifestName(id), errors.New("it is its own ancestor"))
		}
		seen[id] = true
		m, err := r.Manifest(ctx, id)
		if err != nil && len(chain) > 0 && tidemark.KindOf(err) == tidemark.NotFound {
			return nil, &tidemark.Error{Kind: tidemark.Lost, Op: "read backup", Object: chain[0].ID, Err: errors.New("its parent " + id + " is gone"), Hint: "Restore another backup."}
		}
		if err != nil {
			return nil, err
		}
		chain = append(chain, m)
		id = m.Parent
	}
	slices.Reverse(chain)
	return chain, nil
}

// Follows reports why a backup cannot build on a parent.
func (m *Manifest) Follows(parent *Manifest) error {
	if parent.SystemID != m.SystemID || parent.PageSize != m.PageSize {
		return fmt.Errorf("its parent %s is of another server", parent.ID)
	}
	return nil
}

// Files yields the files of a backup, in the order in which they were added.
func (r *Repo) Files(ctx context.Context, m *Manifest) iter.Seq2[File, error] {
	return r.files(ctx, m, nil)
}

// files is Files, with more appended to the lists.
func (r *Repo) files(ctx context.Context, m *Manifest, more []byte) iter.Seq2[File, error] {
	left := m.Excluded()
	return func(yield func(File, error) bool) {
		in := lines{in: io.MultiReader(&listReader{ctx: ctx, o: r.Opener(m), refs: m.Lists}, bytes.NewReader(more))}
		var p fileParser
		var n int64
		for ; ; n++ {
			line, err := in.next()
			if err == io.EOF {
				break
			}
			var f File
			if err == nil {
				f, err = p.parse(line)
			}
			if err == nil {
				err = f.check()
			}
			if err != nil {
				yield(File{}, damaged(manifestName(m.ID), fmt.Errorf("its file list: %w", err)))
				return
			}
			if !left(f.Path) && !yield(f, nil) {
				return
			}
		}
		if n != m.Count {
			yield(File{}, damaged(manifestName(m.ID), fmt.Errorf("its lists have %d files instead of %d", n, m.Count)))
		}
	}
}

// Excluded returns a function that reports whether a path is in Left, or below one that is.
func (m *Manifest) Excluded() func(Path) bool {
	all := map[Path]bool{}
	for _, p := range m.Left {
		all[p] = true
	}
	return func(p Path) bool {
		if len(all) == 0 {
			return false
		}
		for i, c := range p {
			if c == '/' && all[p[:i]] {
				return true
			}
		}
		return all[p]
	}
}

// listReader reads the concatenated text of pieces.
type listReader struct {
	ctx  context.Context
	o    *Opener
	refs []Ref
	buf  []byte
	left []byte
}

func (l *listReader) Read(p []byte) (int, error) {
	for len(l.left) == 0 {
		if len(l.refs) == 0 {
			return 0, io.EOF
		}
		var err error
		if l.buf, err = l.o.Piece(l.ctx, l.buf, l.refs[0]); err != nil {
			return 0, err
		}
		l.refs, l.left = l.refs[1:], l.buf
	}
	n := copy(p, l.left)
	l.left = l.left[n:]
	return n, nil
}
