// Package bundle gathers what somebody needs who helps with a run or a stream: reports, samples,
// settings and versions, in one archive that can be sent away. It hides what must not be in it:
// secrets, and values of rows (veil.go). Start with Gather and Write.
package bundle

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/load"
)

// A File is one entry of a bundle.
type File struct {
	Name string `json:"name"`
	Size int    `json:"size"`
	data []byte
}

// How much of what there may be without end goes into a bundle.
const (
	someRuns    = 50   // the newest, in one line each
	someSamples = 1000 // of a stream
)

const readme = `This is a support bundle of Tidemark. It describes %s.

README.txt        this text
version.txt       the program, the system
runs.txt          the last runs of this machine
run/ID/           a run: run.json (its options, its report, what the servers were set to), report.txt,
                  explain.txt, history.txt, tables.json, plan.json (tables, columns, objects; without SQL)
stream/NAME/      a stream: stream.json, tables.json, settings.json, samples.json, status.txt

Not in it: passwords and other secrets, and values of rows. URLs are masked; SQL, filters and the
bounds of ranges are left out; in errors all that is quoted or in parentheses, and that is not the
name of a table, a column or an object, is replaced by [hidden]. In it: names of hosts, users,
databases, tables and columns. Read it before you send it.
`

// A gatherer collects files.
type gatherer struct {
	cat   *catalog.Catalog
	files []File
}

func (g *gatherer) add(name string, data []byte) {
	g.files = append(g.files, File{Name: name, Size: len(data), data: data})
}

func (g *gatherer) json(name string, v any) {
	var out bytes.Buffer
	screen.JSON(&out, v)
	g.add(name, out.Bytes())
}

func (g *gatherer) text(name string, write func(io.Writer) error) {
	var out bytes.Buffer
	if write(&out) == nil { // a run that lacks it has no such file
		g.add(name, out.Bytes())
	}
}

// Gather collects what the catalogue knows of a run, or of a stream by its name. version is the
// program's.
func Gather(ctx context.Context, cat *catalog.Catalog, name, version string) (of string, files []File, err error) {
	g := &gatherer{cat: cat}
	stream, err := cat.Stream(ctx, name)
	isStream := err == nil
	var runs []string
	switch {
	case isStream:
		of = "stream " + name
		for _, id := range []string{stream.Copy, stream.Run} {
			if id != "" {
				runs = append(runs, id)
			}
		}
	case tidemark.KindOf(err) != tidemark.NotFound:
		return "", nil, err
	default:
		run, err := cat.Run(ctx, name)
		if err != nil {
			return "", nil, unknown(err, name)
		}
		of, runs = "run "+run.ID, []string{run.ID}
	}
	g.add("README.txt", fmt.Appendf(nil, readme, of))
	g.add("version.txt", fmt.Appendf(nil, "tidemark %s\n%s/%s, %d processors\nmade %s\n", version, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format(time.RFC3339)))
	last, err := cat.Runs(ctx, someRuns)
	if err != nil {
		return "", nil, err
	}
	g.text("runs.txt", func(w io.Writer) error { return screen.Runs(w, last) })
	for _, id := range runs {
		if err := g.run(ctx, id); err != nil {
			return "", nil, err
		}
	}
	if isStream {
		if err := g.stream(ctx, stream); err != nil {
			return "", nil, err
		}
	}
	return of, g.files, nil
}

// unknown adds to the error of an unknown run that it could have been a stream.
func unknown(err error, name string) error {
	if tidemark.KindOf(err) != tidemark.NotFound {
		return err
	}
	return &tidemark.Error{Kind: tidemark.NotFound, Op: "bundle", Object: name, Err: errors.New("neither a run nor a stream has this name"), Hint: "tidemark runs lists the runs, tidemark status the streams."}
}

