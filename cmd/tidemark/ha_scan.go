package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/ha"
)

// scanOptions are the options of ha scan.
type scanOptions struct {
	sitesOptions
	engineOptions
	outputOptions
	interval time.Duration // --interval 60s: bursts are seen, and a day has 1440 lines; -1 is a file
	from     string        // --from; none: the first that the server still has
	until    string        // --until; none: where the log ends now
	lookOn   time.Duration // --for 0s: what there is
	syncs    int64         // --syncs 0: not known
	retrieve string        // --retrieve; none: files are opened as they are
	info     infoLevel     // --info-level rate: what a calculation needs
	trans    transLevel    // --trans-level summary, as --info-level
}

func (o *scanOptions) own() option.Table {
	return option.Table{
		option.New("interval", "duration", "60s", "Time covered by one line of rates. From 1ms; a number alone is seconds; 0: one line per file.", option.Parsed(&o.interval, scanInterval)).CommonTo("ha-scan"),
		option.New("from", "text", "", "For a server: start at this LSN or FILE:OFFSET. Default: at the oldest that it still has.", option.Text(&o.from)).CommonTo("ha-scan"),
		option.New("until", "text", "", "For a server: stop at this LSN or FILE:OFFSET. If it does not exist yet, the scan waits for it; default: where the log ends now.", option.Text(&o.until)).CommonTo("ha-scan"),
		option.New("for", "duration", "0s", "For a server: how long to follow it; 0: read what it has.", option.Duration(&o.lookOn)).CommonTo("ha-scan"),
		option.New("syncs", "number", "0", "How often the server synced its log while it wrote what is scanned (PostgreSQL: wal_sync in pg_stat_wal, from 18 on fsyncs in pg_stat_io): flushes that are not visible in the log are then estimated to match; 0: not known.", option.Number64(&o.syncs)),
		option.New("retrieve", "text", "", "Run this shell command, with the file's name appended, before each file is opened: it may fetch, unpack or decrypt it.", option.Text(&o.retrieve)),
		option.New("info-level", "rate|file|flush|record", "rate", "How much to print. rate: rates per interval; file adds each file; flush adds each flush; record adds each record.", option.Word(&o.info, map[string]infoLevel{"rate": rateLevel, "file": fileLevel, "flush": flushLevel, "record": recordLevel})).CommonTo("ha-scan"),
		option.New("trans-level", "summary|open|all", "summary", "How much to print about transactions: totals; plus those open at the end; plus each begin and end.", option.Word(&o.trans, map[string]transLevel{"summary": summaryLevel, "open": openLevel, "all": allLevel})),
	}.In(option.Inputs)
}

func (o *scanOptions) Table() option.Table {
	return option.Join(o.sitesOptions.table(), o.engineOptions.table(), o.outputOptions.table(), o.own())
}

// An infoLevel is how much of the log a scan prints; each includes those before.
type infoLevel int

const (
	rateLevel infoLevel = iota
	fileLevel
	flushLevel
	recordLevel
)

// A transLevel is how much it prints about transactions.
type transLevel int

const (
	summaryLevel transLevel = iota
	openLevel
	allLevel
)

func haScanCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scan LOG...",
		Short: "Show what a log tells about the workload that wrote it",
		Long: `Read a database's log and describe the workload: its rate over intervals, the sizes of
flushes, transactions and records, how long transactions are and how many are open, and how
much of it belongs to which table.

LOG is files or folders of PostgreSQL WAL (pg_wal, an archive), of binary logs of MySQL or
MariaDB, or the URL of a server, which then sends its log. File types are detected from their
contents; files may be compressed with gzip, zstd, lz4 or bzip2. The printed text has the form
of Db2's db2logscan; ha calculate reads it.`,
		Example: `  tidemark ha scan /var/lib/postgresql/15/main/pg_wal > daily.scan
  tidemark ha scan /archive/0000000100000012* --interval 10s --json > daily.json
  tidemark ha scan /var/lib/mysql/mysql-bin.0000*
  tidemark ha scan postgres://me@db/postgres --for 10m
  tidemark ha scan 000000010000000000000042 --retrieve 'restic dump latest --target .'`,
		Args: args(1, math.MaxInt, "ha scan LOG..."),
	}
	read := flagsAs[scanOptions](cmd, "ha-scan")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		return o.scan(cmd, given)
	}
	return cmd
}

