package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemarkdb/tidemark/flow"
)

// The request is stored in the metadata that Kafka keeps with the committed offset of a consumer
// group: the group has the topic's name and never has members. So no second topic is needed, and
// nothing has to be read to find the last text.

// Ask implements queue.Store, as does Asked.
func (s *Store) Ask(ctx context.Context, text []byte) error {
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var note kadm.Offsets
	note.Add(kadm.Offset{Topic: s.topic, At: 0, LeaderEpoch: -1, Metadata: string(text)})
	err := s.asks.admin.CommitAllOffsets(asked, s.topic, note)
	for errors.Is(err, kerr.CoordinatorNotAvailable) { // the servers create it when the first group appears
		if err = flow.Sleep(asked, 50*time.Millisecond); err == nil {
			err = s.asks.admin.CommitAllOffsets(asked, s.topic, note)
		}
	}
	return s.failAsking(ctx, "ask through", err)
}

func (s *Store) Asked(ctx context.Context) ([]byte, error) {
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := s.asks.admin.FetchOffsets(asked, s.topic)
	if err == nil {
		err = all.Error()
	}
	if noGroup(err) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failAsking(ctx, "look at", err)
	}
	if note, ok := all.Lookup(s.topic, 0); ok && note.Metadata != "" {
		return []byte(note.Metadata), nil
	}
	return nil, nil
}

// forget removes the group.
func (s *Store) forget(ctx context.Context) error {
	_, err := s.asks.admin.DeleteGroup(ctx, s.topic)
	if noGroup(err) {
		return nil
	}
	return s.failAsking(ctx, "remove", err)
}

// noGroup reports whether the servers do not know the group: if there never was a group, they have
// no group coordinator either.
func noGroup(err error) bool {
	return errors.Is(err, kerr.GroupIDNotFound) || errors.Is(err, kerr.CoordinatorNotAvailable)
}
