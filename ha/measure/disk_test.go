package measure

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha"
)

func TestFitFindsTheLine(t *testing.T) {
	sizes := []float64{4096, 8192, 16384, 65536, 262144, 1 << 20}
	for _, want := range []Fit{{Overhead: 100e-6, Rate: 500e6}, {Overhead: 8e-3, Rate: 20e6}, {Overhead: 1e-6, Rate: 3e9}} {
		var times []float64
		for _, x := range sizes {
			times = append(times, want.Overhead+x/want.Rate)
		}
		got := fitLine(sizes, times)
		if math.Abs(got.Overhead/want.Overhead-1) > 1e-6 || math.Abs(got.Rate/want.Rate-1) > 1e-6 || got.R2 < 1-1e-9 {
			t.Errorf("of %+v it makes %+v", want, got)
		}
	}
}

// With an error of up to 5% in each time, the line is within 5% at every size.
func TestFitOfNoisyTimes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	want := Fit{Overhead: 300e-6, Rate: 200e6}
	var sizes, times []float64
	for x := 512.0; x <= 1<<20; x *= 2 {
		sizes = append(sizes, x)
		times = append(times, want.At(x)*(1+0.1*(random.Float64()-0.5)))
	}
	got := fitLine(sizes, times)
	for _, x := range sizes {
		if off := got.At(x)/want.At(x) - 1; math.Abs(off) > 0.05 {
			t.Errorf("at %.0f bytes the line is off by %.1f%%", x, 100*off)
		}
	}
	if got.R2 < 0.95 || got.R2 == 1 {
		t.Errorf("R2 is %v", got.R2)
	}
}

func TestFitOfTimesThatAreNoLine(t *testing.T) {
	for name, c := range map[string]struct {
		x, y []float64
		want Fit
	}{
		"nothing":      {nil, nil, Fit{}},
		"one size":     {[]float64{100}, []float64{0.5}, Fit{Overhead: 0.5, R2: 1}},
		"constant":     {[]float64{1, 10, 100}, []float64{2, 2, 2}, Fit{Overhead: 2, R2: 1}},
		"falling":      {[]float64{1, 10, 100}, []float64{4, 4, 2}, Fit{Overhead: 2.6667, R2: 0}},
		"no overhead":  {[]float64{10, 20, 40}, []float64{1, 2, 4}, Fit{Rate: 10, R2: 1}},
		"less than no": {[]float64{10, 20}, []float64{1, 3}, Fit{Rate: 8.667, R2: 0.8}},
	} {
		got := fitLine(c.x, c.y)
		if math.Abs(got.Overhead-c.want.Overhead) > 1e-4 || math.Abs(got.Rate-c.want.Rate) > 0.01 || got.R2 < c.want.R2-0.1 || got.R2 > 1 || math.IsNaN(got.R2) {
			t.Errorf("%s: %+v, want about %+v", name, got, c.want)
		}
	}
}

func TestPartsOfASpread(t *testing.T) {
	var v []float64
	for i := 1000; i >= 1; i-- {
		v = append(v, float64(i))
	}
	s := summarize(v)
	if s.N != 1000 || s.Min != 1 || s.P50 != 500 || s.P90 != 900 || s.P99 != 990 || s.P999 != 999 || s.Max != 1000 || s.Mean != 500.5 {
		t.Errorf("%+v", s)
	}
	if s := summarize([]float64{7}); s.P50 != 7 || s.P999 != 7 {
		t.Errorf("of one number: %+v", s)
	}
}

