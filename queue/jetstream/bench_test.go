package jetstream

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/queue"
)

// BenchmarkQueue measures one Append of a transaction of so many bytes, each durable when the next
// begins, compared with a write of as many bytes and an fsync; and reading them.
func BenchmarkQueue(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 256 << 10, 1000 << 10} {
		b.Run(fmt.Sprintf("raw/%dKB", size>>10), func(b *testing.B) {
			f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			text := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				if _, err := f.Write(text); err != nil {
					b.Fatal(err)
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		})
		l := openLog(b, open(b, Options{Queue: "q", Dir: b.TempDir(), Limit: 100 << 30}), queue.Options{})
		if _, _, err := l.Begin(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
		place := uint64(0)
		b.Run(fmt.Sprintf("append/%dKB", size>>10), func(b *testing.B) {
			tx := insertAt(1, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				place++
				tx.Place, tx.End = place, place+1
				if err := l.Append(b.Context(), []*change.Tx{tx}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("read/%dKB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			n := 0
			for n < b.N {
				err := l.Read(b.Context(), 0, func(tx *change.Tx) error {
					if !tx.More {
						n++
					}
					if n == b.N || tx.Place == place {
						return errEnough
					}
					return nil
				})
				if err != errEnough {
					b.Fatal(err)
				}
			}
		})
		l.Close()
	}
}

// BenchmarkThrough measures how long a small transaction takes from Append to a waiting reader.
func BenchmarkThrough(b *testing.B) {
	l := openLog(b, open(b, Options{Queue: "q", Dir: b.TempDir(), Limit: 10 << 30}), queue.Options{})
	if _, _, err := l.Begin(b.Context(), 1); err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	got, done := make(chan uint64), make(chan error, 1)
	go func() {
		done <- l.Read(ctx, 0, func(tx *change.Tx) error {
			got <- tx.Place
			return nil
		})
	}()
	place := uint64(0)
	for b.Loop() {
		place++
		if err := l.Append(b.Context(), []*change.Tx{insertAt(place, 1500)}); err != nil {
			b.Fatal(err)
		}
		if at := <-got; at != place {
			b.Fatalf("%d came instead of %d", at, place)
		}
	}
	stop()
	<-done
}
