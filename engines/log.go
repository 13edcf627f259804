package engines

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/internal/archive"
)

// LogOptions control how a log is opened.
type LogOptions struct {
	Retrieve string        // see wal.Options and binlog.Options; of files
	For      time.Duration // of servers: how long to follow what they write; 0: read the existing log
	From     string        // of servers: log positions as they write them; see tidemark.LogRange
	Until    string
	Engine   Options
}

// A Log is a database's log, ready for a scan.
type Log struct {
	ha.Log
	Engine  string // postgres, or mysql for a binlog of MySQL or MariaDB
	Grouped bool   // see ha.Options
	Live    bool   // a server sends it
	close   func() error
}

// Close ends the connection to a server.
func (l *Log) Close() error {
	if l.close == nil {
		return nil
	}
	return l.close()
}

// OpenLog opens the log of a server by its URL, or files and folders of one log. The kind of files
// is determined from the content of the first, or if it does not exist yet, from its name.
// postgres:PATH and mysql:PATH set it.
func OpenLog(ctx context.Context, paths []string, opt LogOptions) (*Log, error) {
	if strings.Contains(paths[0], "://") {
		return openServerLog(ctx, paths, opt)
	}
	if opt.For > 0 {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "scan", Object: paths[0], Err: errors.New("files cannot be followed"), Hint: "Give the URL of a server, or leave out --for."}
	}
	if opt.From != "" || opt.Until != "" {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "scan", Object: paths[0], Err: errors.New("files are scanned whole"), Hint: "Give only the files that are wanted, or the URL of a server, or leave out --from and --until."}
	}
	var of *Engine
	for i, p := range paths {
		scheme, rest, ok := strings.Cut(p, ":")
		if e := byName(engine.OfURL(scheme).Name); ok && e != nil && e.LogFiles != nil {
			of, paths[i] = e, rest
		}
	}
	if of == nil {
		of = byName(logEngine(paths[0]))
	}
	return of.LogFiles(paths, opt.Retrieve)
}

func openServerLog(ctx context.Context, paths []string, opt LogOptions) (*Log, error) {
	url := paths[0]
	if len(paths) > 1 || opt.Retrieve != "" {
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "scan", Object: tidemark.MaskURL(url), Err: errors.New("a server has one log, and it is read without a command"), Hint: "Give its URL alone, without --retrieve."}
	}
	e := byURL(url)
	switch {
	case e == nil:
		return nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "scan", Object: tidemark.MaskURL(url), Err: errors.New("no engine that has a log to scan"), Hint: "Give files of a log, or write " + urls(func(e *Engine) bool { return e.ServerLog != nil }) + "."}
	case e.ServerLog == nil:
		return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "scan", Object: tidemark.MaskURL(url), Err: errors.New("the log of " + e.servers() + " is not scanned")}
	}
	part, err := logRange(e, opt)
	if err != nil {
		return nil, err
	}
	return e.ServerLog(ctx, url, part, opt.Engine)
}

// logRange parses the positions in the options.
func logRange(e *Engine, opt LogOptions) (r tidemark.LogRange, err error) {
	r.For = opt.For
	for _, x := range []struct {
		text string
		at   *uint64
	}{{opt.From, &r.From}, {opt.Until, &r.Until}} {
		if x.text == "" {
			continue
		}
		var gtid string
		if *x.at, gtid, err = Place(e.Name, x.text); err != nil {
			return r, err
		}
		if gtid != "" {
			return r, &tidemark.Error{Kind: tidemark.Invalid, Op: "scan", Object: gtid, Err: errors.New("a scan does not support GTIDs"), Hint: "Give a file and offset, such as binlog.000003:1234."}
		}
	}
	return r, nil
}

// binlogName matches the names of binary logs, and of their index.
var binlogName = regexp.MustCompile(`\.(\d{6,10}|index)$`)

// logEngine reports which engine's log a file is, or a folder contains.
func logEngine(path string) string {
	if entries, err := os.ReadDir(path); err == nil {
		for _, e := range entries {
			if binlogName.MatchString(archive.Plain(e.Name())) {
				return engine.MySQL
			}
		}
		return engine.Postgres
	}
	if f, err := archive.Open(path); err == nil {
		defer f.Close()
		head := make([]byte, 4)
		if _, err := io.ReadFull(f, head); err == nil {
			if string(head) == "\xfebin" {
				return engine.MySQL
			}
			if head[1] == 0xD1 { // all magic numbers of PostgreSQL's pages from version 12 on
				return engine.Postgres
			}
		}
	}
	if binlogName.MatchString(archive.Plain(filepath.Base(path))) {
		return engine.MySQL
	}
	return engine.Postgres
}
