package queuetest

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/queue"
)

// random applies random operations to a log and to a slice.
func random(t *testing.T, r *rapid.T, m Maker) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	b := &bench{judge: r, ctx: ctx, open: m.New(t, 64<<20)}
	b.opt = queue.Options{MaxMessage: rapid.SampledFrom([]int{4 << 10, 20 << 10, 1 << 20}).Draw(r, "size of messages"), Compress: rapid.Bool().Draw(r, "compress"), MaxTransactions: rapid.SampledFrom([]int{0, 1, 3}).Draw(r, "transactions of a message")}
	b.reopen()
	defer func() { b.log.Close() }()
	b.begin()
	s := newSource(rapid.Uint64().Draw(r, "seed"))

	var all []*change.Tx // whole ones
	var half []*change.Tx
	var low uint64 // trimmed
	last := func() uint64 {
		if len(all) == 0 {
			return 0
		}
		return all[len(all)-1].Place
	}
	again := func() {
		place, _ := b.begin()
		if place != last() {
			r.Fatalf("the log continues after %d, and the slice after %d", place, last())
		}
		s.restart()
		if half != nil {
			s.place, half = last(), nil
		}
	}
	r.Repeat(map[string]func(*rapid.T){
		"append": func(r *rapid.T) {
			var txs []*change.Tx
			if half != nil {
				txs, half = half, nil
			}
			txs = append(txs, s.some(rapid.IntRange(1, 10).Draw(r, "transactions"))...)
			b.appendSome(txs, rapid.IntRange(1, 12).Draw(r, "at a time"))
			all = append(all, txs...)
		},
		"append large": func(r *rapid.T) {
			if half == nil {
				txs := s.next(rapid.IntRange(2, 6).Draw(r, "pieces"), 10, rapid.SampledFrom([]int{10, 3000, 20000}).Draw(r, "size"))
				b.append(txs...)
				all = append(all, txs...)
			}
		},
		"append half": func(r *rapid.T) {
			if half == nil {
				txs := s.next(5, 5, rapid.SampledFrom([]int{10, 3000}).Draw(r, "size"))
				n := rapid.IntRange(1, 4).Draw(r, "pieces")
				b.append(txs[:n]...)
				half = txs[n:]
				all = append(all, txs[:n]...)
			}
		},
		"begin again": func(*rapid.T) {
			all = whole(all)
			again()
		},
		"restart": func(*rapid.T) {
			all = whole(all)
			b.reopen()
			again()
		},
		"trim": func(r *rapid.T) {
			if len(all) > 0 {
				at := all[rapid.IntRange(0, len(all)-1).Draw(r, "up to")]
				if at.More {
					return
				}
				low = max(low, at.Place)
				if err := b.log.Trim(ctx, low); err != nil {
					r.Fatal(err)
				}
			}
		},
		"read": func(r *rapid.T) {
			all := whole(all)
			if len(all) == 0 {
				return
			}
			after := all[rapid.IntRange(0, len(all)-1).Draw(r, "behind")].Place
			if after < low {
				after = low
			}
			n := 0
			for n < len(all) && all[n].Place <= after {
				n++
			}
			want := flat(r, all)[len(flat(r, all[:n])):]
			equal(r, flat(r, b.read(after, all[len(all)-1].Place)), want)
		},
	})
}

// whole returns txs without an unfinished transaction at the end.
func whole(txs []*change.Tx) []*change.Tx {
	for len(txs) > 0 && txs[len(txs)-1].More {
		txs = txs[:len(txs)-1]
	}
	return txs
}
