package backup

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A page that fails its check may be one that the server is writing at that moment. It is read
// again at once, and if it still fails it becomes a suspect, which is checked again and again. It
// is cleared once it is valid, or differs from what it was: then it has been written since the
// backup began, and the log will restore it. It is damaged if it has not changed for suspectLooks
// checks, since no page write takes that long.
//
// The log alone is not a sufficient answer: the header of a damaged page may claim by chance that
// the page was written just now.
const (
	suspectWait  = 500 * time.Millisecond
	suspectLooks = 4
	// damagedMax is how many damaged pages are named.
	damagedMax = 1000
	// suspectsMax bounds their memory; suspects beyond it count as damaged. So many are no
	// accident.
	suspectsMax = 100_000
)

type suspect struct {
	f     *file
	at    int64
	sum   uint32 // of the page as it was
	looks int
	n     int64 // its number, from 1
}

type suspects struct {
	mu      sync.Mutex
	n       int64 // of the last one
	list    []suspect
	looked  []suspect // that are being checked
	next    time.Time // time of the next check
	damaged []string
	more    int // damaged, but not named
}

// again reads a page once more into b.
func (j *Job) again(in *os.File, f *file, b []byte, at int64) {
	first := crc32.Checksum(b, castagnoli)
	page := make([]byte, len(b))
	if n, _ := j.readAt(in, page, at); n < len(page) {
		return // truncated meanwhile
	}
	copy(b, page)
	if len(j.pages.Check(&f.DataFile, at, page)) == 0 || crc32.Checksum(page, castagnoli) != first {
		return
	}
	j.suspect.add(suspect{f: f, at: at, sum: first})
}

func (s *suspects) add(x suspect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	x.n = s.n
	if len(s.list) < suspectsMax {
		s.list = append(s.list, x)
	} else {
		s.more++
	}
}

// newest returns the number of the newest suspect.
func (s *suspects) newest() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// open reports whether a suspect up to the n-th is neither cleared nor damaged, and whether any
// page is damaged.
func (s *suspects) open(n int64) (open, damaged bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range [][]suspect{s.list, s.looked} {
		open = open || slices.ContainsFunc(list, func(x suspect) bool { return x.n <= n })
	}
	return open, len(s.damaged) > 0 || s.more > 0
}

// recheckSuspects checks suspects until there are none.
func (j *Job) recheckSuspects(ctx context.Context) error {
	for {
		j.suspect.mu.Lock()
		n := len(j.suspect.list)
		j.suspect.mu.Unlock()
		if n == 0 {
			return nil
		}
		if err := flow.Sleep(ctx, suspectWait); err != nil {
			return err
		}
		if err := j.checkSuspects(ctx); err != nil {
			return err
		}
	}
}

// checkSuspects checks all suspects once more, if it is time.
func (j *Job) checkSuspects(ctx context.Context) error {
	s := &j.suspect
	s.mu.Lock()
	if len(s.list) == 0 || time.Now().Before(s.next) {
		s.mu.Unlock()
		return nil
	}
	list := s.list
	s.list, s.looked, s.next = nil, list, time.Now().Add(suspectWait)
	s.mu.Unlock()
	var still []suspect
	for _, x := range list {
		if j.src != nil { // pages that were sent cannot be read again
			same, err := j.same(x)
			if err != nil {
				return err
			}
			if !same {
				continue
			}
			if x.looks++; x.looks < suspectLooks {
				still = append(still, x)
				continue
			}
		}
		if err := j.damage(ctx, x); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.list, s.looked = append(s.list, still...), nil
	s.mu.Unlock()
	return nil
}

// same reports whether a suspect is unchanged and still invalid.
func (j *Job) same(x suspect) (bool, error) {
	in, err := j.src.Open(&x.f.DataFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer in.Close()
	page := make([]byte, j.set.PageSize)
	n, err := in.ReadAt(page, x.at)
	if err != nil && err != io.EOF {
		return false, &tidemark.Error{Op: "read", Object: x.f.Path, Kind: tidemark.Lost, Err: err}
	}
	return n == len(page) && crc32.Checksum(page, castagnoli) == x.sum, nil
}

func (j *Job) damage(ctx context.Context, x suspect) error {
	s := &j.suspect
	s.mu.Lock()
	many := len(s.damaged) >= damagedMax
	if many {
		s.more++
	}
	s.mu.Unlock()
	if many {
		return nil
	}
	name := j.pages.NamePage(ctx, &x.f.DataFile, x.at)
	s.mu.Lock()
	s.damaged = append(s.damaged, name)
	s.mu.Unlock()
	if j.opt.KeepDamaged {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Corrupt, Op: "read", Object: name, Err: errors.New("the page is damaged: its checksum is wrong, and stays wrong when the page is read again"), Hint: "Repair it (from an older backup, with REINDEX, or by dropping the damaged object), or back it up as it is with --damaged note."}
}
