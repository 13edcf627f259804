package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

//go:embed workload
var workloads embed.FS

// bench is one invocation of the program.
type bench struct {
	options
	dir      string // everything lies in it
	out      io.Writer
	tidemark string // the program
}

// An arena is what the tools of a job run in.
type arena struct {
	source  *server  // nil where a file is the source
	target  *server  // of the job; of a comparison, its second side
	other   *server  // where a rival has a target of its own
	file    string   // the dump
	changed int64    // bytes of the pages that have changed since the first backups; 0: there are none
	tables  []table  // that are copied
	content          // of the source
	backlog *backlog // of changes, where these are what is moved
	closers []io.Closer
	files   []*server // stopped cleanly at the end, since their data may be used again
	scratch []*server
}

// content says what a source holds.
type content struct {
	Rows  int64           `json:",omitempty"` // changes of a backlog
	Bytes int64           // of rows as the source stores them, without indexes; the size of a dump file
	Facts map[string]fact // nil: not known, as a file was never in a database
}

func (a *arena) servers() []*server { return append(append([]*server(nil), a.files...), a.scratch...) }

func (a *arena) close() {
	for _, c := range a.closers {
		_ = c.Close() // it is of no more use
	}
	for _, s := range a.files {
		s.stop(true)
	}
	for _, s := range a.scratch {
		s.stop(false)
	}
}

// scaled puts numbers into a workload: {N} becomes N times the scale.
func scaled(text string, scale float64) string {
	return regexp.MustCompile(`\{\d+\}`).ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(s[1 : len(s)-1]) // digits, by the pattern
		return strconv.Itoa(int(math.Max(10, math.Round(float64(n)*scale))))
	})
}

