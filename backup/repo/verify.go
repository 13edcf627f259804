package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// VerifyOptions of Verify. The zero value is good.
type VerifyOptions struct {
	Backup  string // only this one and those that it needs, with their log; default: everything
	Workers int    // packs and logs that are read at once; 0 means 2
	Quick   bool   // only manifests, and whether all objects are there with their sizes
	// NextLog gives the name of the log that follows one on its timeline, or nothing if that is not
	// known: so holes are found between backups too.
	NextLog func(log string) string
	// Progress, if not nil, is called with stored bytes that were read, and those to be read.
	Progress func(done, all int64)
}

// Damage is something that is not as it has to be.
type Damage struct {
	Object  string   `json:"object"`
	Text    string   `json:"text"`
	Backups []string `json:"backups,omitempty"` // that cannot be restored as they should
}

// A VerifyReport says what was looked at and found.
type VerifyReport struct {
	Backups int      `json:"backups"`
	Packs   int      `json:"packs"`
	Pieces  int64    `json:"pieces"`
	Files   int64    `json:"files"`
	Logs    int      `json:"logs"`
	Stored  int64    `json:"stored"` // bytes that were read
	Plain   int64    `json:"plain"`  // bytes of pieces and logs, unpacked
	Damages []Damage `json:"damages"`
	// Left are objects that no backup needs: of backups that are being written or were not finished (or
	// whose manifest is lost), and what is not ours.
	Left []Damage `json:"left"`
}

// Verify reads a repository and compares all of it with what was written: each byte of each
// object is under a checksum, each file's bytes under that of the file, and each reference leads
// to what it says. Damage is no error but in the report.
func (r *Repo) Verify(ctx context.Context, opt VerifyOptions) (*VerifyReport, error) {
	if opt.Workers <= 0 {
		opt.Workers = 2
	}
	v := &verifier{r: r, opt: opt, out: new(VerifyReport), objects: map[string]int64{}, manifests: map[string]*Manifest{}, needs: map[string][]string{}}
	if err := v.list(ctx); err != nil {
		return nil, err
	}
	l, err := r.Lock(ctx, LockSpec{Purpose: "verify", Needs: v.ids})
	switch {
	case err == nil:
		defer l.Release()
		ctx = l.Context()
	case tidemark.KindOf(err) != tidemark.Forbidden && tidemark.KindOf(err) != tidemark.NotFound:
		return nil, err
	} // who may only read verifies without a lock, and what is removed meanwhile is missing
	err = v.run(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return v.out, err
}

type verifier struct {
	r         *Repo
	opt       VerifyOptions
	out       *VerifyReport
	objects   map[string]int64 // sizes
	ids       []string
	manifests map[string]*Manifest
	needs     map[string][]string // by backup: itself and those that need it
	logs      []Log
	all       int64 // bytes to read

	mu   sync.Mutex
	done int64
	last time.Time
}

func (v *verifier) damage(object string, backups []string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	text := err.Error()
	var own *tidemark.Error
	if errors.As(err, &own) && own.Object == object && own.Err != nil {
		text = own.Err.Error()
	}
	v.out.Damages = append(v.out.Damages, Damage{Object: object, Text: text, Backups: backups})
}

// wrong sorts an error: damage is noted, and all else ends the work.
func (v *verifier) wrong(object string, backups []string, err error) error {
	switch kind := tidemark.KindOf(err); {
	case err == nil:
		return nil
	case kind == tidemark.NotFound:
		v.damage(object, backups, errors.New("it is missing"))
	case kind == tidemark.Corrupt, kind == tidemark.Unsupported:
		v.damage(object, backups, err)
	default:
		return err
	}
	return nil
}

func (v *verifier) list(ctx context.Context) error {
	for i, err := range v.r.store.List(ctx, "") {
		if err != nil {
			return err
		}
		v.objects[i.Name] = i.Size
	}
	if v.opt.Backup != "" {
		chain, err := v.r.Chain(ctx, v.opt.Backup)
		if err != nil {
			return err
		}
		for _, m := range chain {
			v.ids = append(v.ids, m.ID)
		}
		return nil
	}
	for name := range v.objects {
		if id, ok := strings.CutPrefix(name, "backups/"); ok {
			v.ids = append(v.ids, id)
		}
	}
	slices.Sort(v.ids)
	return nil
}

func (v *verifier) run(ctx context.Context) error {
	if err := v.readManifests(ctx); err != nil {
		return err
	}
	v.findLogs()
	v.checkObjects()
	if !v.opt.Quick {
		for _, id := range v.ids {
			if m := v.manifests[id]; m != nil {
				b := &backupCheck{v: v, m: m, needs: v.needs[id]}
				if err := b.run(ctx); err != nil {
					return err
				}
			}
		}
		if err := v.readLogs(ctx); err != nil {
			return err
		}
	}
	if v.opt.Backup == "" {
		v.leftovers()
	}
	for _, list := range [][]Damage{v.out.Damages, v.out.Left} {
		slices.SortStableFunc(list, func(a, b Damage) int { return strings.Compare(a.Object, b.Object) })
	}
	return nil
}

func (v *verifier) readManifests(ctx context.Context) error {
	for _, id := range v.ids {
		m, err := v.r.Manifest(ctx, id)
		if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
			continue // buried, or removed meanwhile
		}
		if err := v.wrong(manifestName(id), []string{id}, err); err != nil {
			return err
		}
		v.out.Stored += v.objects[manifestName(id)]
		if m != nil {
			v.manifests[id] = m
			v.out.Backups++
			for _, p := range m.Packs {
				v.all += p.Size
			}
		}
	}
	for _, id := range v.ids {
		if v.manifests[id] == nil {
			continue
		}
		seen := map[string]bool{}
		for up := id; up != "" && !seen[up]; up = v.manifests[up].Parent {
			seen[up] = true
			v.needs[up] = append(v.needs[up], id)
			if parent := v.manifests[up].Parent; parent != "" && v.manifests[parent] == nil {
				v.damage(manifestName(id), []string{id}, fmt.Errorf("it needs %s, which is missing or damaged", parent))
				break
			}
		}
	}
	return nil
}

