package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha"
)

// A SyncCall is how a write is made durable.
type SyncCall string

const (
	FDataSync SyncCall = "fdatasync"
	ODSync    SyncCall = "O_DSYNC"
	FSync     SyncCall = "fsync"
)

// A DiskWay is a way of writing a log. Direct: bypassing the kernel's cache. Fresh: into a file
// that grows with each write, like binary logs, and like a WAL segment that was not recycled; the
// file's new length and blocks are written too. Otherwise into a file that was written before.
type DiskWay struct {
	Sync   SyncCall `json:"sync"`
	Direct bool     `json:"direct"`
	Fresh  bool     `json:"fresh"`
}

func (w DiskWay) String() string {
	s := string(w.Sync)
	if w.Direct {
		s += ", direct"
	}
	if w.Fresh {
		return s + ", growing file"
	}
	return s + ", recycled file"
}

// A DiskSpec specifies a measurement.
type DiskSpec struct {
	Dir    string
	Engine string        // postgres (""), mysql, mariadb or db2: whose way of writing is the result
	Time   time.Duration // total; 0: 20 s
	Size   int64         // of each of the two files, at most; 0: 64 MB
	Force  bool          // also where there are database files
}

// A DiskReport is the result for a disk. Its Disk is for the engine's own way of writing.
type DiskReport struct {
	ha.Disk
	Way        string             `json:"way"`
	R2         float64            `json:"r_squared"`
	Engine     string             `json:"engine"`
	Dir        string             `json:"dir"`
	FileSystem string             `json:"file_system"`
	FileBytes  int64              `json:"file_bytes"`
	Seconds    float64            `json:"seconds"`
	Series     []DiskSeries       `json:"series"` // the engine's own comes first
	Stalls     []Stall            `json:"stalls"` // the first hundred
	StallN     int                `json:"stall_count"`
	Findings   []tidemark.Finding `json:"findings,omitempty"`
}

// A DiskSeries is the result of one way of writing. Its line is fitted to the medians of its sizes.
type DiskSeries struct {
	DiskWay
	Fit         Fit         `json:"fit"`
	Sizes       []TimedSize `json:"sizes,omitempty"`
	Unavailable string      `json:"unavailable,omitempty"` // why it could not be measured
}

// A Stall is a write that took longer than stallTime.
type Stall struct {
	At      float64 `json:"at_seconds"` // since the beginning
	Seconds float64 `json:"seconds"`
	Bytes   int     `json:"bytes"`
	Way     string  `json:"way"`
}

const (
	stallTime   = 100 * time.Millisecond
	diskFolder  = "tidemark-measure" // below DIR; exists only during the measurement
	largest     = 1 << 20            // largest write
	directUnit  = 4096               // unit of writes that bypass the cache
	keptSamples = 200_000            // of one size: 1.6 MB
)

// Logs of the engines: their way of writing, the unit of writes, and the sizes measured: 1, 2, 4 ..
// pages of 4 kB up to a megabyte, and odd ones.
type logShape struct {
	way   DiskWay
	unit  int
	sizes []int
}

func shapeOf(engine string) (logShape, bool) {
	pages := []int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, largest}
	shape := logShape{unit: 8 << 10, way: DiskWay{Sync: FDataSync}}
	switch engine {
	case "", "postgres": // whole pages of WAL
		shape.sizes = append(pages[1:], 24<<10, 72<<10)
	case "mysql", "mariadb": // the binary log, which grows by any number of bytes
		shape.way.Fresh, shape.unit = true, 512
		shape.sizes = append(pages, 512, 700, 1536, 5000, 70_001)
	case "db2":
		shape.way, shape.unit = DiskWay{Sync: ODSync, Direct: true}, 4<<10
		shape.sizes = append(pages, 12<<10, 100<<10)
	default:
		return shape, false
	}
	if runtime.GOOS != "linux" {
		shape.way.Sync, shape.way.Direct = FSync, false
	}
	slices.Sort(shape.sizes)
	return shape, true
}

// A diskRun performs a measurement. It visits the cells in turn, several times, so that other load
// on the disk affects all of them.
type diskRun struct {
	DiskSpec
	shape  logShape
	folder string
	size   int64  // of the recycled file
	bytes  []byte // data to write: aligned, and incompressible
	start  time.Time
	series []*diskSeries
	report *DiskReport
}

type diskSeries struct {
	DiskSeries
	file  *os.File
	at    int64
	cells []*diskCell
}

type diskCell struct {
	bytes  int
	weight int
	times  []time.Duration
}

// DiskRoom checks whether MeasureDisk would accept the folder, and returns how many bytes are free
// there. Errors: those of MeasureDisk.
func DiskRoom(spec DiskSpec) (free int64, err error) {
	if _, _, err := scratchRoom("measure disk", spec.Dir, spec.Force, cmp.Or(spec.Size, 64<<20)); err != nil {
		return 0, err
	}
	if _, free, err = fileSystemOf(spec.Dir); err != nil {
		return 0, fileError("measure disk", spec.Dir, err)
	}
	return free, nil
}