func (b *bench) workload(name string) (string, error) {
	text, err := workloads.ReadFile("workload/" + name)
	return scaled(string(text), b.scale), err
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

// filled starts a server whose database fill has filled, now or in an earlier
// run that kept its data. It is added to the arena. options are of its command line, besides ours.
func (b *bench) filled(ctx context.Context, a *arena, engine, name string, tables []table, fill func(context.Context, *server) error, options ...string) (*server, content, error) {
	var c content
	dir := filepath.Join(b.dir, fmt.Sprintf("%s-%g", name, b.scale))
	marker := filepath.Join(dir, "content.json") // written last
	text, err := os.ReadFile(marker)
	switch {
	case err == nil:
		if err := json.Unmarshal(text, &c); err != nil {
			return nil, c, fmt.Errorf("%s: %w", marker, err)
		}
	case errors.Is(err, os.ErrNotExist):
		if err := os.RemoveAll(dir); err != nil {
			return nil, c, err
		}
	default:
		return nil, c, err
	}
	s, err := serve(ctx, engine, dir, options...)
	if err != nil {
		return nil, c, err
	}
	a.files = append(a.files, s)
	if c.Facts != nil {
		return s, c, nil
	}
	b.say("filling %s", filepath.Base(dir))
	if err := s.empty(ctx); err != nil {
		return nil, c, err
	}
	if err := fill(ctx, s); err != nil {
		return nil, c, fmt.Errorf("fill %s: %w", name, err)
	}
	if err := s.analyze(ctx, tables); err != nil {
		return nil, c, err
	}
	if c, err = s.content(ctx, tables); err != nil {
		return nil, c, err
	}
	if text, err = json.Marshal(c); err != nil {
		return nil, c, err
	}
	return s, c, os.WriteFile(marker, text, 0o644)
}

// analyze ends the filling of a server.
func (s *server) analyze(ctx context.Context, tables []table) error {
	if s.engine == "postgres" {
		return s.exec(ctx, database, "VACUUM ANALYZE")
	}
	for _, t := range tables {
		if err := s.exec(ctx, database, "ANALYZE TABLE "+t.name); err != nil {
			return err
		}
	}
	return s.exec(ctx, database, "RESET MASTER") // the binlog of the filling is as large as the data
}

func (s *server) content(ctx context.Context, tables []table) (content, error) {
	sql := "SELECT sum(pg_table_size(oid)) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
	if s.engine != "postgres" {
		sql = "SELECT sum(data_length) FROM information_schema.tables WHERE table_schema = '" + database + "'"
	}
	size, err := s.query(ctx, database, sql)
	if err != nil {
		return content{}, err
	}
	var c content
	if c.Bytes, err = strconv.ParseInt(size, 10, 64); err != nil {
		return c, err
	}
	c.Facts, err = s.facts(ctx, tables, true)
	return c, err
}

// script fills a server from a workload.
func (b *bench) script(name string) func(context.Context, *server) error {
	return func(ctx context.Context, s *server) error {
		sql, err := b.workload(name)
		if err != nil {
			return err
		}
		return s.exec(ctx, database, sql)
	}
}

// scratchServer starts a server with an empty database, added to the arena.
func (b *bench) scratchServer(ctx context.Context, a *arena, engine string, options ...string) (*server, error) {
	dir := filepath.Join(b.dir, fmt.Sprintf("scratch%d-%s", len(a.scratch), engine))
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	s, err := serve(ctx, engine, dir, options...)
	if err != nil {
		return nil, err
	}
	a.scratch = append(a.scratch, s)
	return s, s.empty(ctx)
}

// mariaShop starts the MariaDB server with the shop, filled from the PostgreSQL one.
func (b *bench) mariaShop(ctx context.Context, a *arena) (*server, content, error) {
	return b.filled(ctx, a, "maria", "maria-shop", shopTables("maria"), func(ctx context.Context, s *server) error {
		var pg arena
		defer pg.close()
		from, _, err := b.filled(ctx, &pg, "postgres", "pg-shop", shopTables("postgres"), b.script("shop.pg.sql"))
		if err != nil {
			return err
		}
		ddl, err := b.workload("shop.mysql.sql")
		if err != nil {
			return err
		}
		if err := s.exec(ctx, database, ddl); err != nil {
			return err
		}
		for _, t := range mariaLoads {
			if err := pour(from.client(ctx, database, "-c", "COPY ("+t.query+") TO STDOUT"),
				s.client(ctx, database, "-e", "LOAD DATA LOCAL INFILE '/dev/stdin' INTO TABLE "+t.into)); err != nil {
				return err
			}
		}
		return nil
	})
}

// mariaLoads say how rows of PostgreSQL's shop become MariaDB's. COPY's text form is LOAD DATA's, but for the types here.
var mariaLoads = []struct{ query, into string }{
	{"SELECT id, name, email, balance, created AT TIME ZONE 'UTC', active::int, note FROM customer ORDER BY id", "customer"},
	{"SELECT * FROM orders ORDER BY id", "orders"},
	{"SELECT * FROM order_line ORDER BY o_id, n", "order_line"},
	{"SELECT id, title, body, meta, encode(blob, 'hex') FROM document ORDER BY id", "document (id, title, body, meta, @h) SET blb = unhex(@h)"},
	{"SELECT at AT TIME ZONE 'UTC', kind, who, payload FROM event ORDER BY at", "event (at, kind, who, payload)"},
}

// pour runs two programs with a pipe from one to the other.
func pour(from, to *exec.Cmd) error {
	var errs [2]strings.Builder
	from.Stderr, to.Stderr = &errs[0], &errs[1]
	pipe, err := from.StdoutPipe()
	if err != nil {
		return err
	}
	to.Stdin = pipe
	if err := from.Start(); err != nil {
		return err
	}
	toErr := to.Run()
	fromErr := from.Wait()
	if toErr != nil || fromErr != nil {
		return fmt.Errorf("%s into %s: %w %s %s", from.Path, to.Path, errors.Join(fromErr, toErr), errs[0].String(), errs[1].String())
	}
	return nil
}

// made gives the path of a file that build makes, unless it is there already.
func (b *bench) made(name string, build func(path string) error) (string, int64, error) {
	path := filepath.Join(b.dir, fmt.Sprintf("%s-%g.sql", name, b.scale))
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		b.say("writing %s", filepath.Base(path))
		if err := build(path + ".new"); err != nil {
			return "", 0, fmt.Errorf("write %s: %w", path, err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			return "", 0, err
		}
		info, err = os.Stat(path)
	}
	if err != nil {
		return "", 0, err
	}
	return path, info.Size(), nil
}
