package stream

import (
	"context"
	"strings"

	"github.com/tidemarkdb/tidemark/mysql/history"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// FindTx looks for the transaction with a GTID in the log: in the last file that does not name it
// among those of earlier files. It returns a place after it and before the next one, as the journal
// counts them; 0: it is not there. purged: no longer.
func (e *Source) FindTx(ctx context.Context, gtid string) (end uint64, purged bool, err error) {
	files, err := e.Binlogs(ctx)
	if err != nil {
		return 0, false, e.Fail("look for", gtid, err)
	}
	for i := len(files) - 1; i >= 0; i-- {
		before, err := e.before(ctx, files[i].Name)
		if err != nil {
			return 0, false, e.Fail("look for", gtid, err)
		}
		if before != nil && before(gtid) {
			purged = true // unless an earlier file has it
			continue
		}
		end, err = e.searchTx(ctx, files[i], gtid)
		if end > 0 || err != nil {
			return end, false, err
		}
		if before != nil {
			break
		}
	}
	return 0, purged, nil
}

// before returns a function that reports whether a transaction is in an earlier file of the log, as
// the first events of a file say; nil: GTIDs have a form that is unknown here.
func (e *Source) before(ctx context.Context, file string) (func(gtid string) bool, error) {
	rows, err := e.Ask(ctx, "SHOW BINLOG EVENTS IN "+server.Literal(file)+" LIMIT 4")
	if err != nil {
		return nil, err
	}
	text := ""
	for _, row := range rows {
		if kind := row[2]; kind == "Previous_gtids" || kind == "Gtid_list" {
			text = row[5]
		}
	}
	if e.MariaDB {
		last := lastOfEach(strings.Trim(text, "[]"))
		return func(gtid string) bool {
			origin, n := splitGTID(gtid)
			return n <= last[origin]
		}, nil
	}
	if has, err := among(text); err == nil {
		return has, nil
	}
	return nil, nil
}

// searchTx returns the place behind a transaction in a file of the log; 0 if the file lacks it.
func (e *Source) searchTx(ctx context.Context, f server.LogFile, gtid string) (end uint64, err error) {
	last, err := e.End(ctx)
	if err != nil {
		return 0, err
	}
	base, err := e.journalBase()
	if err != nil {
		return 0, err
	}
	s := e.newStream("", f.Name, uint64(f.Number)<<32|4)
	s.seek = &seeking{until: min(last-base, uint64(f.Number+1)<<32), heard: func(history.Statement, string) {}}
	found := false
	s.seek.begun = func(name string) {
		if found && end == 0 {
			end, s.seek.until = s.eventPlace, 0
		}
		found = found || name == gtid
	}
	if err := s.search(ctx); err != nil {
		return 0, err
	}
	if found && end == 0 {
		end = s.place()
	}
	if end > 0 {
		end += base
	}
	return end, nil
}
