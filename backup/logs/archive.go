package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// An Archive is the log of one server, as far as archived, in a repository. Its methods may be
// called concurrently.
type Archive struct {
	r       *repo.Repo
	codec   repo.Codec
	hurried func() bool

	mu    sync.Mutex
	whose *repo.LogServer // nil: unknown so far
	open  map[string]bool // names that may exist as open segments
}

// New returns the archive in a repository, which may be empty. New files are compressed by codec.
func New(r *repo.Repo, codec repo.Codec) *Archive {
	return &Archive{r: r, codec: codec, hurried: func() bool { return false }, open: map[string]bool{}}
}

// Hurry makes segments compress with S2 while hurried returns true: it takes a fifth of zstd's
// time. Call it before anything is put.
func (a *Archive) Hurry(hurried func() bool) { a.hurried = hurried }

// openSuffix ends the names of segments that are not full yet.
const openSuffix = ".open"

var (
	inTimeline = regexp.MustCompile(`^[0-9A-F]{24}(\.partial|\.[0-9A-F]{8}\.backup)?$`)
	ofNone     = regexp.MustCompile(`^[0-9A-F]{8}\.history$`)
)

// place returns the name in the repository of a file. Kind Invalid: servers archive no such file.
func place(name string) (string, error) {
	switch {
	case inTimeline.MatchString(name):
		return name[:8] + "/" + name, nil
	case ofNone.MatchString(name):
		return name, nil
	}
	return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "archive", Object: fmt.Sprintf("%q", name), Err: errors.New("it is not the name of a log file"), Hint: "Use %f and %p in the server's command: names look like 00000001000000000000002A or 00000002.history, and PostgreSQL fills them in."}
}

// known compares a segment's server with the archive's. An empty archive becomes that server's.
func (a *Archive) known(ctx context.Context, name string, b []byte) error {
	h, err := wal.ParseSegment(b)
	if err != nil {
		return err
	}
	w := repo.LogServer{System: fmt.Sprint(h.System), Segment: h.Size}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.whose == nil {
		whose, err := a.r.LogServer(ctx)
		if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
			whose, err = a.begin(ctx, name, w)
		}
		if err != nil {
			return err
		}
		a.whose = &whose
	}
	if w != *a.whose {
		return &tidemark.Error{Kind: tidemark.Collision, Op: "archive", Object: name, Err: fmt.Errorf("it is of a server with system identifier %s and segments of %d bytes; the archive belongs to one with %s and %d", w.System, w.Segment, a.whose.System, a.whose.Segment), Hint: "Give each server its own repository. A server that was initialised again or upgraded has a new identifier."}
	}
	return nil
}

// begin records which server the archive is of, and returns the record. Kind Collision: the
// repository has backups of other servers and none of this one.
func (a *Archive) begin(ctx context.Context, name string, w repo.LogServer) (repo.LogServer, error) {
	of, err := a.r.Systems(ctx)
	if err != nil {
		return w, err
	}
	if len(of) > 0 && !slices.Contains(of, w.System) {
		return w, &tidemark.Error{Kind: tidemark.Collision, Op: "archive", Object: name, Err: errors.New("it is of the server with the system identifier " + w.System + ", but the repository has backups of " + strings.Join(of, ", ") + " only"), Hint: "Give each server its own repository, or back this one up here first under a name (tidemark backup --server NAME)."}
	}
	if err := a.r.PutLogServer(ctx, w, a.codec); err != nil {
		return w, err
	}
	return a.r.LogServer(ctx)
}

// Put stores a file, durably. An existing file with the same bytes is as good. Kind Collision: it
// exists with other bytes, or the archive is of another server.
func (a *Archive) Put(ctx context.Context, f *tidemark.LogFile) error {
	at, err := place(f.Name)
	if err != nil {
		return err
	}
	if strings.HasSuffix(f.Name, ".history") || strings.HasSuffix(f.Name, ".backup") {
		return a.r.PutLog(ctx, at, bytes.NewReader(f.Bytes), a.codec)
	}
	if err := a.known(ctx, f.Name, f.Bytes); err != nil {
		return err
	}
	if !f.Whole() {
		a.note(at, true)
		if there, err := a.beginning(ctx, at+openSuffix, f); there || err != nil {
			return err
		}
		return a.r.PutOpenLog(ctx, at+openSuffix, bytes.NewReader(f.Bytes), a.codec)
	}
	codec := a.codec
	if a.hurried() {
		codec = repo.S2
	}
	if err := a.r.PutLog(ctx, at, bytes.NewReader(f.Bytes), codec); err != nil {
		return err
	}
	return a.close(ctx, at)
}

// beginning reports whether the archive already has an open segment that begins with, or equals, f:
// a server that was promoted in place of a primary has less of the old timeline's last segment than
// the archive.
func (a *Archive) beginning(ctx context.Context, object string, f *tidemark.LogFile) (bool, error) {
	in, err := a.r.GetLog(ctx, object)
	if err != nil && tidemark.KindOf(err) == tidemark.NotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer in.Close()
	was, err := io.ReadAll(in)
	if err != nil {
		if tidemark.KindOf(err) == tidemark.Corrupt {
			err = nil // the new one replaces it
		}
		return false, err
	}
	if n := min(len(was), len(f.Bytes)); !bytes.Equal(was[:n], f.Bytes[:n]) {
		return false, &tidemark.Error{Kind: tidemark.Collision, Op: "archive", Object: f.Name, Err: errors.New("the archive has a segment of that name that begins differently"), Hint: "Give this server another repository: it has lost log that was archived, or two servers archive into one repository."}
	}
	return len(was) >= len(f.Bytes), nil
}

