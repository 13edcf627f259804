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
	switch FamilyOf(url) {
	case "postgres":
		if replica != "" {
			return nil, nil, nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "check", Object: tidemark.MaskURL(replica), Err: errors.New("a PostgreSQL primary reports the positions of its standbys itself"), Hint: "Leave out --replica."}
		}
		e, err := postgres.Open(ctx, url, opt.Postgres)
		if err != nil {
			return nil, nil, nil, err
		}
		return e, nil, e.Close, nil
	case "mysql":
		e, err := mysql.Open(ctx, url, opt.MySQL)
		if err != nil {
			return nil, nil, nil, err
		}
		if replica == "" {
			return e, nil, e.Close, nil
		}
		r, err := mysql.Open(ctx, replica, opt.MySQL)
		if err != nil {
			_ = e.Close() // the error concerns the replica
			return nil, nil, nil, err
		}
		return e, r.Behind, func() error { _ = r.Close(); return e.Close() }, nil
	}
	return nil, nil, nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "check", Object: tidemark.MaskURL(url), Err: errors.New("no engine whose standbys can be watched"), Hint: "Write postgres://user@host/db, mysql://user@host or mariadb://user@host."}
}
