package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// VerifyOptions of Verify. The zero value is good.
type VerifyOptions struct {
	Backup  string // only this one and those it needs, with their log; default: everything
	Workers int    // packs and logs read concurrently; 0 means 2
	Quick   bool   // only manifests, and whether all objects exist with their sizes
	// NextLog returns the name of the log that follows one on its timeline, or "" if that is
	// unknown: so gaps are found between backups too.
	NextLog func(log string) string
	// Text, if not nil, returns for a logical backup what reads the decrypted bytes of a plain
	// object, and returns what is wrong with them; the rest that it leaves unread is read anyway.
	Text func(ctx context.Context, m *Manifest) (func(f File, in io.Reader) error, error)
	// Progress, if not nil, is called with the stored bytes read so far, and those to read.
	Progress func(done, all int64)

	memory int // bytes of list records kept in memory before they go to a file; 0 means verifyMemory
}

// Damage is a fault of one object.
type Damage struct {
	Object  string   `json:"object"`
	Text    string   `json:"text"`
	Backups []string `json:"backups,omitempty"` // that cannot be restored correctly
}

// A VerifyReport describes what was checked and found.
type VerifyReport struct {
	Backups int      `json:"backups"`
	Packs   int      `json:"packs"`
	Objects int      `json:"plain_objects"` // of logical backups
	Pieces  int64    `json:"pieces"`
	Files   int64    `json:"files"`
	Logs    int      `json:"logs"`
	Stored  int64    `json:"stored"` // bytes read
	Plain   int64    `json:"plain"`  // bytes of pieces and logs, unpacked
	Damages []Damage `json:"damages"`
	// Left are objects that no backup needs: of backups being written or not finished (or whose
	// manifest is lost), and foreign ones.
	Left []Damage `json:"left"`
}

