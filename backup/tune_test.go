package backup

import (
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/store"
)

func folder(t rapidOrTest) store.Store {
	s, err := store.Open(t.Context(), "/tmp/none", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type rapidOrTest interface {
	testing.TB
}

// Whatever is requested: the user's settings stay, what was left open is chosen, and the total,
// also after growing, is within the memory limit, or an error is returned.
func TestSizesAreWithinMemory(t *testing.T) {
	place := folder(t)
	codecs := []string{"none", "lz4", "s2", "zstd:1", "zstd:3", "zstd:7", "zstd:19"}
	rapid.Check(t, func(r *rapid.T) {
		codec, err := repo.ParseCodec(rapid.SampledFrom(codecs).Draw(r, "codec"))
		if err != nil {
			r.Fatal(err)
		}
		open := func(name string, n int) int { return rapid.OneOf(rapid.Just(0), rapid.IntRange(1, n)).Draw(r, name) }
		o := Options{Parallelism: open("parallelism", 64), Sessions: open("sessions", 64), Buffers: open("buffers", 200), BufferSize: int64(open("buffer", 1024)) * bufferUnit,
			Memory: int64(open("memory", 4096)) << 20, Codec: codec}
		piece := int64(open("piece", 64)) << 20
		got, err := o.tuned(place, piece)
		if err != nil {
			if tidemark.KindOf(err) != tidemark.Invalid || o.Memory == 0 || piece > 0 {
				r.Fatal(err)
			}
			return
		}
		for _, s := range []sizes{got.begin, got.most} {
			if s.parallelism < 1 || s.sessions < 1 || s.buffers < 1 || o.Parallelism > 0 && s.parallelism != o.Parallelism || o.Sessions > 0 && s.sessions != o.Sessions ||
				o.Buffers > 0 && s.buffers != o.Buffers {
				r.Fatalf("%+v of %+v", s, o)
			}
			if cost := s.cost(o.costs(place, got.buffer, piece > 0)); cost > choose(o.Memory, defaultMemory) && (o.Memory > 0 && piece == 0 || s != got.begin) {
				r.Fatalf("%+v takes %d bytes of %d", got, cost, o.Memory)
			}
		}
		if piece == 0 && o.BufferSize > 0 && got.buffer != o.BufferSize || got.buffer <= 0 {
			r.Fatalf("a buffer of %d bytes is not possible", got.buffer)
		}
	})
}

// By default each side can grow, with the usual codecs.
func TestSizesMayGrow(t *testing.T) {
	for _, name := range []string{"none", "lz4", "zstd:1", "zstd:3"} {
		codec, err := repo.ParseCodec(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Options{Codec: codec}.tuned(folder(t), 0)
		if procs := max(runtime.GOMAXPROCS(0), 2); err != nil || procs <= 4 && (got.most.parallelism < 2*procs || got.most.sessions < 6 || got.buffer != defaultBuffer) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A model of a pipeline: the rate of each side, of one worker and of all its workers.
type model struct {
	read, reads   float64 // bytes per second of one reader, and of all
	pack, packs   float64 // compressing: limited by the processors
	write, writes float64
}

// run returns the rate of a pipeline with these sizes, and its clocks' readings for one second.
func (m model) run(s sizes, restore bool) (rate float64, l look) {
	p, w := float64(s.parallelism), float64(s.sessions)
	// A reader reads a byte, then packs it.
	readOne, packOne, writeOne := min(m.read, m.reads/p), min(m.pack, m.packs/p), min(m.write, m.writes/w)
	server := p / (1/readOne + 1/packOne)
	place := w * writeOne
	rate = min(server, place)
	d := func(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }
	l = look{took: time.Second, bytes: int64(rate), restore: restore}
	l.server = flow.Times{Total: d(p), IO: d(rate / readOne), Working: d(rate / packOne)}
	l.place = flow.Times{Total: d(w), IO: d(rate / writeOne)}
	queue, placeQueue := l.server.Total-l.server.Busy(), l.place.Total-l.place.Busy()
	if restore {
		l.server.WaitWork, l.place.WaitBuffer = queue, placeQueue
	} else {
		l.server.WaitBuffer, l.place.WaitWork = queue, placeQueue
	}
	return rate, l
}

// Whatever limits, the governor comes within a tenth of the best sizes' rate.
func TestGovernorFindsTheBest(t *testing.T) {
	most := sizes{parallelism: 16, sessions: 16, buffers: 40}
	rapid.Check(t, func(r *rapid.T) {
		rate := func(name string) float64 { return rapid.Float64Range(10e6, 500e6).Draw(r, name) }
		m := model{read: rate("read"), pack: rate("pack"), write: rate("write")}
		m.reads = m.read * rapid.Float64Range(1, 16).Draw(r, "reads")
		m.packs = m.pack * 2 // processors
		m.writes = m.write * rapid.Float64Range(1, 16).Draw(r, "writes")
		restore := rapid.Bool().Draw(r, "restore")
		best := 0.0
		for p := 1; p <= most.parallelism; p++ {
			for w := 1; w <= most.sessions; w++ {
				got, _ := m.run(sizes{p, w, 0}, restore)
				best = max(best, got)
			}
		}
		g := &governor{now: sizes{2, 2, 6}, most: most, procs: 2}
		for range 100 {
			_, l := m.run(g.now, restore)
			before := g.now
			if after := g.nextSizes(l); after.parallelism < before.parallelism || after.sessions < before.sessions || after.parallelism > most.parallelism || after.sessions > most.sessions {
				r.Fatalf("%+v became %+v", before, after)
			}
		}
		if got, _ := m.run(g.now, restore); got < 0.9*best {
			r.Fatalf("%+v gives %.0f of %.0f with %+v", m, got, best, g.now)
		}
	})
}
