package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/ha"
)

// A simLog is the log of one side of a simulation: a file written as the engine writes its own, or
// a disk that only takes time, or nothing.
type simLog struct {
	simPlace
	way    DiskWay
	unit   int
	file   *os.File
	reader *os.File // of catch-up; nil before that
	folder string
	size   int64
	at     int64
	bytes  []byte
	open   int        // bytes put and not synced
	times  []float64  // of put and sync together
	begun  time.Time  // when open data was first put
	slower ha.Sampler // relative to the disk's median, of a simulated write
	rng    *rand.Rand
}

// A simPlace specifies where a simLog is.
type simPlace struct {
	dir, name string
	engine    string
	disk      *ha.Disk
	force     bool
}

const (
	simLogSize = 16 << 20             // a segment of PostgreSQL
	simFolder  = "tidemark-simulate-" // and the name, below the folder
)

func openSimLog(ctx context.Context, p simPlace) (*simLog, error) {
	shape, _ := shapeOf(p.engine)
	l := &simLog{simPlace: p, way: shape.way, unit: shape.unit}
	if p.disk != nil {
		l.slower, l.rng = p.disk.Slowness(), rand.New(rand.NewPCG(1, 2))
	}
	if p.dir == "" || p.disk != nil {
		return l, nil
	}
	if err := l.make(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// make creates the file.
func (l *simLog) make(ctx context.Context) (err error) {
	if _, l.size, err = scratchRoom("simulate", l.dir, l.force, simLogSize); err != nil {
		return err
	}
	folder := filepath.Join(l.dir, simFolder+l.name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		return fileError("simulate", l.dir, err)
	}
	l.folder = folder
	path := filepath.Join(folder, "log")
	if l.size, err = fillFile(ctx, path, l.size, 5*time.Second); err != nil {
		return fileError("simulate", l.dir, err)
	}
	if l.file, err = openWay(path, l.way); err != nil {
		if unavailable(err) {
			return &tidemark.Error{Kind: tidemark.Unsupported, Op: "simulate", Object: l.dir, Err: fmt.Errorf("the file system does not support %s, with which %s writes its log", l.way, l.engine), Hint: "Name a folder on a disk."}
		}
		return fileError("simulate", l.dir, err)
	}
	if l.bytes = incompressible(largest); l.way.Fresh {
		if err := l.file.Truncate(0); err != nil {
			return fileError("simulate", l.dir, err)
		}
	}
	return nil
}

func (l *simLog) close() {
	for _, f := range []*os.File{l.file, l.reader} {
		if f != nil {
			f.Close()
		}
	}
	if l.folder != "" {
		os.RemoveAll(l.folder)
	}
}

// write appends so many bytes to the log and makes them durable.
func (l *simLog) write(c *flow.Clock, n int) error {
	if err := l.put(c, n); err != nil {
		return err
	}
	return l.sync(c)
}

// put writes without making it durable, unless the engine's way of writing does.
func (l *simLog) put(c *flow.Clock, n int) error {
	defer c.Enter(c.Enter(flow.IO))
	c.Count(1, int64(n), 0)
	if l.open == 0 {
		l.begun = time.Now()
	}
	l.open += n
	if l.file == nil {
		return nil
	}
	// Whole units: PostgreSQL rewrites the page that is not full yet, with the new data.
	from, to := l.at, l.at+int64(n)
	if unit := int64(l.unit); !l.way.Fresh {
		from, to = from/unit*unit, (to+unit-1)/unit*unit
	}
	l.at += int64(n)
	for from < to {
		part := min(to-from, largest)
		at := from % (l.size / largest * largest)
		part = min(part, l.size-at)
		if l.way.Fresh && at == 0 && from > 0 { // a new file
			if err := l.file.Truncate(0); err != nil {
				return fileError("simulate", l.dir, err)
			}
		}
		if _, err := l.file.WriteAt(l.bytes[:part], at); err != nil {
			return fileError("simulate", l.dir, err)
		}
		from += part
	}
	return nil
}

// sync makes durable what was put.
func (l *simLog) sync(c *flow.Clock) error {
	if l.open == 0 {
		return nil
	}
	defer c.Enter(c.Enter(flow.IO))
	switch {
	case l.disk != nil:
		sleepExactly(time.Duration(l.disk.Write(float64(l.open)) * l.slower.Draw(l.rng) * float64(time.Second)))
	case l.file != nil:
		if err := syncWay(l.file, l.way.Sync); err != nil {
			return fileError("simulate", l.dir, err)
		}
	}
	l.open = 0
	l.times = appendSample(l.times, time.Since(l.begun).Seconds())
	return nil
}

// read takes as long as reading so many bytes back takes.
func (l *simLog) read(c *flow.Clock, at int64, b []byte) error {
	defer c.Enter(c.Enter(flow.IO))
	c.Count(1, int64(len(b)), 0)
	begin := time.Now()
	switch {
	case l.disk != nil:
		sleepExactly(time.Duration(l.disk.Write(float64(len(b))) * float64(time.Second)))
	case l.folder != "":
		if l.reader == nil {
			f, err := os.Open(filepath.Join(l.folder, "log"))
			if err != nil {
				return fileError("simulate", l.dir, err)
			}
			l.reader = f
		}
		if _, err := l.reader.ReadAt(b, at%(l.size-int64(len(b)))); err != nil {
			return fileError("simulate", l.dir, err)
		}
	}
	l.times = appendSample(l.times, time.Since(begin).Seconds())
	return nil
}
