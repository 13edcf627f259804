// Package figure is the one table of the figures of a stream: what each is called for Prometheus,
// and in the monitor tables, what it means, and its value in a sample. A new figure is a field of
// sampled.Status, its value there, and a row of the table.
//
// Columns of monitor tables have the names of IBMQREP_APPLYMON, CAPMON and CAPQMON if they mean the
// same; latencies are in milliseconds there, counters start with the process.
package figure

import (
	"context"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/job/sampled"
)

// A Figure is a row of the table.
type Figure struct {
	Metric string // its name for Prometheus, without a prefix: of a counter it ends with _total; "": it is none
	// Apply, Capture and Queue are its columns of the monitor tables; "": it has none there.
	Apply, Capture, Queue string
	Help                  string
	Milli                 bool // the value is in milliseconds, and the metric in seconds
	value                 func(s *sampled.Status) any
}

// Metrics are the figures that Prometheus gets.
func Metrics() (out []Figure) {
	for _, f := range all {
		if f.Metric != "" {
			out = append(out, f)
		}
	}
	return out
}

// Counter reports whether its metric only grows.
func (f Figure) Counter() bool { return strings.HasSuffix(f.Metric, "_total") }

// Of returns the value in a sample: a time, an int64, a float64, or a text.
func (f Figure) Of(s *sampled.Status) any {
	switch v := f.value(s).(type) {
	case bool:
		if v {
			return int64(1)
		}
		return int64(0)
	case int:
		return int64(v)
	case uint64:
		return int64(v)
	case sampled.State:
		return string(v)
	default:
		return v
	}
}

// What a sample says of the process that took it, if that does half of the stream.
const (
	capture = "capture"
	apply   = "apply"
)

// tables are the monitor tables.
var tables = []struct {
	name, help string
	of         func(s *sampled.Status, queued bool) bool
	column     func(f *Figure) string
}{
	{"applymon", "The apply side (IBMQREP_APPLYMON). Written by `replicate` and `apply`.", func(s *sampled.Status, _ bool) bool { return s.Half != capture }, func(f *Figure) string { return f.Apply }},
	{"capmon", "The capture side (IBMQREP_CAPMON). Written by `replicate` and, with `--monitor-to`, `capture`.", func(s *sampled.Status, _ bool) bool { return s.Half != apply }, func(f *Figure) string { return f.Capture }},
	{"capqmon", "The durable queue between them (IBMQREP_CAPQMON). Written by the same commands, if there is one.", func(s *sampled.Status, queued bool) bool { return s.Half != apply && queued }, func(f *Figure) string { return f.Queue }},
}

// A Table is one that --monitor-tables writes, as the manual describes it.
type Table struct {
	Name, Help string
	Columns    []Column
}

// A Column is one of its columns: Kind is time, whole number, number or text.
type Column struct{ Name, Kind, Help string }

// Tables are all of them, in order.
func Tables() (out []Table) {
	for _, t := range tables {
		x := Table{Name: t.name, Help: t.help}
		for _, f := range all {
			name, kind := t.column(&f), "text"
			if name == "" {
				continue
			}
			switch f.Of(&sampled.Status{}).(type) {
			case time.Time:
				kind = "time"
			case int64:
				kind = "whole number"
			case float64:
				kind = "number"
			}
			help := f.Help
			if f.Milli {
				help = strings.TrimSuffix(help, ".") + ", in milliseconds."
			}
			x.Columns = append(x.Columns, Column{name, kind, help})
		}
		out = append(out, x)
	}
	return out
}

// A Row is one of a monitor table.
type Row struct {
	Table   string
	Columns []tidemark.Measure
}

// A Monitored is a database that can hold monitor tables.
type Monitored interface {
	Monitor(ctx context.Context, table string, row []tidemark.Measure) error
}

// Put adds rows to the monitor tables.
func Put(ctx context.Context, m Monitored, rows []Row) error {
	for _, r := range rows {
		if err := m.Monitor(ctx, r.Table, r.Columns); err != nil {
			return err
		}
	}
	return nil
}

// Rows are those of a sample, of a stream with a durable queue or without.
func Rows(s sampled.Status, queued bool) (rows []Row) {
	for _, t := range tables {
		if !t.of(&s, queued) {
			continue
		}
		r := Row{Table: t.name}
		for _, f := range all {
			if name := t.column(&f); name != "" {
				r.Columns = append(r.Columns, tidemark.Measure{Name: name, Value: f.Of(&s)})
			}
		}
		rows = append(rows, r)
	}
	return rows
}