func TestMeasureDisk(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"postgres", "mysql", "db2"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r, err := MeasureDisk(context.Background(), DiskSpec{Dir: dir, Engine: engine, Time: time.Second, Size: 8 << 20})
			if err != nil {
				t.Fatal(err)
			}
			empty(t, dir)
			shape, _ := shapeOf(engine)
			own := r.Series[0]
			if own.DiskWay != shape.way || len(own.Sizes) != len(shape.sizes) || len(r.Series) != 12 {
				t.Fatalf("%d series, the first %s with %d sizes", len(r.Series), own.DiskWay, len(own.Sizes))
			}
			for _, s := range r.Series {
				for _, z := range s.Sizes {
					x := z.Times
					if x.N < 1 || x.Min <= 0 || x.P50 < x.Min || x.P90 < x.P50 || x.P99 < x.P90 || x.P999 < x.P99 || x.Max < x.P999 || x.Mean < x.Min || x.Mean > x.Max {
						t.Errorf("%s, %d bytes: %+v", s, z.Bytes, x)
					}
				}
				if (s.Unavailable == "") != (len(s.Sizes) > 0) {
					t.Errorf("%s: %q and %d sizes", s, s.Unavailable, len(s.Sizes))
				}
			}
			if r.Unit != shape.unit || r.Overhead != own.Fit.Overhead || len(r.Quantiles) != 5 || r.FileBytes != 8<<20 || r.FileSystem == "" {
				t.Errorf("%+v", r.Disk)
			}
			text, err := json.Marshal(r)
			var d ha.Disk
			if err != nil || json.Unmarshal(text, &d) != nil || d.Rate != r.Rate || d.Overhead != r.Overhead || len(d.Quantiles) != 5 {
				t.Errorf("read as a Disk it is %+v (%v)", d, err)
			}
		})
	}
}

// empty fails unless a folder is empty.
func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%s is left, %v", left, err)
	}
}

func TestMeasureDiskRemovesWhatItMadeWhenItIsStopped(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		dir := t.TempDir()
		ctx, stop := context.WithTimeout(context.Background(), time.Duration(i*i)*7*time.Millisecond)
		_, err := MeasureDisk(ctx, DiskSpec{Dir: dir, Time: time.Minute, Size: 16 << 20})
		stop()
		if tidemark.KindOf(err) != tidemark.Cancelled || tidemark.HintOf(err) == "" {
			t.Errorf("stopped, it says %v", err)
		}
		empty(t, dir)
	}
}

func TestMeasureDiskStaysAwayFromDatabases(t *testing.T) {
	for file, what := range map[string]string{
		"postmaster.pid":                       "data of PostgreSQL",
		"PG_VERSION":                           "data of PostgreSQL",
		"global/pg_control":                    "data of PostgreSQL",
		"000000010000000000000012":             "WAL of PostgreSQL",
		"../000000010000000000000012":          "WAL of PostgreSQL",
		"../PG_VERSION":                        "data of PostgreSQL",
		"../global/pg_control":                 "data of PostgreSQL",
		"ib_logfile0":                          "data of MySQL or MariaDB",
		"#innodb_redo/#ib_redo12":              "data of MySQL or MariaDB",
		"../ibdata1":                           "data of MySQL or MariaDB",
		"binlog.index binlog.000003":           "binary log of MySQL or MariaDB",
		"my.host-bin.index my.host-bin.000003": "binary log of MySQL or MariaDB",
		"S0000012.LOG":                         "log of Db2",
		"../SQLOGCTL.LFH.1":                    "log of Db2",
	} {
		dir := filepath.Join(t.TempDir(), "here")
		var names []string
		for name := range strings.FieldsSeq(file) {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.MkdirAll(dir, 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		_, err := MeasureDisk(context.Background(), DiskSpec{Dir: dir, Time: time.Second, Size: 8 << 20})
		if tidemark.KindOf(err) != tidemark.Invalid || err == nil || !strings.Contains(err.Error(), "this is "+what) {
			t.Errorf("%v: %v", names, err)
		}
		link := filepath.Join(t.TempDir(), "elsewhere")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		if what, _ := liveLog(link); what == "" {
			t.Errorf("%v is not seen through a symbolic link", names)
		}
	}
	for _, harmless := range []string{"other.index", "notes.000001", "S12.LOG", "ibdata", "00000001"} {
		dir := filepath.Join(t.TempDir(), "here")
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, harmless), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		if what, file := liveLog(dir); what != "" {
			t.Errorf("%s is taken for %s", file, what)
		}
	}
}

func TestMeasureDiskWithForce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := MeasureDisk(context.Background(), DiskSpec{Dir: dir, Time: 100 * time.Millisecond, Size: 8 << 20, Force: true}); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestMeasureDiskRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	busy := filepath.Join(dir, "busy")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.MkdirAll(filepath.Join(busy, diskFolder), 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spec DiskSpec
		kind tidemark.Kind
		says string
	}{
		"a folder that is not there": {DiskSpec{Dir: filepath.Join(dir, "none")}, tidemark.NotFound, "no such file"},
		"a file":                     {DiskSpec{Dir: file}, tidemark.Invalid, "is not a folder"},
		"two at once":                {DiskSpec{Dir: busy}, tidemark.Exists, "file exists"},
		"an unknown engine":          {DiskSpec{Dir: dir, Engine: "oracle"}, tidemark.Invalid, "is not a supported engine"},
		"a small file":               {DiskSpec{Dir: dir, Size: 1 << 20}, tidemark.Invalid, "too small"},
	} {
		_, err := MeasureDisk(context.Background(), c.spec)
		if tidemark.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.says) || tidemark.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := os.ReadDir(busy); len(left) != 1 {
		t.Error("the folder of the other measurement was removed")
	}
}

