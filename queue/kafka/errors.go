package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemarkdb/tidemark"
)

// errReplaced means that the topic is not the one that was opened.
var errReplaced = errors.New("the topic was removed and created anew")

// unknown reports whether a server does not know the topic.
func unknown(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InconsistentTopicID)
}

func (s *Store) error(kind tidemark.Kind, op string, err error, hint string) error {
	return &tidemark.Error{Op: op, Object: s.Name(), Kind: kind, Hint: hint, Err: hidden{s.addr.hide(err.Error()), err}}
}

// A hidden is an error whose text contains no secret.
type hidden struct {
	text string
	is   error
}

func (h hidden) Error() string        { return h.text }
func (h hidden) Is(target error) bool { return errors.Is(h.is, target) }

// fail explains an error of the client or the servers.
func (s *Store) fail(ctx context.Context, op string, err error) error {
	var known *tidemark.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case denied(err):
		return s.error(tidemark.Denied, op, err, "")
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.TransactionalIDAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return s.error(tidemark.Forbidden, op, err, "The user needs Create, Read, Write, Delete, Describe and DescribeConfigs on the topic "+s.topic+", and Write and Describe on the transactional id of the same name.")
	case errors.Is(err, errReplaced), unknown(err):
		return s.error(tidemark.Lost, op, err, "The queue was removed while it was in use: restart it from the target's position with --from-target.")
	case errors.Is(err, errOffset), errors.Is(err, errForeign):
		return s.error(tidemark.Corrupt, op, err, "Nobody but this stream may write to the topic. --from-target restarts the queue from the target's position, if the source still has its log from there.")
	case errors.Is(err, errRecords):
		return s.error(tidemark.Corrupt, op, err, "Look at the disks of the Kafka servers.")
	case !passes(err):
		return s.error(tidemark.Invalid, op, err, "")
	}
	return s.error(tidemark.Transient, op, err, "")
}

// failAsking explains an error about the group.
func (s *Store) failAsking(ctx context.Context, op string, err error) error {
	if errors.Is(err, kerr.GroupAuthorizationFailed) {
		return s.error(tidemark.Forbidden, op, err, "The user needs Read and Delete on the group "+s.topic+".")
	}
	return s.fail(ctx, op, err)
}

// passes reports whether a retry may succeed, with a new writer if the error is one of a
// transaction.
func passes(err error) bool {
	var answer *kerr.Error
	if !errors.As(err, &answer) || answer.Retriable {
		return true
	}
	switch answer {
	case kerr.UnknownServerError, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping, kerr.UnknownProducerID, kerr.OutOfOrderSequenceNumber, kerr.TransactionAbortable:
		return true
	}
	return false
}

func denied(err error) bool {
	return errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kerr.UnsupportedSaslMechanism) || errors.Is(err, kerr.IllegalSaslState)
}

// connectFailed explains why there is no connection.
func (s *Store) connectFailed(err error) error {
	if denied(err) {
		return s.error(tidemark.Denied, "open", err, "")
	}
	return s.error(tidemark.Unreachable, "open", err, "")
}
