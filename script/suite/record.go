//go:build unix

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The record of what is proved has a row for each package and what was done with it, in
// doc/proven.md. Packages that are proved in part have their units in bin/prove only.
const (
	recordFile = "doc/proven.md"
	unitsFile  = "bin/prove/units.json"
)

// A proof is a unit, or a row, that has run.
type proof struct {
	Time             time.Time
	Commit           string
	Tests            int
	Failed, Unstable []string // tests
	Seconds          float64
	Seed             string
}

// A record is all that was proved.
type record struct {
	top   string
	units map[string]proof           // by key
	rows  map[string]proof           // by row, as the file has them
	dirs  map[string]map[string]bool // by commit: the folders that have changed since
	known []string                   // all folders that have packages
}

func readRecord(top string, from []source) (*record, error) {
	r := &record{top: top, units: map[string]proof{}, rows: map[string]proof{}, dirs: map[string]map[string]bool{}}
	for _, s := range from {
		r.known = append(append(r.known, s.dir), s.deps...)
	}
	slices.Sort(r.known)
	r.known = slices.Compact(r.known)
	text, err := os.ReadFile(filepath.Join(top, unitsFile))
	if err == nil {
		err = json.Unmarshal(text, &r.units)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", unitsFile, err)
	}
	f, err := os.Open(filepath.Join(top, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		row, p, ok := readRow(in.Text())
		if ok {
			r.rows[row] = p
		}
	}
	return r, nil
}

const rowFormat = "| %s | %s | %s | %s | %d | %s | %s | %.1f | %s |\n"

// readRow reads a row as write has written it.
func readRow(line string) (row string, p proof, ok bool) {
	cells := strings.Split(line, "|")
	if len(cells) != 11 {
		return "", p, false
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	var err error
	if p.Time, err = time.Parse(time.DateOnly, cells[3]); err != nil {
		return "", p, false // the head of the table
	}
	if _, err := fmt.Sscanf(cells[5]+" "+cells[8], "%d %f", &p.Tests, &p.Seconds); err != nil {
		return "", p, false
	}
	p.Seconds *= 60
	p.Commit, p.Seed = cells[4], cells[9]
	p.Failed, p.Unstable = names(cells[6]), names(cells[7])
	return cells[1] + " " + cells[2], p, true
}

func names(cell string) []string {
	if cell == "0" {
		return nil
	}
	return strings.Split(cell, ", ")
}

func cell(names []string) string {
	return cmp.Or(strings.Join(names, ", "), "0")
}

// add keeps the proof of a unit. What failed before in the same code, and passes now, is unstable.
func (r *record) add(u unit, s source, p proof) {
	if old, ok := r.units[u.key()]; ok && r.current(old, s) {
		for _, name := range old.Failed {
			if !slices.Contains(p.Failed, name) {
				p.Unstable = append(p.Unstable, name)
			}
		}
	}
	r.units[u.key()] = p
}

// row returns the proof of a whole row: its units' together, if all of them have one, with the
// commit of the oldest; else what the file says.
func (r *record) row(units []unit) (proof, bool) {
	sum := proof{}
	for i, u := range units {
		p, ok := r.units[u.key()]
		if !ok {
			sum, ok = r.rows[u.row()]
			return sum, ok
		}
		if i == 0 || p.Time.Before(sum.Time) {
			sum.Time, sum.Commit, sum.Seed = p.Time, p.Commit, p.Seed
		}
		sum.Tests += p.Tests
		sum.Seconds += p.Seconds
		sum.Failed = append(sum.Failed, p.Failed...)
		sum.Unstable = append(sum.Unstable, p.Unstable...)
	}
	return sum, len(units) > 0
}

// of returns the proof of a unit, or of its row if there is only that.
func (r *record) of(u unit) (proof, bool) {
	if p, ok := r.units[u.key()]; ok {
		return p, true
	}
	p, ok := r.rows[u.row()]
	return p, ok
}

// current reports whether nothing that a package's tests are built of has changed since the commit
// of a proof.
func (r *record) current(p proof, s source) bool {
	changed, ok := r.dirs[p.Commit]
	if !ok {
		changed = r.changed(p.Commit)
		r.dirs[p.Commit] = changed
	}
	return changed != nil && !slices.ContainsFunc(s.deps, func(dir string) bool { return changed[dir] })
}

// changed returns the folders that have changed since a commit, or nil if git does not know it.
func (r *record) changed(commit string) map[string]bool {
	text, err := git(r.top, "diff", "--name-only", commit, "HEAD")
	if err != nil {
		return nil
	}
	out := map[string]bool{}
	for file := range strings.Lines(text) {
		out[r.folder(strings.TrimSpace(file))] = true
	}
	return out
}

// folder returns the package that a file belongs to: in its folder or above it. A package's tests,
// and documents, are folders of their own.
func (r *record) folder(file string) string {
	if dir, _, is := strings.Cut(file, "/testdata/"); is {
		return dir + testsOf
	}
	if strings.HasSuffix(file, "_test.go") {
		return path.Dir(file) + testsOf
	}
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if slices.Contains(r.known, dir) {
			return dir
		}
	}
	switch {
	case file == recordFile:
		return ""
	case path.Ext(file) == ".md":
		return documents
	case path.Dir(file) == ".":
		return "."
	}
	return ""
}

// testsOf follows the folder of a package whose tests are meant.
const testsOf = " tests"

// documents stands for all that is written for people, which some tests read.
const documents = "doc"

// write writes the record: the units' file, and the table for people.
func (r *record) write(rows [][]unit) error {
	text, err := json.MarshalIndent(r.units, "", "\t")
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(recordHead)
	for _, units := range rows {
		if p, ok := r.row(units); ok {
			fmt.Fprintf(&b, rowFormat, units[0].pkg, units[0].what, p.Time.Format(time.DateOnly), p.Commit, p.Tests, cell(p.Failed), cell(p.Unstable), p.Seconds/60, p.Seed)
		}
	}
	return errors.Join(os.MkdirAll(filepath.Join(r.top, filepath.Dir(unitsFile)), 0o755),
		os.WriteFile(filepath.Join(r.top, unitsFile), append(text, '\n'), 0o644),
		os.WriteFile(filepath.Join(r.top, recordFile), []byte(b.String()), 0o644))
}

const recordHead = `# What is proved

` + "`make prove`" + ` writes this table. *long* is every test of a package in its long form, *race* every test under the race detector, *fuzz* every fuzz target. A package's commit and day are those of its oldest part; minutes are those of one machine on which two packages run at a time.

| package | what | day | commit | tests | failed | unstable | minutes | seed |
|---|---|---|---|---|---|---|---|---|
`