func (o *scanOptions) scan(cmd *cobra.Command, given []string) error {
	if o.json && (o.info > fileLevel || o.trans > summaryLevel) {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "scan", Err: errors.New("flushes, records and transactions cannot be listed as JSON"), Hint: "Leave out --json, --info-level or --trans-level."}
	}
	begun := time.Now()
	for i := range given {
		var err error
		if given[i], err = o.login(given[i]); err != nil {
			return err
		}
	}
	log, err := engines.OpenLog(cmd.Context(), given, engines.LogOptions{Retrieve: o.retrieve, For: o.lookOn, From: o.from, Until: o.until, Engine: o.engineOptions.engine})
	if err != nil {
		return err
	}
	defer log.Close()
	opt := ha.Options{Interval: o.interval, Grouped: log.Grouped, Syncs: o.syncs, Counted: log.Live, Disk: o.disk}
	out := bufio.NewWriter(cmd.OutOrStdout())
	l := listing{out: out, info: o.info, trans: o.trans, engine: log.Engine}
	opt.Trace = l.trace()
	opt.Files = o.info >= fileLevel
	p, err := ha.Scan(cmd.Context(), &watched{log: log, list: &l, progress: o.scanProgress(cmd.ErrOrStderr())}, opt)
	if err != nil {
		return err
	}
	if o.json {
		screen.JSON(out, p)
	} else if err := p.WriteText(out, time.Since(begun)); err != nil {
		return err
	}
	return out.Flush()
}

// scanProgress prints the progress of a scan, every two seconds.
func (o *outputOptions) scanProgress(w io.Writer) func(bytes, at int64) {
	if o.progress == "none" {
		return nil
	}
	begun := time.Now()
	last := begun
	return func(bytes, at int64) {
		now := time.Now()
		if now.Sub(last) < 2*time.Second {
			return
		}
		last = now
		where := ""
		if at != 0 {
			where = ", at " + time.UnixMicro(at).UTC().Format(time.DateTime)
		}
		if o.json {
			fmt.Fprintf(w, `{"event":"scan","bytes":%d,"seconds":%.1f}`+"\n", bytes, now.Sub(begun).Seconds())
			return
		}
		fmt.Fprintf(w, "%s read, %s/s%s\n", screen.Bytes(bytes), screen.Bytes(int64(float64(bytes)/now.Sub(begun).Seconds())), where)
	}
}

// watched is a log whose records are listed and counted as they pass.
type watched struct {
	log      ha.Log
	list     *listing
	progress func(bytes, at int64)
}

func (x *watched) Scan(ctx context.Context, emit func(*tidemark.LogRecord) error) (tidemark.LogScan, error) {
	var n, bytes, at int64
	return x.log.Scan(ctx, func(r *tidemark.LogRecord) error {
		n++
		bytes += int64(r.Size)
		if r.Ended != tidemark.StillOpen {
			at = r.Time
		}
		if n%8192 == 0 && x.progress != nil {
			x.progress(bytes, at)
		}
		if x.list.info == recordLevel {
			x.list.record(r)
		}
		return emit(r)
	})
}

// A listing prints single flushes, records and transactions.
type listing struct {
	out    io.Writer
	info   infoLevel
	trans  transLevel
	engine string
}

func (l *listing) trace() ha.Trace {
	var t ha.Trace
	if l.info >= flushLevel {
		t.Flush = func(f ha.Flush) {
			took := "-"
			if !f.Begin.IsZero() {
				took = fmt.Sprintf("%.6f s", f.End.Sub(f.Begin).Seconds())
			}
			fmt.Fprintf(l.out, "flush %d: %d pages, %d bytes, end %s, %s\n", f.Number, (f.Bytes+ha.Page-1)/ha.Page, f.Bytes, stamp(f.End), took)
		}
	}
	if l.trans >= openLevel {
		t.Open = func(x ha.Tx) {
			fmt.Fprintf(l.out, "transaction %d: open, started %s, %d bytes\n", x.ID, stamp(x.Begin), x.Bytes)
		}
	}
	if l.trans == allLevel {
		t.Began = func(x ha.Tx) { fmt.Fprintf(l.out, "transaction %d: starts after %s\n", x.ID, stamp(x.Begin)) }
		t.Ended = func(x ha.Tx) {
			fmt.Fprintf(l.out, "transaction %d: %s, started %s (to within %.6f s), ended %s, %d bytes, %.6f s\n", x.ID, endNames[x.How], stamp(x.Begin), x.Uncertain.Seconds(),
				stamp(x.End), x.Bytes, x.End.Sub(x.Begin).Seconds())
		}
	}
	return t
}

var endNames = map[tidemark.LogEnd]string{tidemark.Committed: "committed", tidemark.RolledBack: "rolled back", tidemark.Prepared: "prepared"}

func (l *listing) record(r *tidemark.LogRecord) {
	end := ""
	if r.Ended != tidemark.StillOpen {
		end = ", " + endNames[r.Ended] + " " + stamp(time.UnixMicro(r.Time))
	}
	fmt.Fprintf(l.out, "record %s: %d bytes, of images %d, class %d, table %d, transaction %d%s\n", ha.PlaceText(l.engine, r.Place), r.Size, r.Image, r.Class, r.Table, r.Tx, end)
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return t.UTC().Format("2006-01-02 15:04:05.000000")
}

// scanInterval reads a duration, or seconds; 0 is a file.
func scanInterval(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if n, nerr := strconv.ParseFloat(v, 64); nerr == nil {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d != 0 && d < time.Millisecond {
		return 0, fmt.Errorf("must be 0, or a duration from 1ms on, such as 60s")
	}
	if d == 0 {
		d = -1
	}
	return d, nil
}
