package stream

import (
	"context"
	"strconv"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// LogKept reports how much unread binlog a stream that continues at from would have, and the age at
// which the server removes its files. MariaDB 11.4 and later may also limit their size.
func (e *Source) LogKept(ctx context.Context, _ string, from uint64) (tidemark.LogKept, error) {
	k := tidemark.LogKept{Room: -1}
	base, err := e.Base()
	if err != nil {
		return k, err
	}
	files, err := e.Binlogs(ctx)
	if err != nil {
		return k, e.Fail("look at the log", e.Masked, err)
	}
	from -= min(base, from)
	var all int64
	for _, f := range files {
		switch all += int64(f.Size); {
		case uint64(f.Number) > from>>32:
			k.Bytes += int64(f.Size)
		case uint64(f.Number) == from>>32:
			k.Bytes += max(0, int64(f.Size)-int64(uint32(from)))
		}
	}
	s, back, err := e.Lend(ctx)
	if err != nil {
		return k, err
	}
	defer back()
	r, err := s.Query(ctx, "SHOW GLOBAL VARIABLES WHERE variable_name IN ('binlog_expire_logs_seconds', 'expire_logs_days', 'binlog_expire_logs_auto_purge', 'max_binlog_total_size')")
	if err != nil {
		return k, e.Fail("look at the log", e.Masked, err)
	}
	set := map[string]string{}
	for i := range r.RowNumber() {
		set[server.Cell(r, i, 0)] = server.Cell(r, i, 1)
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseFloat(set[name], 64) // days have fractions; 0 if the server has no such variable
		return int64(n * 1000)
	}
	if set["binlog_expire_logs_auto_purge"] != "OFF" {
		k.Expiry = time.Duration(max(number("binlog_expire_logs_seconds"), number("expire_logs_days")*86400)) * time.Millisecond
	}
	if limit := number("max_binlog_total_size") / 1000; limit > 0 {
		k.Room = max(0, limit-all)
	}
	return k, e.oldestOpen(ctx, s, &k)
}
