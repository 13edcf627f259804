package flow_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark/flow"
)

func ints(items int, bytes int64) *flow.Buffer[int] {
	return flow.NewBuffer(items, bytes, func(v int) int64 { return int64(v) })
}

func TestPutWaitsWhileFullAndOnlyThenTouchesTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		b := ints(2, 100)
		c := flow.NewClock()
		for range 2 {
			if err := b.Put(ctx, c, 1); err != nil {
				t.Fatal(err)
			}
		}
		go func() {
			time.Sleep(7 * time.Second)
			b.Take(ctx, nil)
		}()
		if err := b.Put(ctx, c, 1); err != nil {
			t.Fatal(err)
		}
		if got := c.Snapshot(); got.WaitBuffer != 7*time.Second || got.Total != 7*time.Second {
			t.Errorf("got %+v", got)
		}
		if got := c.State(); got != flow.Working {
			t.Errorf("after the wait the state is %v", got)
		}
	})
}

func TestTakeWaitsWhileEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		b := ints(2, 100)
		c := flow.NewClock()
		c.Enter(flow.IO)
		go func() {
			time.Sleep(3 * time.Second)
			b.Put(ctx, nil, 5)
			time.Sleep(4 * time.Second)
			b.Close()
		}()
		if v, ok, err := b.Take(ctx, c); v != 5 || !ok || err != nil {
			t.Fatal(v, ok, err)
		}
		if v, ok, err := b.Take(ctx, c); v != 0 || ok || err != nil {
			t.Fatal(v, ok, err)
		}
		if got := c.Snapshot(); got.WaitWork != 7*time.Second {
			t.Errorf("got %+v", got)
		}
		if c.State() != flow.IO {
			t.Errorf("the state before the wait was not restored")
		}
	})
}

func TestPoolIsWaitedForAsABuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := ints(1, 0)
		c := flow.NewClock()
		go func() {
			time.Sleep(2 * time.Second)
			pool.Put(context.Background(), nil, 1)
		}()
		if _, ok, err := pool.TakeAs(context.Background(), c, flow.WaitBuffer); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if got := c.Snapshot(); got.WaitBuffer != 2*time.Second || got.WaitWork != 0 || c.State() != flow.Working {
			t.Errorf("got %+v", got)
		}
	})
}

func TestCancelWakesAllWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		full, empty := ints(1, 100), ints(1, 100)
		full.Put(ctx, nil, 1)
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range 3 {
			wg.Go(func() { errs[i] = full.Put(ctx, nil, 2) })
			wg.Go(func() { _, _, errs[3+i] = empty.Take(ctx, nil) })
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		for i, err := range errs {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("waiter %d: %v", i, err)
			}
		}
		// Values that senders could not put are not in the buffer.
		if full.Len() != 1 {
			t.Errorf("%d values inside, want 1", full.Len())
		}
		// A cancelled waiter gets nothing: the value reaches the next one.
		empty.Put(context.Background(), nil, 9)
		if v, ok, _ := empty.Take(context.Background(), nil); v != 9 || !ok {
			t.Errorf("took %d, %v", v, ok)
		}
	})
}

func TestGiantPassesAloneAndIsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		b := ints(10, 100)
		var order []int
		var wg sync.WaitGroup
		b.Put(ctx, nil, 60)
		wg.Go(func() { b.Put(ctx, nil, 5000) })
		synctest.Wait()
		wg.Go(func() { b.Put(ctx, nil, 1) }) // would fit beside the 60
		synctest.Wait()
		if b.Len() != 1 || b.Bytes() != 60 {
			t.Fatalf("%d values, %d bytes inside", b.Len(), b.Bytes())
		}
		for range 3 {
			v, _, _ := b.Take(ctx, nil)
			order = append(order, v)
			synctest.Wait()
			if v == 60 && (b.Len() != 1 || b.Bytes() != 5000) {
				t.Errorf("the giant is not alone: %d values, %d bytes", b.Len(), b.Bytes())
			}
		}
		wg.Wait()
		if want := []int{60, 5000, 1}; !slices.Equal(order, want) {
			t.Errorf("got %v, want %v", order, want)
		}
	})
}

func TestGiantThatGivesUpLetsOthersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := ints(10, 100)
		b.Put(t.Context(), nil, 60)
		giant, cancel := context.WithCancel(t.Context())
		done := make(chan struct{}, 2)
		go func() { b.Put(giant, nil, 5000); done <- struct{}{} }()
		synctest.Wait()
		go func() { b.Put(t.Context(), nil, 1); done <- struct{}{} }()
		synctest.Wait()
		cancel()
		<-done
		<-done
		if b.Len() != 2 || b.Bytes() != 61 {
			t.Errorf("%d values, %d bytes inside", b.Len(), b.Bytes())
		}
	})
}

func TestClosed(t *testing.T) {
	b := ints(3, 100)
	b.Put(t.Context(), nil, 1)
	b.Put(t.Context(), nil, 2)
	b.Close()
	b.Close()
	if err := b.Put(t.Context(), nil, 3); !errors.Is(err, flow.ErrClosed) {
		t.Errorf("put: %v", err)
	}
	var left []int
	b.Drain(func(v int) { left = append(left, v) })
	if !slices.Equal(left, []int{1, 2}) {
		t.Errorf("drained %v", left)
	}
	if _, ok, err := b.Take(t.Context(), nil); ok || err != nil {
		t.Errorf("take: %v %v", ok, err)
	}
	if b.Len() != 0 || b.Bytes() != 0 {
		t.Errorf("%d values, %d bytes inside", b.Len(), b.Bytes())
	}
}

// An op is an operation of the property test: waiters are numbered by the op that created them.
type op struct {
	Kind string // put, take, cancel (waiter Arg), close
	Arg  int
}

// twin is the dumb buffer: every rule is a loop over slices.
type twin struct {
	items  int
	bytes  int
	in     []int
	putQ   [][2]int // op number, value
	takeQ  []int
	closed bool
	result map[int]string
}

func (w *twin) sum() (n int) {
	for _, v := range w.in {
		n += v
	}
	return n
}

func (w *twin) settle() {
	for moved := true; moved; {
		moved = false
		if len(w.takeQ) > 0 && len(w.in) > 0 {
			w.result[w.takeQ[0]] = fmt.Sprint("took ", w.in[0])
			w.takeQ, w.in, moved = w.takeQ[1:], w.in[1:], true
		}
		if len(w.putQ) > 0 && (len(w.in) == 0 || len(w.in) < w.items && w.sum()+w.putQ[0][1] <= w.bytes) {
			w.in = append(w.in, w.putQ[0][1])
			w.result[w.putQ[0][0]] = "put"
			w.putQ, moved = w.putQ[1:], true
		}
	}
}

func (w *twin) do(n int, o op) {
	switch {
	case o.Kind == "put" && w.closed:
		w.result[n] = "closed"
	case o.Kind == "put":
		w.putQ = append(w.putQ, [2]int{n, o.Arg})
	case o.Kind == "take" && w.closed && len(w.in) == 0:
		w.result[n] = "end"
	case o.Kind == "take":
		w.takeQ = append(w.takeQ, n)
	case o.Kind == "cancel":
		for i, p := range w.putQ {
			if p[0] == o.Arg {
				w.result[o.Arg] = "cancelled"
				w.putQ = slices.Delete(w.putQ, i, i+1)
				break
			}
		}
		if i := slices.Index(w.takeQ, o.Arg); i >= 0 {
			w.result[o.Arg] = "cancelled"
			w.takeQ = slices.Delete(w.takeQ, i, i+1)
		}
	case o.Kind == "close":
		w.closed = true
		for _, p := range w.putQ {
			w.result[p[0]] = "closed"
		}
		for _, t := range w.takeQ {
			w.result[t] = "end"
		}
		w.putQ, w.takeQ = nil, nil
	}
	w.settle()
}

