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

// What a backup is.
const (
	Full        = "full"
	Incremental = "incremental" // has only what changed since its parent
	// Partial is what there is of a backup that was not finished. It cannot be restored; the one that
	// goes on with it is of the kind that was asked for, and has it for its parent.
	Partial = "partial"
)

// Logical is the form of a backup of rows and definitions, which are objects that people can read
// (plain.go). Other backups have the server's files in packs.
const Logical = "logical"

// A Manifest says what a backup is, and where its parts are. It is written last, under
// backups/ and the id: the backup exists when it does. The files are in lists of their own, which
// Files reads.
type Manifest struct {
	Format  int       `json:"format"` // of the manifest: 1
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`             // Full, Incremental or Partial
	Form    string    `json:"form,omitempty"`   // Logical, or nothing
	Parent  string    `json:"parent,omitempty"` // the backup that this one needs
	Label   string    `json:"label,omitempty"`  // the user's
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Tool    string    `json:"tool,omitempty"` // which version of tidemark

	// The server.
	Engine     string `json:"engine"`             // postgres; a logical one's may be mysql or mariadb
	Version    string `json:"version"`            // as the server says it
	VersionNum int    `json:"version_num"`        // 150018
	SystemID   string `json:"system_id"`          // what tells the cluster from all others
	Source     string `json:"source,omitempty"`   // where it was, without secrets
	Server     string `json:"server,omitempty"`   // what its user calls it
	Standby    bool   `json:"standby,omitempty"`  // it was a standby
	Checksums  bool   `json:"checksums"`          // its pages have checksums
	PageSize   int    `json:"page_size"`          // bytes
	LogSize    int64  `json:"log_size,omitempty"` // bytes of a file of the log

	// Of a logical one: which database ("" is all of a MySQL server), and where in the server's log its view is.
	Database string            `json:"database,omitempty"`
	Position tidemark.Position `json:"position,omitzero"`
	Tables   int               `json:"tables,omitempty"` // whose rows it has
	Rows     int64             `json:"rows,omitempty"`

	// The log that it needs to become consistent; in order of time, each timeline once.
	Ranges []LogRange `json:"ranges,omitempty"`

	Owner       Owner                   `json:"owner,omitzero"` // of the data directory
	Tablespaces []Tablespace            `json:"tablespaces,omitempty"`
	Databases   []tidemark.DatabaseName `json:"databases,omitempty"`      // that there were when it began
	BackupLabel string                  `json:"backup_label,omitempty"`   // PostgreSQL's, byte for byte; restored as a file
	SpaceMap    string                  `json:"tablespace_map,omitempty"` // likewise

	Count  int64 `json:"files"`  // files and folders
	Bytes  int64 `json:"bytes"`  // of the source's files; of a logical one, of the rows' text
	Plain  int64 `json:"plain"`  // of these, what is in the backup's pieces
	Stored int64 `json:"stored"` // bytes of its packs and plain objects

	// Notes are what was found, such as damaged pages.
	Notes []string `json:"notes,omitempty"`
	// Report is how the backup went, as the job keeps it.
	Report json.RawMessage `json:"report,omitempty"`

	// Buried says that there is no such backup: it was not finished, and prune has removed its packs.
	Buried bool `json:"buried,omitempty"`

	Packs []PackStat `json:"packs"` // by number
	Lists []Ref      `json:"lists"` // the pieces that list the files, in order
	// Left are paths in the lists that turned out at the end not to belong in the backup, with all
	// below them. Files passes over them.
	Left []Path `json:"left,omitempty"`
}

// A LogRange is log of one timeline.
type LogRange struct {
	Timeline uint32 `json:"timeline"`
	Start    string `json:"start"` // place in the log, as the engine writes it
	End      string `json:"end"`
	// First and Last are the names of the logs that have it, as CreateLog takes them, and Count how
	// many there are from one to the other. With Count 0 it is in the backup's files, and the names say
	// from where on the log is wanted to go further than the backup: prune keeps it by them, and all
	// log where a backup has no names.
	First string `json:"first,omitempty"`
	Last  string `json:"last,omitempty"`
	Count int    `json:"count,omitempty"`
}

// Owner is who a file belongs to: restore gives it to that user, where it may.
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
// it is a text, or {"hex":"..."} where it is no UTF-8.
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

// What a File is, if not a plain one.
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
	To    Path   `json:"to,omitempty"`   // of a link: where it leads

	// Extents are where the file's bytes are, by offset and without overlap. What is in none is zeros,
	// or comes from the parent's file where Blocks is set.
	Extents []Extent `json:"extents,omitempty"`
	// Blocks, if set, says that this is not the whole file.
	Blocks *Blocks `json:"blocks,omitempty"`
	// Object, if set, says that the bytes are those of a plain object, and in no extents (plain.go).
	Object *Object `json:"object,omitempty"`
}

// An Extent is a run of a file's bytes within one piece.
type Extent struct {
	At     int64  // offset in the file
	Length uint32 // bytes
	Skip   uint32 // where they begin among the piece's plain bytes
	Ref    Ref
}

// MarshalJSON writes [at, length, skip, ref].
func (e Extent) MarshalJSON() ([]byte, error) {
	b := fmt.Appendf(make([]byte, 0, 96), "[%d,%d,%d,", e.At, e.Length, e.Skip)
	ref, _ := e.Ref.MarshalJSON() // has no error
	return append(append(b, ref...), ']'), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Extent) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&e.At, &e.Length, &e.Skip, &e.Ref})
}

// Blocks says what of a file an incremental backup has: pages of PageSize bytes, which are those
// that its extents cover. Pages that are not among them come from the parent's file up to Truncate;
// behind it they are zeros.
type Blocks struct {
	PageSize int   `json:"page_size"`
	Truncate int64 `json:"truncate"` // pages up to which the parent's file counts
}

// Publish ends the packs of the lists, says that the backup is whole, and gives up its lock. All
// packs have to be closed. It fills in what the Writer knows: ID, Parent, Started, Ended, Packs,
// Lists, Count, Bytes (but of a logical backup), Plain, Stored. Kind Lost: the lock was lost, and others may have removed
// parts; the backup does not exist then.
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
	// Whoever takes our lock for dead and removes the packs puts a mark under the manifest's name first
	// (bury), so that of the two of us one is refused.
	err = w.repo.writeObject(ctx, manifestName(w.ID), store.New, text)
	if tidemark.KindOf(err) == tidemark.Exists && err != nil {
		return nil, w.lock.lost(errors.New("what was written has been removed"))
	}
	if err != nil {
		return nil, err
	}
	w.published = true
	w.forgetCheckpoint(ctx)
	w.lock.Release()
	return &m, nil
}

// whole looks whether the lock is held and all packs are there.
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
			return &tidemark.Error{Kind: tidemark.Lost, Op: "publish", Object: packName(w.ID, p.Number), Err: errors.New("it is not there as it was written"), Hint: "look who else writes there, and back up again"}
		}
	}
	return w.wholePlain(ctx)
}

// PacksThere looks whether all packs of a backup are there with their sizes. Kind Lost: they are not.
func (r *Repo) PacksThere(ctx context.Context, m *Manifest) error {
	there, err := r.packsOf(ctx, m.ID)
	if err != nil {
		return err
	}
	for _, p := range m.Packs {
		if size, ok := there[p.Number]; !ok || size != p.Size {
			return &tidemark.Error{Kind: tidemark.Lost, Op: "read backup", Object: packName(m.ID, p.Number), Err: errors.New("it is not there as it was written" + r.where(packName(m.ID, p.Number))), Hint: "tidemark verify names all that is wrong"}
		}
	}
	return nil
}

// packsOf gives the sizes of a backup's packs that are there.
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

// manifestLimit bounds what a damaged manifest can make us read.
const manifestLimit = 256 << 20

// Manifest reads that of a backup. Kind NotFound, Corrupt, Unsupported.
func (r *Repo) Manifest(ctx context.Context, id string) (*Manifest, error) {
	m := new(Manifest)
	if err := r.readManifest(ctx, id, m, m); err != nil {
		return nil, err
	}
	// All packs of a session have the same salt: one text of it is enough.
	for i := 1; i < len(m.Packs); i++ {
		if m.Packs[i].Salt == m.Packs[i-1].Salt {
			m.Packs[i].Salt = m.Packs[i-1].Salt
		}
	}
	slices.SortFunc(m.Packs, comparePacks)
	return m, nil
}

// Brief is Manifest without Packs, Lists and Report, which can take megabytes: for whoever reads many.
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

// unread is passed over.
type unread struct{}

func (*unread) UnmarshalJSON([]byte) error { return nil }

func comparePacks(a, b PackStat) int { return cmp.Compare(a.Number, b.Number) }

// pack gives one of the manifest's packs; nil: it has not that one.
func (m *Manifest) pack(number uint32) *PackStat {
	if i, ok := slices.BinarySearchFunc(m.Packs, PackStat{Number: number}, comparePacks); ok {
		return &m.Packs[i]
	}
	return nil
}

// readManifest reads a manifest into something that m is, or is in.
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
		return damaged(name, fmt.Errorf("it is that of %s", m.ID))
	case m.Buried:
		return r.noBackup(id)
	}
	if err := m.check(); err != nil {
		return damaged(name, err)
	}
	return nil
}

func (r *Repo) noBackup(id string) error {
	return &tidemark.Error{Kind: tidemark.NotFound, Op: "read backup", Object: id, Err: errors.New("there is no such backup in " + r.store.String()), Hint: "tidemark backups lists them"}
}

// IDs gives the ids of all backups, sorted, and of some that there are not any more, of which
// Manifest says so.
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

// Backups gives what is said of all backups (Brief), oldest first. One that is damaged is an error;
// IDs and Brief tell which others are not.
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

// SortByAge puts backups in the order in which they began. Their names have whole seconds only.
func SortByAge(all []*Manifest) {
	slices.SortFunc(all, func(a, b *Manifest) int {
		if c := a.Started.Compare(b.Started); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// Chain gives a backup and those that it needs: the full one first.
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
			return nil, &tidemark.Error{Kind: tidemark.Lost, Op: "read backup", Object: chain[0].ID, Err: errors.New("its parent " + id + " is gone"), Hint: "restore another backup"}
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

// Files gives the files of a backup, in the order in which they were added.
func (r *Repo) Files(ctx context.Context, m *Manifest) iter.Seq2[File, error] {
	return r.files(ctx, m, nil)
}

// files is Files of lists that go on with a text.
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
				yield(File{}, damaged(manifestName(m.ID), fmt.Errorf("its list of files: %w", err)))
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

// Excluded says which paths are in Left, or below one that is.
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

// listReader is the text of pieces, one after the other.
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
