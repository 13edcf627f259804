package jetstream

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
	"github.com/tidemarkdb/tidemark/queue"
)

// Codes of errors of JetStream (nats-server, server/errors.json).
const (
	codeStoreFailed    = 10077
	codeNoResources    = 10023
	codeStorageLimit   = 10047
	codeWrongSequence  = 10071
	codeWrongSequence2 = 10164
	codeNotEnabled     = 10076
	codeNotEnabledHere = 10039
	codeNoStream       = 10059
	codeNotReady       = 10008 // no leader yet, or no longer
	codeCreateFailed   = 10049
	codeIncomplete     = 10004 // of a request to all servers, before all have answered
)

func wrongSequence(e *jetstream.APIError) bool {
	return e.ErrorCode == codeWrongSequence || e.ErrorCode == codeWrongSequence2
}

// noStore reports whether a server could not create the files of a stream.
func noStore(err error) bool {
	api := answered(err)
	return api != nil && api.ErrorCode == codeCreateFailed
}

// answered returns the server's reason for refusing a request; nil if it has not refused it for
// good, because it is away or not ready yet.
func answered(err error) *jetstream.APIError {
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode == codeNotReady || api.ErrorCode == codeIncomplete {
		return nil
	}
	return api
}

// refused explains why a server has not stored a message.
func (s *Store) refused(e *jetstream.APIError) error {
	switch {
	case e.ErrorCode == codeStoreFailed && strings.Contains(e.Description, "maximum bytes"):
		return queue.ErrFull
	case e.ErrorCode == codeStoreFailed, e.ErrorCode == codeNoResources, e.ErrorCode == codeStorageLimit:
		cause := e.Description
		if s.embedded != nil {
			if text := s.embedded.log.last(); text != "" {
				cause = text
			}
		}
		return diskError("append to", s.Name(), errors.New(cause))
	}
	return s.error(tidemark.Refused, "append to", e, "Look at the log of the NATS server.")
}

// diskError returns an error of the file system.
func diskError(op, object string, err error) error {
	out := &tidemark.Error{Op: op, Object: object, Kind: tidemark.Invalid, Err: err}
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ENOSPC), strings.Contains(text, syscall.ENOSPC.Error()), strings.Contains(text, syscall.EFBIG.Error()), strings.Contains(text, syscall.EDQUOT.Error()):
		out.Kind, out.Hint = tidemark.Full, "Free space on the disk of the queue, then start again: nothing that was acknowledged is lost."
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EROFS):
		out.Kind, out.Hint = tidemark.Forbidden, "Give the user of this process the right to write there."
	default:
		out.Hint = plainfile.Hint(err, "Look at the disk of the queue.")
	}
	return out
}

func (s *Store) error(kind tidemark.Kind, op string, err error, hint string) error {
	return &tidemark.Error{Op: op, Object: s.Name(), Kind: kind, Hint: hint, Err: errors.New(s.opt.hide(err.Error()))}
}

// fail explains an error of the client. Transient: the server does not answer, or is not ready yet.
func (s *Store) fail(ctx context.Context, op string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	var code jetstream.ErrorCode
	api := answered(err)
	if api != nil {
		code = api.ErrorCode
	}
	switch {
	case code == codeNotEnabled, code == codeNotEnabledHere, errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return s.error(tidemark.Unsupported, op, err, "Switch JetStream on at the NATS server (jetstream { store_dir, sync_interval: always }).")
	case code == codeStoreFailed, code == codeNoResources, code == codeStorageLimit:
		return s.refused(api)
	case code == codeNoStream, errors.Is(err, jetstream.ErrStreamNotFound):
		return s.error(tidemark.Lost, op, err, "The queue was removed while it was in use: restart it from the target's position with --from-target.")
	case api != nil:
		return s.error(tidemark.Invalid, op, err, "")
	}
	if last := s.far.last(); final(last) {
		return last
	} else if cause := errors.Unwrap(last); cause != nil {
		err = cause // says more than that there was no answer
	}
	return s.error(tidemark.Transient, op, err, "")
}

// connectFailed explains why there is no connection.
func (s *Store) connectFailed(err error) error {
	var known *tidemark.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked), strings.Contains(strings.ToLower(err.Error()), "authorization"):
		return s.error(tidemark.Denied, "open", err, "")
	}
	return s.error(tidemark.Unreachable, "open", err, "")
}

// hide removes credentials from a text.
func (o *Options) hide(text string) string {
	for _, one := range strings.Split(o.URL, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.User == nil {
			continue
		}
		bare := *u
		bare.User = nil
		text = strings.ReplaceAll(text, strings.TrimSpace(one), bare.String())
		if p, ok := u.User.Password(); ok && p != "" {
			text = strings.ReplaceAll(text, p, "***")
		} else if name := u.User.Username(); name != "" { // then it is a token
			text = strings.ReplaceAll(text, name, "***")
		}
	}
	if o.Password != "" {
		text = strings.ReplaceAll(text, o.Password, "***")
	}
	return tidemark.MaskText(text)
}