// real runs the ops on a Buffer, each in its own worker, one after the other.
func real(items, bytes int, ops []op) (result map[int]string, left, size int) {
	b := ints(items, int64(bytes))
	result = map[int]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	cancels := map[int]context.CancelFunc{}
	note := func(n int, s string) { mu.Lock(); result[n] = s; mu.Unlock() }
	for n, o := range ops {
		ctx, cancel := context.WithCancel(context.Background())
		cancels[n] = cancel
		switch o.Kind {
		case "put":
			wg.Go(func() {
				switch err := b.Put(ctx, nil, o.Arg); {
				case err == nil:
					note(n, "put")
				case errors.Is(err, flow.ErrClosed):
					note(n, "closed")
				default:
					note(n, "cancelled")
				}
			})
		case "take":
			wg.Go(func() {
				switch v, ok, err := b.Take(ctx, nil); {
				case err != nil:
					note(n, "cancelled")
				case !ok:
					note(n, "end")
				default:
					note(n, fmt.Sprint("took ", v))
				}
			})
		case "cancel":
			if f := cancels[o.Arg]; f != nil {
				f()
			}
		case "close":
			b.Close()
		}
		synctest.Wait()
	}
	mu.Lock()
	out := map[int]string{}
	for k, v := range result {
		out[k] = v
	}
	mu.Unlock()
	left, size = b.Len(), int(b.Bytes())
	for _, f := range cancels {
		f()
	}
	wg.Wait()
	return out, left, size
}

func TestBufferAgainstDumbTwin(t *testing.T) {
	gen := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) op {
		switch k := rapid.IntRange(0, 20).Draw(r, "kind"); {
		case k < 10:
			return op{"put", rapid.IntRange(0, 15).Draw(r, "size")}
		case k < 18:
			return op{"take", 0}
		case k < 20:
			return op{"cancel", rapid.IntRange(0, 30).Draw(r, "whom")}
		}
		return op{"close", 0}
	}), 1, 40)
	rapid.Check(t, func(r *rapid.T) {
		items, bytes := rapid.IntRange(1, 4).Draw(r, "items"), rapid.IntRange(1, 20).Draw(r, "bytes")
		ops := gen.Draw(r, "ops")
		for i := range ops { // an op cannot cancel what does not exist yet
			if ops[i].Kind == "cancel" {
				ops[i].Arg %= i + 1
			}
		}
		w := &twin{items: items, bytes: bytes, result: map[int]string{}}
		for n, o := range ops {
			w.do(n, o)
		}
		var got map[int]string
		var left, size int
		synctest.Test(t, func(*testing.T) { got, left, size = real(items, bytes, ops) })
		if !reflect.DeepEqual(got, w.result) {
			r.Fatalf("got  %v\nwant %v", got, w.result)
		}
		if left != len(w.in) || size != w.sum() {
			r.Fatalf("%d values of %d bytes inside, want %d of %d", left, size, len(w.in), w.sum())
		}
	})
}

// Many workers at once, for the race detector: nothing is lost or duplicated.
func TestNothingLostAmongManyWorkers(t *testing.T) {
	const writers, readers, each = 4, 3, 2000
	b := ints(5, 9000)
	var in, out sync.WaitGroup
	seen := make([][]int, readers)
	for w := range writers {
		in.Go(func() {
			for i := range each {
				if err := b.Put(t.Context(), nil, w*each+i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for r := range readers {
		out.Go(func() {
			for {
				v, ok, err := b.Take(t.Context(), nil)
				if err != nil || !ok {
					return
				}
				seen[r] = append(seen[r], v)
			}
		})
	}
	in.Wait()
	b.Close()
	out.Wait()
	all := slices.Concat(seen...)
	slices.Sort(all)
	if len(all) != writers*each || len(slices.Compact(all)) != writers*each {
		t.Errorf("%d values came out of %d", len(all), writers*each)
	}
}