func (a *Archive) note(at string, open bool) (was bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was = a.open[at]
	if open {
		a.open[at] = true
	} else {
		delete(a.open, at)
	}
	return was
}

// close removes the open segment if the full one exists.
func (a *Archive) close(ctx context.Context, at string) error {
	if !a.note(at, false) {
		return nil
	}
	return a.r.DeleteLog(ctx, at+openSuffix)
}

// A State is what an archive holds.
type State struct {
	System  string // identifies the server's data; "": the archive is empty
	Segment int    // bytes of a segment
	// Begins are the positions of each timeline's first full segment, and Ends those after its last
	// one.
	Begins, Ends []tidemark.LogPlace
	// Segments, histories and any other files that servers archive.
	Files  int
	Stored int64     // their bytes in the repository
	Newest time.Time // when the last one was stored
}

// State reads what exists. It removes open segments left by a killed process whose full ones exist.
func (a *Archive) State(ctx context.Context) (s State, err error) {
	c, err := a.contents(ctx)
	if err != nil || c.whose == nil {
		return s, err
	}
	s.System, s.Segment = c.whose.System, c.whose.Segment
	for _, l := range c.all {
		s.Files++
		s.Stored += l.Stored
		if l.Time.After(s.Newest) {
			s.Newest = l.Time
		}
	}
	for _, timeline := range slices.Sorted(maps.Keys(c.whole)) {
		places := c.whole[timeline]
		s.Begins = append(s.Begins, tidemark.LogPlace{Timeline: timeline, Place: places[0]})
		s.Ends = append(s.Ends, tidemark.LogPlace{Timeline: timeline, Place: places[len(places)-1] + uint64(s.Segment)})
	}
	for at := range c.open {
		name, _ := place(c.name(at))
		a.note(name, true)
		if c.has(at) {
			if err := a.close(ctx, name); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// contents are the parsed names in an archive.
type contents struct {
	whose     *repo.LogServer
	all       []repo.Log
	whole     map[uint32][]uint64 // positions of full segments by timeline, in order
	open      map[tidemark.LogPlace]bool
	histories map[uint32]bool
	ancestors map[uint32][]tidemark.LogPlace // of timelines whose histories were read
}

func (a *Archive) contents(ctx context.Context) (*contents, error) {
	c := &contents{whole: map[uint32][]uint64{}, open: map[tidemark.LogPlace]bool{}, histories: map[uint32]bool{}, ancestors: map[uint32][]tidemark.LogPlace{}}
	whose, err := a.r.LogServer(ctx)
	if err == nil {
		c.whose = &whose
	} else if tidemark.KindOf(err) != tidemark.NotFound {
		return nil, err
	}
	logs, err := a.r.Logs(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, l := range logs {
		name := path.Base(l.Name)
		if name == repo.LogServerName {
			continue
		}
		c.all = append(c.all, l)
		var timeline uint32
		if _, err := fmt.Sscanf(name, "%08X.history", &timeline); err == nil && ofNone.MatchString(name) {
			c.histories[timeline] = true
		}
		if c.whose == nil {
			continue
		}
		if at, ok := wal.ParseName(strings.TrimSuffix(name, openSuffix), c.whose.Segment); ok {
			if strings.HasSuffix(name, openSuffix) {
				c.open[at] = true
			} else {
				c.whole[at.Timeline] = append(c.whole[at.Timeline], at.Place)
			}
		}
	}
	for _, places := range c.whole {
		slices.Sort(places)
	}
	return c, nil
}

// has reports whether the full segment at a position exists.
func (c *contents) has(at tidemark.LogPlace) bool {
	_, ok := slices.BinarySearch(c.whole[at.Timeline], at.Place)
	return ok
}

// name returns the name of the segment at a position.
func (c *contents) name(at tidemark.LogPlace) string {
	return wal.SegmentName(at.Timeline, at.Place, uint32(c.whose.Segment))
}

// Keep is Put with retries: while the repository is unreachable or full, it tries again until ctx
// ends. failed receives each failed attempt, and the time of the next one.
func (a *Archive) Keep(ctx context.Context, f *tidemark.LogFile, failed func(name string, next time.Duration, err error)) error {
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, 30*time.Second) {
		err := a.Put(ctx, f)
		if err == nil || !passes(err) || ctx.Err() != nil {
			return err
		}
		failed(f.Name, pause, err)
		if flow.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// passes reports whether an error of the repository may be temporary, so that a retry makes
// sense.
func passes(err error) bool {
	switch tidemark.KindOf(err) {
	case tidemark.Transient, tidemark.Unreachable, tidemark.Full:
		return true
	}
	return false
}
