package mysql

import (
	"context"
	"strconv"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// LogKept reports how much of the binlog a stream has not read that would ask for it from a place on, and the age at
// which the server removes its files. MariaDB 11.4 and later may have a limit of their size.
func (e *Engine) LogKept(ctx context.Context, _ string, from uint64) (tidemark.LogKept, error) {
	k := tidemark.LogKept{Room: -1}
	base, err := e.base()
	if err != nil {
		return k, err
	}
	files, err := e.binlogs(ctx)
	if err != nil {
		return k, e.fail("look at the log", e.to.masked, err)
	}
	from -= min(base, from)
	var all int64
	for _, f := range files {
		switch all += int64(f.size); {
		case uint64(f.number) > from>>32:
			k.Bytes += int64(f.size)
		case uint64(f.number) == from>>32:
			k.Bytes += max(0, int64(f.size)-int64(uint32(from)))
		}
	}
	s, back, err := e.ordinary(ctx)
	if err != nil {
		return k, err
	}
	defer back()
	r, err := s.query(ctx, "SHOW GLOBAL VARIABLES WHERE variable_name IN ('binlog_expire_logs_seconds', 'expire_logs_days', 'binlog_expire_logs_auto_purge', 'max_binlog_total_size')")
	if err != nil {
		return k, e.fail("look at the log", e.to.masked, err)
	}
	set := map[string]string{}
	for i := range r.RowNumber() {
		set[cell(r, i, 0)] = cell(r, i, 1)
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
	return k, nil
}