// Verify reads a repository and checks everything against what was written: each byte of each
// object is under a checksum, each file's bytes under the file's checksum, and each reference must
// lead to what it names. Damage is no error; it is in the report.
func (r *Repo) Verify(ctx context.Context, opt VerifyOptions) (*VerifyReport, error) {
	if opt.Workers <= 0 {
		opt.Workers = 2
	}
	v := &verifier{r: r, opt: opt, out: new(VerifyReport), sizes: map[string]int64{}, parts: map[string]int{}, manifests: map[string]*Manifest{}, needs: map[string][]string{}}
	if err := v.list(ctx); err != nil {
		return nil, err
	}
	used, release, err := r.Use(ctx, LockSpec{Purpose: "verify", Needs: v.ids})
	if err != nil && tidemark.KindOf(err) != tidemark.NotFound { // objects removed meanwhile are missing
		return nil, err
	}
	defer release()
	ctx = used
	err = v.run(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return v.out, err
}

type verifier struct {
	r          *Repo
	opt        VerifyOptions
	out        *VerifyReport
	ids        []string
	sizes      map[string]int64     // of the existing manifests, by id
	parts      map[string]int       // number of a backup's objects, by packs/ or dumps/ and its id
	pins       []string             // pinned backups
	gaps       []string             // objects of gaps
	unfinished []string             // ids of checkpoints
	manifests  map[string]*Manifest // brief ones
	needs      map[string][]string  // by backup: itself and those that need it
	logs       []Log
	all        int64 // bytes to read

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

// wrong classifies an error: damage is recorded, any other error ends the run.
func (v *verifier) wrong(object string, backups []string, err error) error {
	switch kind := tidemark.KindOf(err); {
	case err == nil:
		return nil
	case kind == tidemark.NotFound:
		v.damage(object, backups, v.r.absent(object))
	case kind == tidemark.Corrupt, kind == tidemark.Unsupported:
		v.damage(object, backups, err)
	default:
		return err
	}
	return nil
}

// IsDamage reports whether an error means that something is missing or unreadable.
func IsDamage(err error) bool {
	kind := tidemark.KindOf(err)
	return kind == tidemark.NotFound || kind == tidemark.Corrupt || kind == tidemark.Unsupported
}

// list lists what exists. It only counts objects that may number in the millions.
func (v *verifier) list(ctx context.Context) error {
	for i, err := range v.r.store.List(ctx, "") {
		if err != nil {
			return err
		}
		first, rest, _ := strings.Cut(i.Name, "/")
		switch first += "/"; {
		case i.Name == configName, i.Name == spareName:
		case first == "backups/":
			v.sizes[rest] = i.Size
		case first == logPrefix:
			v.logs = append(v.logs, Log{Name: rest, Stored: i.Size})
		case slices.Contains(partPrefixes, first):
			id, _, _ := strings.Cut(rest, "/")
			v.parts[first+id]++
		case first == unfinishedPrefix:
			v.unfinished = append(v.unfinished, rest)
		case first == pinPrefix:
			v.pins = append(v.pins, rest)
		case first == gapPrefix:
			v.gaps = append(v.gaps, i.Name)
		case first == lockPrefix:
			// They come and go; a damaged one holds for its lease and is removed by prune.
		default:
			v.left(i.Name, "it is not an object of a repository")
		}
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
	v.ids = slices.Sorted(maps.Keys(v.sizes))
	return v.strays(ctx)
}

// strays finds objects in another place of a stripe than their names tell.
func (v *verifier) strays(ctx context.Context) error {
	s := v.r.Stripe()
	if s == nil {
		return nil
	}
	all, err := s.Strays(ctx)
	for _, o := range all {
		if o.Name != configName {
			v.left(o.Name, "it is in "+o.In.String()+", and would count in "+o.Belongs.String()+" only")
		}
	}
	return err
}

// left names what no backup needs, unless only one backup is verified.
func (v *verifier) left(object, text string) {
	if v.opt.Backup == "" {
		v.out.Left = append(v.out.Left, Damage{Object: object, Text: text})
	}
}

func (v *verifier) run(ctx context.Context) error {
	if err := v.readManifests(ctx); err != nil {
		return err
	}
	v.findLogs(ctx)
	for _, id := range v.ids {
		if v.manifests[id] == nil {
			continue
		}
		if err := v.backup(ctx, id); err != nil {
			return err
		}
	}
	if !v.opt.Quick {
		if err := v.readLogs(ctx); err != nil {
			return err
		}
	}
	if err := v.readCheckpoints(ctx); err != nil {
		return err
	}
	v.leftovers()
	for _, list := range [][]Damage{v.out.Damages, v.out.Left} {
		slices.SortStableFunc(list, func(a, b Damage) int { return strings.Compare(a.Object, b.Object) })
	}
	return nil
}

func (v *verifier) readManifests(ctx context.Context) error {
	for _, id := range v.ids {
		m, err := v.r.Brief(ctx, id)
		if tidemark.KindOf(err) == tidemark.NotFound && err != nil {
			continue // buried, or removed meanwhile
		}
		if err := v.wrong(manifestName(id), []string{id}, err); err != nil {
			return err
		}
		v.out.Stored += v.sizes[id]
		if m != nil {
			v.manifests[id] = m
			v.out.Backups++
			v.all += m.Stored
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
			m, parent := v.manifests[up], v.manifests[v.manifests[up].Parent]
			if m.Parent != "" && parent == nil {
				v.damage(manifestName(id), []string{id}, fmt.Errorf("it needs %s, which is missing or damaged", m.Parent))
				break
			}
			if parent == nil {
				break
			}
			if err := m.Follows(parent); err != nil {
				v.damage(manifestName(id), []string{id}, err)
			}
		}
	}
	return nil
}

// findLogs selects the logs that the verified backups need, or all.
func (v *verifier) findLogs(ctx context.Context) {
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
				v.damage(manifestName(id), v.needs[id], fmt.Errorf("its log from %q to %q is not a valid range", g.First, g.Last))
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
	} else if gaps := v.readGaps(ctx); v.opt.NextLog != nil {
		v.findHoles(ctx, gaps)
	}
	for _, l := range v.logs {
		v.all += l.Stored
	}
}

// readGaps reads the records of log that was given up.
func (v *verifier) readGaps(ctx context.Context) (out []Gap) {
	for _, name := range v.gaps {
		switch g, err := v.r.gap(ctx, name); {
		case err == nil:
			out = append(out, g)
		case tidemark.KindOf(err) != tidemark.NotFound: // else it was pruned
			v.damage(name, nil, err)
		}
	}
	return out
}

// findHoles checks the files of each timeline whose successor has a name: not histories, nor files
// that the server has not finished. A list made while files arrived may lack one and have the next.
func (v *verifier) findHoles(ctx context.Context, gaps []Gap) {
	before, next := "", ""
	for _, l := range v.logs {
		following := v.opt.NextLog(l.Name)
		if following == "" {
			continue
		}
		dir, _, _ := strings.Cut(l.Name, "/")
		if next != "" && next != l.Name && strings.HasPrefix(before, dir+"/") && !v.there(ctx, next) {
			why := ""
			if i := slices.IndexFunc(gaps, func(g Gap) bool { return g.Has(next) }); i >= 0 {
				why = "; " + gaps[i].String()
			}
			v.damage(logPrefix+next, nil, fmt.Errorf("it is missing, between %s and %s: earlier backups cannot be restored to a later point%s", before, l.Name, why))
		}
		before, next = l.Name, following
	}
}

// backup verifies one backup.
func (v *verifier) backup(ctx context.Context, id string) error {
	m, err := v.r.Manifest(ctx, id)
	if err != nil {
		return v.wrong(manifestName(id), v.needs[id], err)
	}
	b := &backupCheck{v: v, m: m, needs: v.needs[id]}
	if err := b.checkPacks(ctx); err != nil {
		return err
	}
	if v.opt.Quick {
		return b.checkPlain(ctx)
	}
	return b.run(ctx)
}

// readCheckpoints reads those of unfinished backups. The objects they name are checked when the
// backup is resumed, not here.
func (v *verifier) readCheckpoints(ctx context.Context) error {
	if v.opt.Backup != "" {
		return nil
	}
	for _, id := range v.unfinished {
		name := checkpointName(id)
		if v.manifests[id] != nil {
			v.left(name, "that backup is still there")
			continue
		}
		_, err := v.r.checkpoint(ctx, id)
		if err != nil && tidemark.KindOf(err) == tidemark.NotFound {
			continue // it was finished, or removed
		}
		if err := v.wrong(name, nil, err); err != nil {
			return err
		}
	}
	return nil
}

// leftovers names what no backup needs.
func (v *verifier) leftovers() {
	for _, id := range v.pins {
		if _, there := v.sizes[id]; !there {
			v.left(pinPrefix+id, "it pins a backup that does not exist")
		}
	}
	for place, n := range v.parts {
		_, id, _ := strings.Cut(place, "/")
		if v.manifests[id] != nil {
			continue
		}
		text := fmt.Sprintf("%d objects of a backup that is being written, is unfinished, or has lost its manifest", n)
		if v.sizes[id] != 0 {
			text = fmt.Sprintf("%d objects of a backup whose manifest is unreadable, or says that it was removed", n)
		}
		v.left(place, text)
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

// each processes everything that feed passes to give, several at once. The first error ends it;
// give then returns false.
func each[T any](ctx context.Context, workers int, feed func(give func(T) bool) error, do func(ctx context.Context, what T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg crash.Group
	next := make(chan T)
	for range workers {
		wg.Go(func() {
			for what := range next {
				if err := do(ctx, what); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	err := feed(func(what T) bool {
		select {
		case next <- what:
			return true
		case <-ctx.Done():
			return false
		}
	})
	close(next)
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (v *verifier) readLogs(ctx context.Context) error {
	feed := func(give func(Log) bool) error {
		for _, l := range v.logs {
			if !give(l) {
				break
			}
		}
		return nil
	}
	return each(ctx, v.opt.Workers, feed, func(ctx context.Context, l Log) error {
		n, err := v.readLog(ctx, l.Name)
		v.progress(l.Stored)
		v.mu.Lock()
		v.out.Logs++
		v.out.Plain += n
		v.mu.Unlock()
		if err != nil && tidemark.KindOf(err) == tidemark.NotFound {
			// The archiver has filled it meanwhile, and the full segment has replaced it.
			if whole, open := strings.CutSuffix(l.Name, ".open"); open && v.there(ctx, whole) {
				return nil
			}
		}
		return v.wrong(logPrefix+l.Name, v.usersOf(l.Name), err)
	})
}

// there reports whether a log file exists now.
func (v *verifier) there(ctx context.Context, log string) bool {
	_, err := v.r.store.Stat(ctx, logPrefix+log)
	return err == nil
}

func (v *verifier) readLog(ctx context.Context, name string) (int64, error) {
	in, err := v.r.GetLog(ctx, name)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	return io.Copy(io.Discard, in)
}

// usersOf returns the backups that a log makes consistent.
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
