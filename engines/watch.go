package engines

import (
	"context"
	"errors"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/mysql"
	"github.com/tidemarkdb/tidemark/postgres"
)

var _ = []measure.Primary{(*postgres.Engine)(nil), (*mysql.Engine)(nil)}

// OpenPrimary opens a server whose standbys are watched. behind queries a replica of MySQL or
// MariaDB, if its URL is given, since their primaries do not know its position.
func OpenPrimary(ctx context.Context, url, replica string, opt Options) (p measure.Primary, behind func(context.Context) (float64, error), close func() error, err error) {
	e := byURL(url)
	switch {
	case e == nil:
		return nil, nil, nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "check", Object: tidemark.MaskURL(url), Err: errors.New("no engine whose standbys can be watched"), Hint: "Write " + urls(func(e *Engine) bool { return e.Primary != nil }) + "."}
	case e.Primary == nil:
		return nil, nil, nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "check", Object: tidemark.MaskURL(url), Err: errors.New("standbys of " + e.servers() + " are not watched")}
	}
	return e.Primary(ctx, url, replica, opt)
}
