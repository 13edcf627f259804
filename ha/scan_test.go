package ha

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// records is a log.
type records []tidemark.LogRecord

func (l records) Scan(_ context.Context, emit func(*tidemark.LogRecord) error) (tidemark.LogScan, error) {
	for i := range l {
		if err := emit(&l[i]); err != nil {
			return tidemark.LogScan{}, err
		}
	}
	return tidemark.LogScan{Engine: "postgres", Version: "15", System: "7301", Classes: []string{"XLOG", "Transaction", "Heap"}, Tables: []string{"", "1663/5/16384", "1663/5/16385"}}, nil
}

// origin is the beginning of the logs in these tests.
var origin = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func us(after time.Duration) int64 { return origin.Add(after).UnixMicro() }

// A writer builds a log.
type writer struct {
	log   records
	place uint64
}

func (w *writer) add(r tidemark.LogRecord) *tidemark.LogRecord {
	if w.place == 0 {
		w.place = 0x1000000
	}
	r.Place = w.place
	w.place += uint64(r.Size)
	w.log = append(w.log, r)
	return &w.log[len(w.log)-1]
}

func (w *writer) change(tx uint64, size uint32) {
	w.add(tidemark.LogRecord{Tx: tx, Size: size, Class: 2, Table: 1})
}

func (w *writer) commit(tx uint64, at time.Duration) *tidemark.LogRecord {
	return w.add(tidemark.LogRecord{Tx: tx, Size: 40, Class: 1, Ended: tidemark.Committed, Time: us(at), Exact: true})
}

func (w *writer) rollback(tx uint64, at time.Duration) {
	w.add(tidemark.LogRecord{Tx: tx, Size: 40, Class: 1, Ended: tidemark.RolledBack, Time: us(at), Exact: true})
}

