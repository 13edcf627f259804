package queuetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/queue"
)

func fences(b *bench) {
	s := newSource(11)
	txs := s.some(3)
	b.append(txs...)
	other, err := queue.New(b.ctx, b.store, b.opt)
	if err != nil {
		b.Fatal(err)
	}
	if place, _, err := other.Begin(b.ctx, 0); err != nil || place != s.place {
		b.Fatalf("the other begins behind %d, %v", place, err)
	}
	s.restart()
	more := s.some(3)
	if err := other.Append(b.ctx, keep(more)); err != nil {
		b.Fatal(err)
	}
	b.wantKind(b.log.Append(b.ctx, keep(more)), tidemark.Lost, "another process writes to the queue")
	equal(b, flat(b, b.read(0, s.place)), flat(b, append(txs, more...)))
	if place, _ := b.begin(); place != s.place {
		b.Fatalf("the first begins again behind %d, not %d", place, s.place)
	}
	s.restart()
	b.append(s.some(1)...)
	b.wantKind(other.Append(b.ctx, keep(s.some(1))), tidemark.Lost, "another process writes to the queue")
}

// strangers: a log of another stream neither reads, continues nor trims what is there; a log that
// does not say whose it is does all of that, and what it appends stays the first one's.
func strangers(b *bench) {
	s := newSource(15)
	txs := s.some(20)
	b.log.Of(7)
	b.begin()
	b.append(txs...)
	other, err := queue.New(b.ctx, b.store, b.opt)
	if err != nil {
		b.Fatal(err)
	}
	other.Of(8)
	before, err := b.log.Stats(b.ctx)
	if err != nil {
		b.Fatal(err)
	}
	const text = "messages of another stream"
	b.wantKind(other.Read(b.ctx, 0, func(*change.Tx) error { b.Fatal("it reads"); return nil }), tidemark.NotEmpty, text)
	b.wantKind(other.Read(b.ctx, txs[0].Place, func(*change.Tx) error { b.Fatal("it reads"); return nil }), tidemark.NotEmpty, text)
	b.wantKind(other.Trim(b.ctx, s.place+1), tidemark.NotEmpty, text)
	_, _, err = other.Begin(b.ctx, 0)
	b.wantKind(err, tidemark.NotEmpty, text)
	_, err = other.Stats(b.ctx)
	b.wantKind(err, tidemark.NotEmpty, text)
	if after, err := b.log.Stats(b.ctx); err != nil || after.Messages != before.Messages || after.First != before.First {
		b.Fatalf("before %+v, now %+v, %v", before, after, err)
	}

	other.Of(0)
	if place, _, err := other.Begin(b.ctx, 0); err != nil || place != s.place {
		b.Fatalf("it begins behind %d, %v", place, err)
	}
	s.restart()
	more := s.some(3)
	if err := other.Append(b.ctx, keep(more)); err != nil {
		b.Fatal(err)
	}
	equal(b, flat(b, b.read(0, s.place)), flat(b, append(txs, more...)))
}

// onItsWay: messages of a killed writer arrive after the next one has begun. That one begins again
// after them, and only then would the other be fenced, if it were alive.
func onItsWay(b *bench) {
	s := newSource(14)
	txs := s.some(3)
	b.append(txs...)
	next, err := queue.New(b.ctx, b.store, b.opt)
	if err != nil {
		b.Fatal(err)
	}
	begins := func(place uint64) {
		b.Helper()
		if got, _, err := next.Begin(b.ctx, 0); err != nil || got != place {
			b.Fatalf("it begins behind %d, not %d: %v", got, place, err)
		}
		s.restart()
	}
	for range 2 {
		begins(s.place)
		late := s.some(2)
		b.append(late...)
		txs = append(txs, late...)
		b.wantKind(next.Append(b.ctx, keep(late)), tidemark.Transient, "there is more in it than when this capture began")
	}
	begins(s.place)
	more := s.some(3)
	if err := next.Append(b.ctx, keep(more)); err != nil {
		b.Fatal(err)
	}
	b.wantKind(b.log.Append(b.ctx, keep(more)), tidemark.Lost, "another process writes to the queue")
	equal(b, flat(b, b.read(0, s.place)), flat(b, append(txs, more...)))
}

