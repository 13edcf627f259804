package queue

import (
	"context"
	"errors"
)

// A Store keeps messages under numbers that rise by one from 1. One Log writes to it, any number
// read it. Its methods may be called concurrently.
//
// Its errors are of type *tidemark.Error, except those below.
type Store interface {
	// Name returns the name of the queue for messages to people. It contains no secret.
	Name() string
	// Put stores messages under first and the numbers that follow, if first is after the last one.
	// It returns how many of them are stored durably: all, if there is no error. The others will
	// not be stored later. ErrFull and ErrFenced.
	Put(ctx context.Context, first uint64, messages [][]byte) (int, error)
	// Get returns a message, which must not be modified. ErrMissing.
	Get(ctx context.Context, seq uint64) ([]byte, error)
	// Wait returns the number of the last message: as soon as the one numbered seq exists, or after
	// a while, so that the caller can check other things.
	Wait(ctx context.Context, seq uint64) (last uint64, err error)
	// Purge removes all messages before the one numbered seq.
	Purge(ctx context.Context, seq uint64) error
	State(ctx context.Context) (State, error)
	// Ask leaves a text of up to 4,000 bytes beside the messages, replacing an earlier one; Asked
	// returns it, nil if there is none.
	Ask(ctx context.Context, text []byte) error
	Asked(ctx context.Context) ([]byte, error)
	Close() error
}

// State is what a Store holds.
type State struct {
	// First is the number of the first message, Last that of the last one ever put. There are none
	// if First > Last.
	First, Last uint64
	Bytes       int64
	Limit       int64 // bytes that it can hold
	MaxMessage  int   // size of the largest message that it accepts
}

// Errors of a Store.
var (
	ErrFull    = errors.New("the queue is full")
	ErrFenced  = errors.New("another process writes to the queue")
	ErrMissing = errors.New("there is no such message")
)
