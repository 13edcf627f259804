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

// An Archive is the log of one server, and of what has become of it, in a repository. Its
// methods may be called concurrently.
type Archive struct {
	r       *repo.Repo
	codec   repo.Codec
	hurried func() bool

	mu    sync.Mutex
	whose *repo.LogServer // nil: not known yet
	open  map[string]bool // names that may be there as open segments
}

// New gives the archive in a repository, which may be empty. What is put there is packed by
// codec.
func New(r *repo.Repo, codec repo.Codec) *Archive {
	return &Archive{r: r, codec: codec, hurried: func() bool { return false }, open: map[string]bool{}}
}

// Hurry has segments packed by S2 while hurried says so: it takes a fifth of zstd's time. To be
// called before anything is put.
func (a *Archive) Hurry(hurried func() bool) { a.hurried = hurried }

// openSuffix stands behind the names of segments that are not full yet.
const openSuffix = ".open"

var (
	inTimeline = regexp.MustCompile(`^[0-9A-F]{24}(\.partial|\.[0-9A-F]{8}\.backup)?$`)
	ofNone     = regexp.MustCompile(`^[0-9A-F]{8}\.history$`)
)

// place says where in the repository a file of that name is. Kind Invalid: a server has no
// such file in its archive.
func place(name string) (string, error) {
	switch {
	case inTimeline.MatchString(name):
		return name[:8] + "/" + name, nil
	case ofNone.MatchString(name):
		return name, nil
	}
	return "", &tidemark.Error{Kind: tidemark.Invalid, Op: "archive", Object: fmt.Sprintf("%q", name), Err: errors.New("it is no name of a file of a server's log"), Hint: "Names are such as 00000001000000000000002A and 00000002.history: PostgreSQL puts them in the place of %f, and a path that ends with them in that of %p."}
}

// known compares a segment's server with the archive's, which it becomes if there is none.
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
		return &tidemark.Error{Kind: tidemark.Collision, Op: "archive", Object: name, Err: fmt.Errorf("it is of the server with the system identifier %s and segments of %d bytes, and the archive of that with %s and %d", w.System, w.Segment, a.whose.System, a.whose.Segment), Hint: "Give each server a repository of its own: a copy of a server has its identifier, one that was initialised or upgraded anew another."}
	}
	return nil
}

// begin notes of which server the archive is, and returns what is noted. Kind Collision: the repository has backups
// of others and none of that one.
func (a *Archive) begin(ctx context.Context, name string, w repo.LogServer) (repo.LogServer, error) {
	of, err := a.r.Systems(ctx)
	if err != nil {
		return w, err
	}
	if len(of) > 0 && !slices.Contains(of, w.System) {
		return w, &tidemark.Error{Kind: tidemark.Collision, Op: "archive", Object: name, Err: errors.New("it is of the server with the system identifier " + w.System + ", and the repository has backups of " + strings.Join(of, ", ") + " only"), Hint: "Give each server a repository of its own, or back this one up here first, with a name (backup --server NAME)."}
	}
	if err := a.r.PutLogServer(ctx, w, a.codec); err != nil {
		return w, err
	}
	return a.r.LogServer(ctx)
}

// Put keeps a file, durably. If it is there already with the same bytes, that is as good.
// Kind Collision: it is there with others, or the archive is of another server.
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

// beginning reports whether the archive has an open segment already of which f is the
// beginning, or all: a server that took the place of a primary has less of the old timeline's
// last segment than the archive has.
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
			err = nil // what comes takes its place
		}
		return false, err
	}
	if n := min(len(was), len(f.Bytes)); !bytes.Equal(was[:n], f.Bytes[:n]) {
		return false, &tidemark.Error{Kind: tidemark.Collision, Op: "archive", Object: f.Name, Err: errors.New("the archive has another beginning of that segment"), Hint: "The server has lost log that was archived, or two servers archive into one repository: give it another one."}
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

// close removes the open segment where the whole one is there.
func (a *Archive) close(ctx context.Context, at string) error {
	if !a.note(at, false) {
		return nil
	}
	return a.r.DeleteLog(ctx, at+openSuffix)
}

// A State is what an archive holds.
type State struct {
	System  string // identifies the server's data; "": nothing is there yet
	Segment int    // bytes of a segment
	// Begins are the places of the first whole segment of each timeline, and Ends those behind the last one.
	Begins, Ends []tidemark.LogPlace
	// Segments, histories and what else servers archive.
	Files  int
	Stored int64     // bytes of them in the repository
	Newest time.Time // when the last one was put there
}

// State looks at what is there. Open segments whose whole ones are there, which somebody who
// was killed has left, are removed.
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

// contents are the names in an archive, understood.
type contents struct {
	whose     *repo.LogServer
	all       []repo.Log
	whole     map[uint32][]uint64 // places of whole segments by timeline, in their order
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

// has says whether the whole segment at a place is there.
func (c *contents) has(at tidemark.LogPlace) bool {
	_, ok := slices.BinarySearch(c.whole[at.Timeline], at.Place)
	return ok
}

// name is that of the segment at a place.
func (c *contents) name(at tidemark.LogPlace) string {
	return wal.SegmentName(at.Timeline, at.Place, uint32(c.whose.Segment))
}

// Keep is Put for whoever cannot go on without it: while the repository cannot be reached, or is
// full, it tries again until ctx ends. failed is told of each attempt, and when the next one comes.
func (a *Archive) Keep(ctx context.Context, f *tidemark.LogFile, failed func(name string, next time.Duration, err error)) error {
	for pause := 500 * time.Millisecond; ; pause = min(2*pause, 30*time.Second) {
		err := a.Put(ctx, f)
		if err == nil || !mends(err) || ctx.Err() != nil {
			return err
		}
		failed(f.Name, pause, err)
		if flow.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// mends reports whether what keeps the repository from taking a file can be over later,
// without anybody changing what we do.
func mends(err error) bool {
	switch tidemark.KindOf(err) {
	case tidemark.Transient, tidemark.Unreachable, tidemark.Full:
		return true
	}
	return false
}