func (w *writer) scan(t *testing.T, opt Options) *Profile {
	t.Helper()
	p, err := Scan(context.Background(), w.log, opt)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// steady scans n transactions of 160 and 40 bytes, one after the other.
func steady(t *testing.T, n int, every time.Duration, opt Options) *Profile {
	t.Helper()
	var w writer
	for i := range n {
		w.change(uint64(i+1), 160)
		w.commit(uint64(i+1), time.Duration(i)*every)
	}
	return w.scan(t, opt)
}

func nearly(t *testing.T, what string, got, want, off float64) {
	t.Helper()
	if math.Abs(got-want) > off || math.IsNaN(got) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestScanOfASteadyLoad(t *testing.T) {
	p := steady(t, 3001, 20*time.Millisecond, Options{Interval: 10 * time.Second})
	if len(p.Intervals) != 6 || p.Seconds != 60 || p.Transactions.Committed != 3001 || p.Bytes != 3001*200 || p.Records != 6002 {
		t.Fatalf("%d intervals, %v s, %+v, %d bytes", len(p.Intervals), p.Seconds, p.Transactions, p.Bytes)
	}
	for i, x := range p.Intervals {
		if x.Seconds != 10 || !x.End.Equal(origin.Add(time.Duration(i+1)*10*time.Second)) {
			t.Errorf("interval %d: %v s to %v", i, x.Seconds, x.End)
		}
		nearly(t, "bytes", float64(x.Bytes), 100000, 1)
		nearly(t, "ended", float64(x.Ended), 500, 1)
		nearly(t, "flushes", x.Flushes, 500, 1)
		nearly(t, "bytes of transactions", float64(x.TxBytes), 100000, 200)
		// A transaction begins when the one before has ended, so it takes 20 ms.
		nearly(t, "seconds of transactions", x.TxSeconds, 10, 0.1)
		nearly(t, "open", x.Open, 0.5, 0.5)
	}
	l := p.Intervals[0].Line().String()
	if want := "2026-11-21 10:00:10  0.010 MB/s, 10 sec, 0.049 pg/f, 0.020000 sec/f, 0.049 pg/tr, 0.020000 sec/tr, 0.020000 sec/cmt, nOpenTrans "; !strings.HasPrefix(strings.Replace(l, "0.019960", "0.020000", -1), want[:40]) {
		t.Errorf("got  %s\nwant %s", l, want)
	}
	d := p.Distributions
	if d.FlushBytes.Count != 3001 || d.FlushTime.Count != 3000 || d.FlushPages.Max != 1 || d.TxSize.Min != 200 || d.TxSize.Max != 200 || len(d.RecordSize.Buckets) != 2 {
		t.Errorf("%+v", d)
	}
	nearly(t, "commit interval", d.CommitTime.Mean, 0.02, 0.001)
	nearly(t, "flush time", d.FlushTime.Mean, 0.02, 1e-9)
	if p.Flushes.Basis != EstimatedFlushes || p.Classes[0].Name != "Heap" || p.Tables[0].Name != "1663/5/16384" || p.Tables[1].Bytes != 3001*40 {
		t.Errorf("%+v %+v %+v", p.Flushes, p.Classes, p.Tables)
	}
}

// TestIntervalsAddUp: whatever the gaps between commits, no byte, transaction or second between the
// first and the last time is lost or counted twice.
func TestIntervalsAddUp(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		var w writer
		at, bytes := time.Duration(0), int64(0)
		n := 2 + r.IntN(200)
		for i := range n {
			size := uint32(50 + r.IntN(100000))
			if i > 0 {
				at += time.Duration(r.ExpFloat64() * math.Exp(r.Float64()*6) * 1e6 * float64(time.Microsecond) / 50)
				bytes += int64(size) + 40
			}
			w.change(uint64(i+1), size)
			w.commit(uint64(i+1), at)
		}
		if at == 0 {
			continue
		}
		p := w.scan(t, Options{Interval: time.Duration(1+r.IntN(5000)) * time.Millisecond})
		var got Interval
		flushes := 0.0
		for i, x := range p.Intervals {
			got.Seconds, got.Bytes, got.Ended = got.Seconds+x.Seconds, got.Bytes+x.Bytes, got.Ended+x.Ended
			flushes += x.Flushes
			if x.Seconds <= 0 || x.Bytes < 0 || i > 0 && !x.End.After(p.Intervals[i-1].End) {
				t.Fatalf("interval %d: %+v", i, x)
			}
		}
		nearly(t, "seconds", got.Seconds, at.Seconds(), 1e-3)
		if got.Bytes != bytes || got.Ended != int64(n) {
			t.Fatalf("%d bytes of %d, %d transactions of %d", got.Bytes, bytes, got.Ended, n)
		}
		nearly(t, "flushes", flushes, p.Flushes.Count, 1e-6)
	}
}

// TestAPauseIsOneInterval: a period without timestamps that is longer than an interval is one
// interval.
func TestAPauseIsOneInterval(t *testing.T) {
	var w writer
	for i := range 100 {
		w.change(uint64(i+1), 960)
		w.commit(uint64(i+1), time.Duration(i)*100*time.Millisecond)
	}
	w.change(200, 1<<20)
	w.commit(200, 95*time.Second)
	w.commit(201, 96*time.Second)
	p := w.scan(t, Options{Interval: 10 * time.Second})
	if len(p.Intervals) != 3 {
		t.Fatalf("%+v", p.Intervals)
	}
	nearly(t, "pause", p.Intervals[1].Seconds, 80, 0)
	nearly(t, "rest", p.Intervals[2].Seconds, 6, 0)
	if p.Intervals[1].Bytes < 900_000 || p.Intervals[1].Ended != 0 || p.Intervals[2].Ended != 2 {
		t.Errorf("%+v", p.Intervals[1:])
	}
}

// TestFilesAsIntervals: with no interval there is one for each file.
func TestFilesAsIntervals(t *testing.T) {
	var w writer
	for i := range 300 {
		r := tidemark.LogRecord{Tx: uint64(i + 1), Size: 100}
		if i%100 == 0 {
			r.File = string('A' + rune(i/100))
		}
		w.add(r)
		w.commit(uint64(i+1), time.Duration(i)*time.Second)
	}
	p := w.scan(t, Options{Interval: -1, Files: true})
	if len(p.Intervals) != 3 || p.Files != 3 || p.FileList[1].Name != "B" || p.FileList[1].Intervals != 0 || p.FileList[1].Records != 200 {
		t.Fatalf("%+v %+v", p.Intervals, p.FileList)
	}
	for i, want := range []float64{99, 100, 100} {
		nearly(t, "seconds", p.Intervals[i].Seconds, want, 0)
	}
}

func TestTransactionsOfALog(t *testing.T) {
	var w writer
	w.commit(1, 0)
	w.change(10, 100) // begins immediately after the first time
	w.change(11, 100)
	w.change(12, 800)
	w.commit(11, 2*time.Second)
	w.change(10, 500)
	w.change(13, 400) // a subtransaction of 10, which its end shows
	w.change(14, 50)
	w.commit(10, 10*time.Second).Children = []uint64{13}
	w.add(tidemark.LogRecord{Size: 7, Class: 0})
	p := w.scan(t, Options{})
	tx := p.Transactions
	if tx.Committed != 3 || tx.OpenAtEnd != 2 || tx.OpenBytes != 850 || tx.Folded != 1 || p.NoTxBytes != 7 || tx.Bytes != 40+140+1040 {
		t.Errorf("%+v, %d", tx, p.NoTxBytes)
	}
	d := p.Distributions.TxTime
	if d.Count != 3 || d.Min != 0 {
		t.Errorf("%+v", d)
	}
	nearly(t, "the longest", d.Max, 10, 1e-6)
	nearly(t, "all", d.Sum, 10+2-0.2*100/104*2*10/10, 0.3)
	nearly(t, "uncertainty", tx.Uncertainty.Max, 2, 1e-6)
	if o := p.Distributions.Open; o.Max != 4 {
		t.Errorf("%+v", o)
	}
}

// TestSavepoints: rolled back parts that may belong to an open transaction are not counted as
// transactions, and are reported.
func TestSavepoints(t *testing.T) {
	var w writer
	w.change(10, 100)
	w.change(11, 200)
	w.rollback(11, time.Second)
	w.commit(10, 2*time.Second)
	w.change(12, 100)
	w.rollback(12, 3*time.Second) // nothing else was open
	p := w.scan(t, Options{})
	if x := p.Transactions; x.Savepoints != 1 || x.RolledBack != 1 || x.Committed != 1 || p.Distributions.TxSize.Count != 2 {
		t.Errorf("%+v", x)
	}
	if !strings.Contains(strings.Join(p.Findings, "\n"), "1 rollbacks may be of savepoints") {
		t.Errorf("%q", p.Findings)
	}
}

// TestRunningTransactions: the log's lists show what was open before it began, and what has ended
// without a record.
func TestRunningTransactions(t *testing.T) {
	var w writer
	w.commit(6, 0)
	w.change(20, 100)
	w.add(tidemark.LogRecord{Size: 60, Open: []uint64{6, 7, 8, 20}}) // 6 waits for its commit to be on disk
	w.commit(20, time.Second)
	w.commit(7, 2*time.Second)
	w.change(21, 100)
	w.add(tidemark.LogRecord{Size: 60, Open: []uint64{21}})
	p := w.scan(t, Options{})
	if x := p.Transactions; x.OpenAtEnd != 1 || x.Committed != 3 {
		t.Errorf("%+v", x)
	}
	if o := p.Distributions.Open; o.Max != 3 {
		t.Errorf("%+v", o)
	}
}

func TestPreparedStaysOpen(t *testing.T) {
	var w writer
	w.change(5, 100)
	w.add(tidemark.LogRecord{Tx: 5, Size: 200, Ended: tidemark.Prepared, Time: us(time.Second), Exact: true})
	w.commit(6, 2*time.Second)
	w.commit(5, 3*time.Second)
	p := w.scan(t, Options{})
	if x := p.Transactions; x.Prepared != 1 || x.Committed != 2 || p.Distributions.TxSize.Max != 340 || p.Flushes.Count != 3 {
		t.Errorf("%+v %+v %+v", x, p.Distributions.TxSize, p.Flushes)
	}
}

// TestGap: missing log is reported, no time passes in it, and open transactions are forgotten.
func TestGap(t *testing.T) {
	var w writer
	for i := range 100 {
		w.change(uint64(i+1), 100)
		w.commit(uint64(i+1), time.Duration(i)*100*time.Millisecond)
	}
	w.change(500, 100)
	w.add(tidemark.LogRecord{Tx: 600, Size: 100, Gap: "segments 4 to 7 are not there"})
	for i := range 100 {
		w.change(uint64(i+601), 100)
		w.commit(uint64(i+601), time.Hour+time.Duration(i)*100*time.Millisecond)
	}
	p := w.scan(t, Options{Interval: 5 * time.Second})
	if x := p.Transactions; x.Committed != 200 || x.OpenAtEnd != 1 {
		t.Errorf("%+v", x)
	}
	nearly(t, "seconds", p.Seconds, 19.8, 1e-6)
	if len(p.Intervals) != 4 || !strings.Contains(strings.Join(p.Findings, "\n"), "segments 4 to 7 are not there") {
		t.Errorf("%+v %q", p.Intervals, p.Findings)
	}
}

// TestImagesByDistance: the redo point of a checkpoint becomes known only after later records.
func TestImagesByDistance(t *testing.T) {
	var w writer
	page := func(at time.Duration, image bool) {
		for range 128 {
			r := tidemark.LogRecord{Size: 8192}
			if image {
				r.Image = 8000
			}
			w.add(r)
		}
		w.commit(1, at)
	}
	w.commit(1, 0)
	redo := w.place
	for i := range 8 { // a MiB each second
		page(time.Duration(i+1)*time.Second, i < 2)
	}
	w.add(tidemark.LogRecord{Size: 100, Redo: redo})
	p := w.scan(t, Options{})
	if len(p.Images) < 3 {
		t.Fatalf("%+v", p.Images)
	}
	var bytes, images int64
	for _, d := range p.Images {
		bytes, images = bytes+d.Bytes, images+d.ImageBytes
	}
	if images != 2*128*8000 || p.ImageBytes != images || bytes < 8<<20 {
		t.Errorf("%d of %d bytes: %+v", images, bytes, p.Images)
	}
	if first, last := p.Images[0], p.Images[len(p.Images)-1]; first.ImageBytes*10 < first.Bytes*9 || last.ImageBytes != 0 || first.From != 0 {
		t.Errorf("%+v", p.Images)
	}
}

func TestTooManyIntervals(t *testing.T) {
	var w writer
	for i := range maxIntervals + 10 {
		w.commit(uint64(i+1), time.Duration(i)*time.Second)
	}
	_, err := Scan(context.Background(), w.log, Options{Interval: time.Millisecond})
	if tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(tidemark.HintOf(err), "--interval") {
		t.Error(err)
	}
}

func TestErrorOfALog(t *testing.T) {
	boom := errors.New("boom")
	if _, err := Scan(context.Background(), failing{boom}, Options{}); !errors.Is(err, boom) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Scan(context.Context, func(*tidemark.LogRecord) error) (tidemark.LogScan, error) {
	return tidemark.LogScan{}, f.err
}

// BenchmarkProfile profiles records of 200 bytes, in transactions of 5.
func BenchmarkProfile(b *testing.B) {
	p := NewProfiler(Options{})
	r := tidemark.LogRecord{Size: 200, Class: 2, Table: 1}
	b.SetBytes(200)
	for i := 0; b.Loop(); i++ {
		r.Tx, r.Place, r.Ended, r.Time, r.Exact = uint64(i/5+1), uint64(i)*200, tidemark.StillOpen, 0, false
		if i%5 == 4 {
			r.Ended, r.Time, r.Exact = tidemark.Committed, us(time.Duration(i)*20*time.Microsecond), true
		}
		if err := p.Add(&r); err != nil {
			b.Fatal(err)
		}
	}
}
