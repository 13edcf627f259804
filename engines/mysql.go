package engines

import (
	"context"
	neturl "net/url"
	"regexp"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/capture"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/mysql"
	"github.com/tidemarkdb/tidemark/mysql/binlog"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

var mysqlEngine = Engine{
	Name:    engine.MySQL,
	Open:    openMySQL,
	Types:   mysqlTypes,
	Dialect: func(_, _ *tidemark.Database, across bool) define.Dialect { return &schema.Definitions{Across: across} },
	Place: func(text string) (place uint64, gtid string, err error) {
		if gtid = strings.ToLower(text); gtids.MatchString(gtid) {
			return 0, gtid, nil
		}
		place, err = server.ParsePlace(text)
		return place, "", err
	},
	LogFiles: func(paths []string, retrieve string) (*Log, error) {
		f, err := binlog.Open(paths, binlog.Options{Retrieve: retrieve})
		return &Log{Log: f, Engine: engine.MySQL, Grouped: true}, err
	},
	ServerLog: func(ctx context.Context, url string, part tidemark.LogRange, opt Options) (*Log, error) {
		e, err := mysql.Open(ctx, url, opt.MySQL)
		if err != nil {
			return nil, err
		}
		return &Log{Log: e.ScanLog(part), Engine: engine.MySQL, Grouped: true, Live: true, close: e.Close}, nil
	},
	Primary: mysqlPrimary,
	Logical: true,
}

var gtids = regexp.MustCompile(`^(\d+-\d+-\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:(\w+:)?\d+)$`)

// my is an open database of MySQL or MariaDB.
type my struct {
	*mysql.Engine
	db string
}

func openMySQL(ctx context.Context, url string, opt Options) (Database, error) {
	e, err := mysql.Open(ctx, url, opt.MySQL)
	if err != nil {
		return nil, err
	}
	return my{e, database(url)}, nil
}

// database returns the database that a URL names.
func database(raw string) string {
	u, err := neturl.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(u.Path, "/")
}

func mysqlTypes() TypeMap {
	m := TypeMap{Title: "PostgreSQL and Db2 to MySQL and MariaDB"}
	for _, r := range schema.TypeMap() {
		m.Rules = append(m.Rules, TypeRule{r.From, r.To, r.Loses})
	}
	return m
}

func mysqlPrimary(ctx context.Context, url, replica string, opt Options) (p measure.Primary, behind func(context.Context) (float64, error), close func() error, err error) {
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

func (e my) Default() string { return e.db }

// DatesAsWritten makes Read emit dates such as 0000-00-00 unchanged, whatever Options.ZeroDates
// says. Call it before Read.
func (e my) DatesAsWritten() { e.Engine.Bulk.KeepDates.Store(true) }

func (e my) Defined(ctx context.Context, names []tidemark.TableID) (*tidemark.Database, error) {
	return e.Describe(ctx, among(names))
}

func (e my) Follow(ctx context.Context, stream string, _ []tidemark.Move, after uint64) (capture.Stream, error) {
	return streamOf(e.Engine.Follow(ctx, stream, after))
}

func (e my) SourceNeeds(ctx context.Context, stream string, moves []tidemark.Move) ([]tidemark.Need, error) {
	source := &tidemark.Database{}
	for i := range moves {
		source.Tables = append(source.Tables, moves[i].From)
	}
	return e.Engine.SourceNeeds(ctx, stream, source)
}

func (e my) TargetNeeds(ctx context.Context, stream string, _ []tidemark.Move, have *tidemark.Database) ([]tidemark.Need, error) {
	return e.Engine.TargetNeeds(ctx, stream, have)
}

func (e my) LargestValue(ctx context.Context, _ bool) (most int64, remedy string, err error) {
	most, err = e.LargestPacket(ctx)
	return most - 1<<10, "SET GLOBAL max_allowed_packet = 1073741824 on the target.", err
}

func (e my) Repair(ctx context.Context) (diff.Repairer, error) {
	return repairer(e.Engine.Repair(ctx))
}

func (e my) Look(ctx context.Context, l Lock) (s Sight, err error) {
	s.MySQL, err = server.Look(ctx, e.Server, l.Name)
	return s, err
}

// Identity distinguishes servers, as that of a PostgreSQL database does.
func (e my) Identity(ctx context.Context) (string, error) { return server.Identity(ctx, e.Server) }

func (e my) relate(ctx context.Context, other Looker) (k tidemark.Kinship, lower bool, err error) {
	return e.Relate(ctx, func(ctx context.Context, name string) (server.Sight, error) {
		s, err := other.Look(ctx, Lock{Name: name})
		return s.MySQL, err
	})
}
