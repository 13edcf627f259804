package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidemarkdb/tidemark/ha/measure"
)

// forecastName is the command that compares forecasts with the copies that follow. It is not in the
// list of jobs: no other tool says how long it will take.
const forecastName = "forecast"

// A shape is a schema of a cell; its tables are filled on the server.
type shape struct {
	name    string
	tables  int
	rows    float64 // of each
	pad     int     // bytes of a column
	indexes int
}

var shapes = []shape{
	{"one table", 1, 600_000, 100, 1},
	{"many tables", 150, 3_000, 100, 1},
	{"indexes", 2, 200_000, 60, 6},
}

// lines are the links to the target.
var lines = []struct {
	name string
	line measure.Line
}{{"near", measure.Line{}}, {"10 MB/s, 2 ms", measure.Line{Rate: 10 << 20, Delay: 2 * time.Millisecond}}}

// A cellOf is what was forecast in one cell, and what happened.
type cellOf struct {
	Name     string  `json:"name"`
	Low      float64 `json:"low"`
	Expected float64 `json:"expected"`
	High     float64 `json:"high"`
	Took     float64 `json:"took"`
	Probe    float64 `json:"probe_took"`
	Failed   string  `json:"failed,omitempty"`
}

func (c cellOf) within() bool   { return c.Failed == "" && c.Took >= c.Low && c.Took <= c.High }
func (c cellOf) width() float64 { return (c.High - c.Low) / 2 / math.Max(c.Expected, 1e-9) }

// fillShape creates the tables of a shape.
func (s *server) fillShape(ctx context.Context, x shape, scale float64) error {
	rows := int(math.Max(100, x.rows*scale))
	var all []string
	for i := range x.tables {
		name := fmt.Sprintf("t%d", i)
		ddl := fmt.Sprintf("CREATE TABLE %s (id int PRIMARY KEY, a int, b int, c int, pad varchar(200))", name)
		n, from := "n", fmt.Sprintf("generate_series(1, %d) AS g(n)", rows)
		text := fmt.Sprintf("md5(n::text) || repeat('x', %d)", x.pad)
		if s.engine != "postgres" {
			n, from = "seq", fmt.Sprintf("seq_1_to_%d AS g", rows)
			text = fmt.Sprintf("concat(md5(seq), repeat('x', %d))", x.pad)
		}
		all = append(all, ddl, fmt.Sprintf("INSERT INTO %s SELECT %s, %s %% 1000, %s %% 77, (%s %% 10007) * 7919, %s FROM %s", name, n, n, n, n, text, from))
		for k := range x.indexes {
			columns := []string{"a", "b, c", "c", "pad", "c, b", "b, a, c"}[k%6]
			all = append(all, fmt.Sprintf("CREATE INDEX %s_i%d ON %s (%s)", name, k, name, columns))
		}
		if s.engine != "postgres" {
			all = append(all, "ANALYZE TABLE "+name)
		}
	}
	if s.engine == "postgres" {
		all = append(all, "VACUUM ANALYZE")
	}
	for _, sql := range all {
		if err := s.exec(ctx, database, sql); err != nil {
			return err
		}
	}
	return nil
}