// findLogs takes those logs that the backups in question need, or all.
func (v *verifier) findLogs() {
	for name, size := range v.objects {
		if log, ok := strings.CutPrefix(name, logPrefix); ok {
			v.logs = append(v.logs, Log{Name: log, Stored: size})
		}
	}
	slices.SortFunc(v.logs, func(a, b Log) int { return strings.Compare(a.Name, b.Name) })
	var wanted []Log
	for _, id := range v.ids {
		m := v.manifests[id]
		if m == nil {
			continue
		}
		for _, g := range m.Ranges {
			if g.Count == 0 {
				continue
			}
			if !strings.Contains(g.First, "/") || g.First > g.Last {
				v.damage(manifestName(id), v.needs[id], fmt.Errorf("its log from %q to %q is no range", g.First, g.Last))
				continue
			}
			there := between(v.logs, g.First, g.Last)
			if len(there) != g.Count {
				v.damage(logPrefix+g.First, v.needs[id], fmt.Errorf("of the %d logs from here to %s, %d are there", g.Count, g.Last, len(there)))
			}
			wanted = append(wanted, there...)
		}
	}
	if v.opt.Backup != "" {
		slices.SortFunc(wanted, func(a, b Log) int { return strings.Compare(a.Name, b.Name) })
		v.logs = slices.CompactFunc(wanted, func(a, b Log) bool { return a.Name == b.Name })
	} else if v.opt.NextLog != nil {
		v.findHoles()
	}
	for _, l := range v.logs {
		v.all += l.Stored
	}
}

