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
	dir      string // contains everything
	out      io.Writer
	tidemark string // the program
}

// An arena holds what the tools of a job run in.
type arena struct {
	source  *server  // nil if a file is the source
	target  *server  // of the job; in a comparison, its second side
	other   *server  // for a rival that has a target of its own
	file    string   // the dump
	changed int64    // bytes of pages changed since the first backups; 0: none
	tables  []table  // to copy
	content          // of the source
	backlog *backlog // of changes, if the job moves changes
	closers []io.Closer
	files   []*server // stopped cleanly at the end, since their data may be reused
	scratch []*server
	store   *server // an object store; nil: none
	relay   *server // beside the target; nil: none
}

// content describes a source's data.
type content struct {
	Rows  int64           `json:",omitempty"` // for a backlog, its changes
	Bytes int64           // of rows as stored on the source, without indexes; for a dump, the file size
	Facts map[string]fact // nil: unknown, as a file was never in a database
}

func (a *arena) servers() []*server { return append(append([]*server(nil), a.files...), a.scratch...) }

func (a *arena) close() {
	for _, c := range a.closers {
		_ = c.Close() // no longer needed
	}
	for _, s := range a.files {
		s.stop(true)
	}
	for _, s := range a.scratch {
		s.stop(false)
	}
}

// scaled fills numbers into a workload: {N} becomes N times the scale.
func scaled(text string, scale float64) string {
	return regexp.MustCompile(`\{\d+\}`).ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(s[1 : len(s)-1]) // digits, because of the pattern
		return strconv.Itoa(int(math.Max(10, math.Round(float64(n)*scale))))
	})
}

func (b *bench) workload(name string) (string, error) {
	text, err := workloads.ReadFile("workload/" + name)
	return scaled(string(text), b.scale), err
}

func (b *bench) say(format string, args ...any) { fmt.Fprintf(b.out, format+"\n", args...) }

// filled starts a server whose database was filled by fill, now or in an earlier run that kept its
// data. It is added to the arena. options are further command-line options of the server.
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

// analyze completes the filling of a server.
func (s *server) analyze(ctx context.Context, tables []table) error {
	if s.engine == "postgres" {
		return s.exec(ctx, database, "VACUUM ANALYZE")
	}
	for _, t := range tables {
		if err := s.exec(ctx, database, "ANALYZE TABLE "+t.name); err != nil {
			return err
		}
	}
	return s.exec(ctx, database, "RESET MASTER") // the binlog of the fill is as large as the data
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

// script returns a fill that runs a workload.
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

// mariaShop starts the MariaDB server with the shop, filled from the PostgreSQL server.
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

// mariaLoads convert rows of PostgreSQL's shop for MariaDB. COPY's text form equals LOAD DATA's,
// except for the types here.
var mariaLoads = []struct{ query, into string }{
	{"SELECT id, name, email, balance, created AT TIME ZONE 'UTC', active::int, note FROM customer ORDER BY id", "customer"},
	{"SELECT * FROM orders ORDER BY id", "orders"},
	{"SELECT * FROM order_line ORDER BY o_id, n", "order_line"},
	{"SELECT id, title, body, meta, encode(blob, 'hex') FROM document ORDER BY id", "document (id, title, body, meta, @h) SET blb = unhex(@h)"},
	{"SELECT at AT TIME ZONE 'UTC', kind, who, payload FROM event ORDER BY at", "event (at, kind, who, payload)"},
}

// pour pipes the output of one program into another.
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

// made returns the path of a file, which build creates if it does not exist yet.
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
