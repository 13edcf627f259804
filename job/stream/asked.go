package stream

import (
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job/stream/figure"
	"github.com/tidemarkdb/tidemark/job/stream/point"
)

// The optional interfaces that a stream asks an open database for at run time, and who implements
// them: see the list of package job.
var (
	_ = []alterer{engines.Postgres{}}
	_ = []identified{engines.Postgres{}, engines.MySQL{}}
	_ = []point.Clocker{engines.Postgres{}, engines.MySQL{}}
	_ = []columnAdder{engines.Postgres{}, engines.MySQL{}}
	_ = []ddlLog{engines.Postgres{}}
	_ = []definer{engines.Postgres{}}
	_ = []emptier{engines.Postgres{}}
	_ = []ender{engines.Postgres{}, engines.MySQL{}}
	_ = []eventFinder{engines.MySQL{}}
	_ = []exceptionNoter{engines.Postgres{}, engines.MySQL{}}
	_ = []looker{engines.Postgres{}, engines.MySQL{}}
	_ = []figure.Monitored{engines.Postgres{}, engines.MySQL{}}
	_ = []progressSource{engines.Postgres{}, engines.MySQL{}}
	_ = []publisher{engines.Postgres{}}
	_ = []redoer{engines.MySQL{}}
	_ = []tableLister{engines.Postgres{}, engines.MySQL{}}

	_ = []truncater{(*engines.PostgresStream)(nil)}
)
