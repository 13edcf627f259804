package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// What is asked stands where Kafka keeps a note beside an offset that a group of consumers has
// reached: the group has the topic's name, and nobody is ever in it. So it takes no second
// topic, and nothing has to be read to find the last text.

// Ask implements queue.Store, as does Asked.
func (s *Store) Ask(ctx context.Context, text []byte) error {
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var note kadm.Offsets
	note.Add(kadm.Offset{Topic: s.topic, At: 0, LeaderEpoch: -1, Metadata: string(text)})
	return s.failAsking(ctx, "ask through", s.asks.admin.CommitAllOffsets(asked, s.topic, note))
}

func (s *Store) Asked(ctx context.Context) ([]byte, error) {
	asked, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := s.asks.admin.FetchOffsets(asked, s.topic)
	if err == nil {
		err = all.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
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
	if errors.Is(err, kerr.GroupIDNotFound) || errors.Is(err, kerr.CoordinatorNotAvailable) { // without any group there is no coordinator
		return nil
	}
	return s.failAsking(ctx, "remove", err)
}