// cancelled: an Append is cancelled midway, again and again, by a writer that begins again at once.
func cancelled(b *bench) {
	s := newSource(15)
	var txs []*change.Tx
	for i := range 30 {
		last := s.place
		more := s.some(20)
		ctx, cancel := context.WithTimeout(b.ctx, time.Duration(i)*100*time.Microsecond)
		err := b.log.Append(ctx, keep(more))
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			b.Fatal(err)
		}
		if len(txs) == 0 {
			last = 0
		}
		place, _ := b.begin()
		if err == nil && place != s.place || place < last {
			b.Fatalf("after %v the log continues after %d; it ended at %d and got up to %d", err, place, last, s.place)
		}
		for _, tx := range more {
			if tx.Place <= place {
				txs = append(txs, tx)
			}
		}
		s.place = place
		s.restart()
	}
	b.append(s.some(5)...)
	got := flat(b, b.read(0, s.place))
	equal(b, got[:len(flat(b, txs))], flat(b, txs))
}

func givenUp(b *bench) {
	s := newSource(12)
	txs := s.some(5)
	b.append(txs...)
	large := s.next(6, 10, 2000) // about 10 KB each
	b.append(large[:4]...)

	// A concurrent reader has got the first pieces.
	reached, done := make(chan struct{}), make(chan error, 1)
	go func() {
		pieces := 0
		done <- b.log.Read(b.ctx, txs[len(txs)-1].Place, func(tx *change.Tx) error {
			if pieces++; pieces == 4 {
				close(reached)
			}
			return nil
		})
	}()
	select {
	case <-reached:
	case err := <-done:
		b.Fatalf("the read ended: %v", err)
	}
	if place, _ := b.begin(); place != txs[len(txs)-1].Place {
		b.Fatalf("amid a transaction the last is said to be at %d", place)
	}
	s.restart()
	large[0].Changes = append(s.describe(), large[0].Changes...)
	b.append(large[:2]...)
	b.wantKind(<-done, tidemark.Transient, "restarted a transaction")

	// Once more, and this time whole, after a transaction that was not there before.
	b.begin()
	s.restart()
	place := s.place
	s.place = txs[len(txs)-1].Place
	early := s.next(1, 1, 5)
	early[0].Place, s.place = txs[len(txs)-1].Place+1, place
	b.append(early...)
	b.append(large...)
	more := s.some(5)
	b.append(more...)
	want := append(append(append(txs[:len(txs):len(txs)], early...), large...), more...)
	equal(b, flat(b, b.read(0, s.place)), flat(b, want))
	equal(b, flat(b, b.read(early[0].Place, s.place)), flat(b, want)[len(flat(b, txs))+1:])

	// The abandoned pieces are trimmed with what was before them.
	if err := b.log.Trim(b.ctx, early[0].Place); err != nil {
		b.Fatal(err)
	}
	equal(b, flat(b, b.read(early[0].Place, s.place)), flat(b, want)[len(flat(b, txs))+1:])
}

// asks leaves texts beside the messages; each replaces the one before.
func asks(b *bench) {
	s := newSource(12)
	txs := s.some(20)
	b.append(txs...)
	for _, text := range []string{"", "one", strings.Repeat("long", 1000), "[]"} {
		if text != "" {
			if err := b.log.Ask(b.ctx, []byte(text)); err != nil {
				b.Fatal(err)
			}
		}
		for range 2 {
			if got, err := b.log.Asked(b.ctx); err != nil || string(got) != text {
				b.Fatalf("%d bytes were left, and %d are there: %v", len(text), len(got), err)
			}
			b.reopen()
		}
	}
	b.begin()
	s.restart()
	more := s.some(20)
	b.append(more...)
	equal(b, flat(b, b.read(0, s.place)), flat(b, append(txs, more...)))
}
