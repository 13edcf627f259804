package bulk

import (
	"cmp"
	"context"
	"errors"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// ofOneKey reports whether an error may be about one of several keys that a statement adds: the
// others are possible then.
func ofOneKey(e *server.Server, err error) bool {
	var my *gomysql.MyError
	if !errors.As(err, &my) {
		return false
	}
	switch kind, _ := e.KindOf(my); kind {
	case tidemark.Transient, tidemark.Full, tidemark.Forbidden, tidemark.Denied, tidemark.NotFound, tidemark.Lost:
		return false
	}
	return true
}

// eachKey adds keys one by one, and returns the first error. A key that exists is from before this
// was killed.
func eachKey(ctx context.Context, s *server.Session, keys []string) (first error) {
	for _, key := range keys {
		err := s.Exec(ctx, key)
		var my *gomysql.MyError
		switch is := errors.As(err, &my); {
		case err == nil || is && my.Code == gomysql.ER_DUP_KEYNAME:
		case !is || s.Dead:
			return err
		default:
			first = cmp.Or(first, err)
		}
	}
	return first
}