// forecasts measures all cells.
func (o options) forecasts(ctx context.Context, out io.Writer) error {
	dir, err := workFolder(o.keep)
	if err != nil {
		return err
	}
	if o.keep == "" {
		defer os.RemoveAll(dir)
	}
	b := &bench{options: o, dir: dir, out: out, tidemark: filepath.Join(dir, "tidemark")}
	if err := command(ctx, "go", "build", "-o", b.tidemark, "./cmd/tidemark"); err != nil {
		return err
	}
	var servers []*server
	defer func() {
		for _, s := range servers {
			s.stop(false)
		}
	}()
	by := map[string][2]*server{}
	for _, engine := range []string{"postgres", "maria"} {
		var pair [2]*server
		for i, side := range []string{"source", "target"} {
			place := filepath.Join(dir, engine+"-"+side)
			if err := os.RemoveAll(place); err != nil {
				return err
			}
			if pair[i], err = serve(ctx, engine, place); err != nil {
				return err
			}
			servers = append(servers, pair[i])
		}
		by[engine] = pair
	}
	var all []cellOf
	for _, x := range shapes {
		for _, from := range []string{"postgres", "maria"} {
			src := by[from][0]
			if err := src.empty(ctx); err != nil {
				return err
			}
			if err := src.fillShape(ctx, x, o.scale); err != nil {
				return fmt.Errorf("fill %s: %w", x.name, err)
			}
			for _, to := range []string{"postgres", "maria"} {
				for _, l := range lines {
					cell := fmt.Sprintf("%s, %s to %s, %s", x.name, from, to, l.name)
					if !b.wanted(cell) {
						continue
					}
					c := b.forecastCell(ctx, cell, src, by[to][1], l.line)
					b.say("%s: %.1f s (%.1f to %.1f), took %.1f %s", cell, c.Expected, c.Low, c.High, c.Took, c.Failed)
					all = append(all, c)
					if ctx.Err() != nil {
						return ctx.Err()
					}
				}
			}
		}
	}
	printForecasts(out, all)
	return writeCells(o.json, all)
}

// forecastCell probes, copies, and compares.
func (b *bench) forecastCell(ctx context.Context, name string, src, to *server, line measure.Line) (c cellOf) {
	c.Name = name
	fail := func(err error) cellOf {
		c.Failed = err.Error()
		return c
	}
	if err := to.empty(ctx); err != nil {
		return fail(err)
	}
	target := to.url(database)
	if line != (measure.Line{}) {
		a := &arena{}
		if err := a.behind(line, to); err != nil {
			return fail(err)
		}
		defer func() {
			for _, x := range a.closers {
				x.Close()
			}
			to.far = 0
		}()
		target = to.reach(database)
	}
	state := filepath.Join(b.dir, "catalog.db")
	if err := errors.Join(os.RemoveAll(state), os.RemoveAll(state+"-wal"), os.RemoveAll(state+"-shm")); err != nil {
		return fail(err)
	}
	began := time.Now()
	text, err := b.output(ctx, "forecast", src.url(database), target, "--probe", "20s", "--probe-size", "200MB", "--json", "--progress", "none", "--state", state)
	c.Probe = time.Since(began).Seconds()
	if err != nil {
		return fail(err)
	}
	var f struct {
		Low      float64 `json:"low_seconds"`
		Expected float64 `json:"expected_seconds"`
		High     float64 `json:"high_seconds"`
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return fail(err)
	}
	c.Low, c.Expected, c.High = f.Low, f.Expected, f.High
	began = time.Now()
	if _, err := b.output(ctx, "copy", src.url(database), target, "--progress", "none", "--state", state); err != nil {
		return fail(err)
	}
	c.Took = time.Since(began).Seconds()
	return c
}

// output runs tidemark, and gives what it prints.
func (b *bench) output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.tidemark, args...)
	var problems strings.Builder
	cmd.Stderr = &problems
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", args[0], err, problems.String())
	}
	return text, nil
}

func printForecasts(out io.Writer, all []cellOf) {
	t := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "CELL\tFORECAST\tINTERVAL\tTOOK\tOFF\tWITHIN\tPROBE")
	var within int
	var widths, offs []float64
	for _, c := range all {
		if c.Failed != "" {
			fmt.Fprintf(t, "%s\tfailed: %s\n", c.Name, c.Failed)
			continue
		}
		off := c.Took/c.Expected - 1
		if c.within() {
			within++
		}
		widths, offs = append(widths, c.width()), append(offs, math.Abs(off))
		fmt.Fprintf(t, "%s\t%.1f s\t%.1f to %.1f\t%.1f s\t%+.0f%%\t%v\t%.1f s\n", c.Name, c.Expected, c.Low, c.High, c.Took, 100*off, c.within(), c.Probe)
	}
	t.Flush()
	if len(widths) == 0 {
		return
	}
	slices.Sort(widths)
	slices.Sort(offs)
	fmt.Fprintf(out, "%d of %d cells end within their interval (goal: 80%%); the interval is +-%.0f%% at p50 (goal: 25%%); off by %.0f%% at p50\n", within, len(all), 100*widths[len(widths)/2], 100*offs[len(offs)/2])
}