// run collects a run.
func (g *gatherer) run(ctx context.Context, id string) error {
	run, err := g.cat.Run(ctx, id)
	if err != nil {
		return err
	}
	run.State = g.cat.StateOf(run)
	tables, err := g.cat.Tables(ctx, id)
	if err != nil {
		return err
	}
	plan, err := load.ReadPlan(run.Plan, func(use func([]byte) error) error { return g.cat.PlanParts(ctx, id, use) })
	if err != nil || len(run.Plan) == 0 {
		plan = nil // it is one of a backup, or of a stream
	}
	v := newVeil(plan, tables)
	run.Plan, run.Error, run.Hint = nil, v.over(run.Error), v.over(run.Hint)
	if run.Report, err = v.overJSON(run.Report); err != nil {
		return err
	}
	for i := range tables {
		tables[i].Error = v.over(tables[i].Error)
	}
	dir := "run/" + run.ID + "/"
	g.json(dir+"run.json", run)
	g.json(dir+"tables.json", tables)
	if plan != nil {
		g.json(dir+"plan.json", outline(plan, v))
	}
	shown := run
	if plan != nil {
		shown.Plan = []byte("{}") // so that a restore into a database is shown as one
	}
	g.text(dir+"report.txt", func(w io.Writer) error { return screen.Run(w, shown, tables) })
	g.text(dir+"explain.txt", func(w io.Writer) error { return screen.Explain(w, shown) })
	g.text(dir+"history.txt", func(w io.Writer) error { return screen.History(w, run) })
	return nil
}

// stream collects a stream.
func (g *gatherer) stream(ctx context.Context, s catalog.Stream) error {
	tables, err := g.cat.StreamTables(ctx, s.Name)
	if err != nil {
		return err
	}
	v := newVeil(nil, nil)
	for i := range tables {
		v.know(tables[i].Table)
	}
	for i := range tables {
		tables[i].Reason, tables[i].Hint, tables[i].Load = v.over(tables[i].Reason), v.over(tables[i].Hint), nil // its bounds are keys of rows
	}
	settings, err := g.cat.Settings(ctx, s.Name)
	if err != nil {
		return err
	}
	samples, err := g.cat.Samples(ctx, s.Name, someSamples)
	if err != nil {
		return err
	}
	for i := range samples {
		if samples[i], err = v.overJSON(samples[i]); err != nil {
			return err
		}
	}
	for name, value := range settings {
		settings[name] = tidemark.MaskText(value)
	}
	dir := "stream/" + s.Name + "/"
	g.json(dir+"stream.json", s)
	g.json(dir+"tables.json", tables)
	g.json(dir+"settings.json", settings)
	g.json(dir+"samples.json", samples)
	state := screen.StreamState{Stream: s, Running: g.cat.Alive("stream-" + s.Name), Tables: tables}
	if len(samples) > 0 {
		state.Last = &sampled.Status{}
		if err := json.Unmarshal(samples[0], state.Last); err != nil {
			return err
		}
	}
	g.text(dir+"status.txt", func(w io.Writer) error {
		screen.States(w, []screen.StreamState{state})
		return nil
	})
	return nil
}

// Write writes files to path, which must not exist: a zip, or a tar.gz if its name says so.
func Write(path string, files []File) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fileError(path, err)
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			os.Remove(path)
			err = fileError(path, err)
		}
	}()
	if strings.HasSuffix(path, ".tar.gz") || strings.HasSuffix(path, ".tgz") {
		return writeTar(f, files)
	}
	return writeZip(f, files)
}

func fileError(path string, err error) error {
	e := &tidemark.Error{Kind: tidemark.Invalid, Op: "write bundle", Object: path, Err: tidemark.Pathless(err), Hint: "Name another file with --out, in a folder that you may write to."}
	switch {
	case errors.Is(err, os.ErrExist):
		e.Kind, e.Err, e.Hint = tidemark.Exists, errors.New("the file exists already"), "Name another file with --out."
	case errors.Is(err, os.ErrPermission):
		e.Kind = tidemark.Forbidden
	}
	return e
}

func writeZip(w io.Writer, files []File) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		to, err := z.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: time.Now()})
		if err == nil {
			_, err = to.Write(f.data)
		}
		if err != nil {
			return err
		}
	}
	return z.Close()
}

func writeTar(w io.Writer, files []File) error {
	z := gzip.NewWriter(w)
	t := tar.NewWriter(z)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Name: f.Name, Mode: 0o600, Size: int64(len(f.data)), ModTime: time.Now(), Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}
