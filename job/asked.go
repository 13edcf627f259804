package job

import (
	"context"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/dump"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/load"
)

// What a job asks an open database for at run time. Who can do it stands here, so that an engine that stops to do it
// stops the build, and not a user later; what verbs ask for stands in engines.
var (
	_ = []follower{engines.Postgres{}, engines.MySQL{}}
	_ = []spacer{engines.Postgres{}}
	_ = []versioner{engines.Postgres{}, engines.MySQL{}}
	_ = []waiter{engines.Postgres{}}

	_ = []load.Keeper{(*dump.Source)(nil)}
	_ = []load.Worker{(*dump.Writer)(nil)}
	_ = []load.Shrinker{(*copying)(nil)}
)

// A spacer knows which tables lie in tablespaces.
type spacer interface {
	InTablespaces(ctx context.Context, names []string) ([]tidemark.TableID, error)
}

// A versioner says which version its server has.
type versioner interface{ Version() string }