// findHoles looks at the files of each timeline whose next one has a name: not at histories, nor at
// those that the server has not finished.
func (v *verifier) findHoles() {
	before, next := "", ""
	for _, l := range v.logs {
		following := v.opt.NextLog(l.Name)
		if following == "" {
			continue
		}
		dir, _, _ := strings.Cut(l.Name, "/")
		if next != "" && next != l.Name && strings.HasPrefix(before, dir+"/") {
			v.damage(logPrefix+next, nil, fmt.Errorf("it is missing, between %s and %s: no later moment can be reached from backups before it", before, l.Name))
		}
		before, next = l.Name, following
	}
}

// checkObjects looks whether the packs are there.
func (v *verifier) checkObjects() {
	for _, id := range v.ids {
		m := v.manifests[id]
		if m == nil {
			continue
		}
		for _, p := range m.Packs {
			name := packName(id, p.Number)
			switch size, ok := v.objects[name]; {
			case !ok:
				v.damage(name, v.needs[id], errors.New("it is missing"))
			case size != p.Size:
				v.damage(name, v.needs[id], fmt.Errorf("it has %d bytes instead of %d", size, p.Size))
			}
		}
	}
}

// leftovers names what nobody needs.
func (v *verifier) leftovers() {
	packs := map[string]int{}
	for name := range v.objects {
		first, rest, _ := strings.Cut(name, "/")
		switch {
		case name == configName, first == "backups", first == "wal":
		case first == "packs":
			id, _, _ := strings.Cut(rest, "/")
			m := v.manifests[id]
			if m == nil {
				packs[id]++
			} else if !slices.ContainsFunc(m.Packs, func(p PackStat) bool { return packName(id, p.Number) == name }) {
				v.out.Left = append(v.out.Left, Damage{Object: name, Text: "the backup's manifest does not have it"})
			}
		case first == "locks":
			// They come and go; a damaged one holds for its lease and is removed by prune.
		default:
			v.out.Left = append(v.out.Left, Damage{Object: name, Text: "it is no object of a repository"})
		}
	}
	for id, n := range packs {
		text := fmt.Sprintf("%d packs of a backup that is being written, or was not finished, or whose manifest is lost", n)
		if v.objects[manifestName(id)] != 0 {
			text = fmt.Sprintf("%d packs of a backup whose manifest cannot be read, or says that it was removed", n)
		}
		v.out.Left = append(v.out.Left, Damage{Object: "packs/" + id, Text: text})
	}
}

func (v *verifier) progress(n int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.done += n
	v.out.Stored += n
	if v.opt.Progress != nil && time.Since(v.last) > 100*time.Millisecond {
		v.last = time.Now()
		v.opt.Progress(v.done, v.all)
	}
}

// each does something for 0 to n-1, a few at once. The first error ends it.
func (v *verifier) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(v.opt.Workers, n) {
		wg.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}

func (v *verifier) readLogs(ctx context.Context) error {
	return v.each(ctx, len(v.logs), func(ctx context.Context, i int) error {
		l := v.logs[i]
		n, err := v.readLog(ctx, l.Name)
		v.progress(l.Stored)
		v.mu.Lock()
		v.out.Logs++
		v.out.Plain += n
		v.mu.Unlock()
		return v.wrong(logPrefix+l.Name, v.usersOf(l.Name), err)
	})
}

func (v *verifier) readLog(ctx context.Context, name string) (int64, error) {
	in, err := v.r.GetLog(ctx, name)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	return io.Copy(io.Discard, in)
}

// usersOf gives the backups that a log makes consistent.
func (v *verifier) usersOf(log string) []string {
	var out []string
	for _, id := range v.ids {
		m := v.manifests[id]
		if m == nil {
			continue
		}
		if slices.ContainsFunc(m.Ranges, func(g LogRange) bool { return g.Count > 0 && g.First <= log && log <= g.Last }) {
			out = append(out, v.needs[id]...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