func TestErrorsOfFiles(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind tidemark.Kind
	}{
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, tidemark.Full},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, tidemark.Forbidden},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.EIO}, tidemark.Unsupported},
		{context.Canceled, tidemark.Cancelled},
	} {
		if err := fileError("measure disk", "x", c.err); tidemark.KindOf(err) != c.kind || tidemark.HintOf(err) == "" {
			t.Errorf("%v becomes %v of kind %v", c.err, err, tidemark.KindOf(err))
		}
	}
}

// A disk without O_DIRECT is measured in the other ways, and reported as such; if that is the
// engine's own way, it is an error.
func TestDiskWithoutDirect(t *testing.T) {
	for _, own := range []bool{false, true} {
		r := &diskRun{shape: logShape{unit: 4096}, report: &DiskReport{FileSystem: "tmpfs", Dir: "/x"}, DiskSpec: DiskSpec{Dir: "/x", Engine: "db2"}}
		good := &diskSeries{DiskSeries: DiskSeries{DiskWay: DiskWay{Sync: FSync}}, cells: []*diskCell{{bytes: 4096, times: []time.Duration{time.Millisecond}}}}
		bad := &diskSeries{DiskSeries: DiskSeries{DiskWay: DiskWay{Sync: ODSync, Direct: true}}, cells: []*diskCell{{bytes: 4096}}}
		if err := r.without(bad, &fs.PathError{Op: "open", Path: "x", Err: syscall.EINVAL}); err != nil {
			t.Fatal(err)
		}
		if r.series = []*diskSeries{good, bad}; own {
			r.series = []*diskSeries{bad, good}
		}
		out, err := r.finish()
		if own {
			if tidemark.KindOf(err) != tidemark.Unsupported || !strings.Contains(err.Error(), "tmpfs has no O_DIRECT, as db2 writes its log") {
				t.Error(err)
			}
		} else if err != nil || out.Series[1].Unavailable != "tmpfs has no O_DIRECT" || out.Overhead != 1e-3 {
			t.Errorf("%v, %+v", err, out)
		}
	}
}

func TestDoubtsOfADisk(t *testing.T) {
	for _, c := range []struct {
		fileSystem string
		p50, r2    float64
		says       string
	}{
		{"ext4", 5e-3, 0.99, ""},
		{"ext4", 20e-6, 0.99, "only disks with a cache"},
		{"ext4", 80e-6, 0.99, "good drives with a protected cache"},
		{"tmpfs", 2e-6, 0.99, "is memory, not a disk"},
		{"xfs", 5e-3, 0.5, "do not follow"},
	} {
		found := doubts(&DiskReport{Disk: ha.Disk{Quantiles: []ha.Quantile{{P: 0.5, Value: c.p50}}}, R2: c.r2, FileSystem: c.fileSystem})
		if c.says == "" && len(found) > 0 || c.says != "" && (len(found) != 1 || !strings.Contains(found[0].Text, c.says)) {
			t.Errorf("%+v: %+v", c, found)
		}
	}
}
