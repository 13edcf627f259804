package queue

import (
	"context"
	"errors"
)

// A Store keeps messages under numbers that rise by one from 1. One Log writes to it,
// any number of them read. Its methods may be called at once.
//
// Its errors are of type *tidemark.Error, but for those below.
type Store interface {
	// Name of the queue, for messages to people. It holds no secret.
	Name() string
	// Put stores messages under first and the numbers that follow, if first is behind the
	// last one. It gives how many of them are stored, durably: all, if there is no error. Those
	// that are not stored now will not be later. ErrFull and ErrFenced.
	Put(ctx context.Context, first uint64, messages [][]byte) (int, error)
	// Get gives a message, which nobody changes. ErrMissing.
	Get(ctx context.Context, seq uint64) ([]byte, error)
	// Wait gives the number of the last message: as soon as there is the one numbered seq,
	// or after a while, when it may be worth while to look for something else.
	Wait(ctx context.Context, seq uint64) (last uint64, err error)
	// Purge forgets all messages before the one numbered seq.
	Purge(ctx context.Context, seq uint64) error
	State(ctx context.Context) (State, error)
	// Ask leaves a text of up to 4,000 bytes beside the messages, in place of the one before,
	// and Asked gives it; nil: there is none.
	Ask(ctx context.Context, text []byte) error
	Asked(ctx context.Context) ([]byte, error)
	Close() error
}

// State is what a Store holds.
type State struct {
	// First is the number of the first message, Last that of the last one that was ever
	// put. There are none if First > Last.
	First, Last uint64
	Bytes       int64
	Limit       int64 // bytes that it can hold
	MaxMessage  int   // bytes of the largest message that it takes
}

// Errors of a Store.
var (
	ErrFull    = errors.New("the queue is full")
	ErrFenced  = errors.New("somebody else writes to the queue")
	ErrMissing = errors.New("there is no such message")
)