// MeasureDisk writes as a log is written, and measures how long that takes by size. It creates a
// folder below DIR and removes it however it ends, unless it is killed. Errors: NotFound,
// Forbidden, Exists (another measurement is running there), Invalid (a database lives there), Full,
// Unsupported (this way of writing is not available), Cancelled.
func MeasureDisk(ctx context.Context, spec DiskSpec) (report *DiskReport, err error) {
	spec.Time, spec.Size = cmp.Or(spec.Time, 20*time.Second), cmp.Or(spec.Size, 64<<20)
	spec.Engine = cmp.Or(spec.Engine, "postgres")
	r := &diskRun{DiskSpec: spec, start: time.Now(), folder: filepath.Join(spec.Dir, diskFolder)}
	var known bool
	if r.shape, known = shapeOf(spec.Engine); !known {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "measure disk", Object: spec.Engine, Err: errors.New("is not a supported engine"), Hint: "Choose postgres, mysql, mariadb or db2."}
	}
	name, size, err := scratchRoom("measure disk", spec.Dir, spec.Force, spec.Size)
	if err != nil {
		return nil, err
	}
	r.size = size
	r.report = &DiskReport{Engine: r.Engine, Dir: r.Dir, FileSystem: name, Stalls: []Stall{}}
	if err := os.Mkdir(r.folder, 0o700); err != nil {
		return nil, r.refused(err)
	}
	defer func() {
		if gone := os.RemoveAll(r.folder); gone != nil && err == nil {
			err = r.refused(gone)
		}
	}()
	defer r.close()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	if err := r.measure(ctx); err != nil {
		return nil, err
	}
	return r.finish()
}

// prepare creates the two files, and lists what to measure: the engine's own way with all sizes,
// the others with three.
func (r *diskRun) prepare(ctx context.Context) error {
	var err error
	if r.size, err = fillFile(ctx, r.path(false), r.size, r.Time/8); err != nil {
		return r.refused(err)
	}
	r.report.FileBytes, r.bytes = r.size, incompressible(largest)
	if err := os.WriteFile(r.path(true), nil, 0o600); err != nil {
		return r.refused(err)
	}
	own := &diskSeries{DiskSeries: DiskSeries{DiskWay: r.shape.way}}
	for _, n := range r.shape.sizes {
		c := &diskCell{bytes: n, weight: 3}
		if n == r.shape.unit {
			c.weight = 15 // its tail matters
		}
		own.cells = append(own.cells, c)
	}
	r.series = append(r.series, own)
	for _, sync := range []SyncCall{FDataSync, ODSync, FSync} {
		for _, bits := range []int{0, 1, 2, 3} {
			way := DiskWay{Sync: sync, Direct: bits&1 != 0, Fresh: bits&2 != 0}
			if way == r.shape.way {
				continue
			}
			s := &diskSeries{DiskSeries: DiskSeries{DiskWay: way}}
			for _, n := range []int{8 << 10, 64 << 10, largest} {
				s.cells = append(s.cells, &diskCell{bytes: n, weight: 1})
			}
			r.series = append(r.series, s)
		}
	}
	for _, s := range r.series {
		if err := r.open(s); err != nil {
			return err
		}
	}
	return nil
}

// refused assigns a Kind to an error of a file.
func (r *diskRun) refused(err error) error { return fileError("measure disk", r.Dir, err) }

func (r *diskRun) path(fresh bool) string {
	if fresh {
		return filepath.Join(r.folder, "growing")
	}
	return filepath.Join(r.folder, "recycled")
}

func (r *diskRun) open(s *diskSeries) error {
	f, err := openWay(r.path(s.Fresh), s.DiskWay)
	if err != nil {
		return r.without(s, err)
	}
	s.file = f
	return nil
}

// without marks a series as unavailable, or returns err if it has another cause.
func (r *diskRun) without(s *diskSeries, err error) error {
	if !unavailable(err) {
		return r.refused(err)
	}
	what := string(s.Sync)
	if s.Direct {
		what = "O_DIRECT"
	}
	s.Unavailable = fmt.Sprintf("%s has no %s", r.report.FileSystem, what)
	s.cells = nil
	return nil
}

func (r *diskRun) close() {
	for _, s := range r.series {
		if s.file != nil {
			s.file.Close()
		}
	}
}

// measure visits all cells in rounds until the time is over.
func (r *diskRun) measure(ctx context.Context) error {
	weights := 0
	for _, s := range r.series {
		for _, c := range s.cells {
			weights += c.weight
		}
	}
	if weights == 0 {
		return nil
	}
	end := r.start.Add(r.Time)
	if least := time.Now().Add(r.Time / 4); end.Before(least) { // the files took long
		end = least
	}
	rounds := int(min(max(time.Until(end)/time.Duration(weights)/(20*time.Millisecond), 2), 8))
	for n := range rounds {
		slice := time.Until(end) / time.Duration((rounds-n)*weights)
		for _, s := range r.series {
			for _, c := range s.cells {
				if err := r.visit(ctx, s, c, time.Now().Add(slice*time.Duration(c.weight))); err != nil {
					return err
				}
				if len(s.cells) == 0 {
					break // it turned out to be unavailable
				}
			}
		}
	}
	return nil
}

