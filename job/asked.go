package job

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/dump"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/sample"
)

// The optional interfaces that a job asks an open database for at run time. The assertions below
// name the engines that implement them, so that an engine that loses one breaks the build and not a
// user's run. What verbs ask for is in package engines.
var (
	_ = []dateKeeper{engines.MySQL{}}
	_ = []fencer{engines.Postgres{}}
	_ = []Finder{engines.Postgres{}, engines.MySQL{}}
	_ = []follower{engines.Postgres{}, engines.MySQL{}}
	_ = []spacer{engines.Postgres{}}
	_ = []versioner{engines.Postgres{}, engines.MySQL{}}
	_ = []waiter{engines.Postgres{}}
	_ = []sample.Server{engines.Postgres{}, engines.MySQL{}}
	_ = []sample.Watcher{engines.Postgres{}}

	_ = []load.FormatHolder{(*dump.Source)(nil)}
	_ = []load.SelfTimedTarget{(*dump.Writer)(nil)}
	_ = []load.Shrinker{(*copying)(nil)}
)

// A spacer knows which tables lie in tablespaces.
type spacer interface {
	InTablespaces(ctx context.Context, names []string) ([]tidemark.TableID, error)
}

// A dateKeeper can read dates such as 0000-00-00 unchanged, for a comparison.
type dateKeeper interface{ DatesAsWritten() }

// A versioner says which version its server has.
type versioner interface{ Version() string }