// visit writes one size until end, and at least twice. The first write does not count: the cell
// before affects it.
func (r *diskRun) visit(ctx context.Context, s *diskSeries, c *diskCell, end time.Time) error {
	if s.Fresh {
		if err := r.truncate(s); err != nil {
			return err
		}
	}
	for n := 0; len(c.times) < keptSamples; n++ {
		if err := cancelled(ctx, "measure disk"); err != nil {
			return err
		}
		if s.at+int64(c.bytes) > r.size {
			if s.at = 0; s.Fresh {
				if err := r.truncate(s); err != nil {
					return err
				}
			}
		}
		if s.Direct || !s.Fresh && r.shape.unit >= directUnit {
			s.at = (s.at + directUnit - 1) / directUnit * directUnit
		}
		begin := time.Now()
		_, err := s.file.WriteAt(r.bytes[:c.bytes], s.at)
		if err == nil {
			err = syncWay(s.file, s.Sync)
		}
		took := time.Since(begin)
		if err != nil {
			return r.without(s, err)
		}
		s.at += int64(c.bytes)
		if n > 0 {
			c.times = append(c.times, took)
			r.stall(s, c, begin, took)
		}
		if n > 0 && time.Now().After(end) {
			return nil
		}
	}
	return nil
}

// truncate empties the growing file, and waits until the file system has recorded that.
func (r *diskRun) truncate(s *diskSeries) error {
	s.at = 0
	if err := s.file.Truncate(0); err != nil {
		return r.refused(err)
	}
	if err := s.file.Sync(); err != nil {
		return r.refused(err)
	}
	return nil
}

func (r *diskRun) stall(s *diskSeries, c *diskCell, begin time.Time, took time.Duration) {
	if took <= stallTime {
		return
	}
	if r.report.StallN++; len(r.report.Stalls) < 100 {
		r.report.Stalls = append(r.report.Stalls, Stall{At: begin.Sub(r.start).Seconds(), Seconds: took.Seconds(), Bytes: c.bytes, Way: s.String()})
	}
}

// finish computes the results.
func (r *diskRun) finish() (*DiskReport, error) {
	out := r.report
	for _, s := range r.series {
		s.compute()
		out.Series = append(out.Series, s.DiskSeries)
	}
	own := out.Series[0]
	if own.Unavailable != "" {
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "measure disk", Object: r.Dir, Err: errors.New(own.Unavailable + ", as " + r.Engine + " writes its log"), Hint: "Name a folder on a disk, or another --engine."}
	}
	out.Disk = ha.Disk{Rate: own.Fit.Rate, Overhead: own.Fit.Overhead, Unit: r.shape.unit}
	out.Way, out.R2 = own.String(), own.Fit.R2
	for _, z := range own.Sizes {
		if z.Bytes == r.shape.unit {
			out.Quantiles = z.Times.Quantiles()
		}
	}
	out.Seconds = time.Since(r.start).Seconds()
	out.Findings = doubts(out)
	return out, nil
}

func (s *diskSeries) compute() {
	var bytes []int
	var times [][]float64
	for _, c := range s.cells {
		bytes, times = append(bytes, c.bytes), append(times, seconds(c.times))
	}
	s.Sizes, s.Fit = fitSizes(bytes, times)
}

// doubts returns findings about unreliable results.
func doubts(r *DiskReport) (out []tidemark.Finding) {
	warn := func(text, hint string) {
		out = append(out, tidemark.Finding{Severity: tidemark.Warning, Object: r.Dir, Text: text, Hint: hint})
	}
	if r.FileSystem == "tmpfs" || r.FileSystem == "ramfs" {
		warn(r.FileSystem+" is memory, not a disk: flushed data is lost with the power", "Measure where the log will be.")
		return out
	}
	if len(r.Quantiles) > 0 {
		switch p50 := r.Quantiles[0].Value; {
		case p50 < 50e-6:
			warn(fmt.Sprintf("a flush takes %.0f us: only disks with a cache that survives a power cut are that fast", p50*1e6), "Ask the maker of the disk, the hypervisor or the cloud what a flush guarantees: commits may not survive a power cut.")
		case p50 < 100e-6:
			warn(fmt.Sprintf("a flush takes %.0f us: good drives with a protected cache are that fast, and so are unprotected caches", p50*1e6), "Find out which it is.")
		}
	}
	if r.R2 < 0.9 {
		warn(fmt.Sprintf("times do not follow overhead + size/rate well (R2 %.2f)", r.R2), "Measure again for longer (--time), while nothing else uses the disk.")
	}
	return out
}
