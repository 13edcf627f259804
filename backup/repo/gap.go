package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/store"
)

// gapPrefix begins the names of gaps; the name of the last missing log follows.
const gapPrefix = "gaps/"

// maxGap is the maximum size of its object.
const maxGap = 1 << 20

// A Gap is log that its server dropped before it was archived, because its user preferred that to a
// full disk.
type Gap struct {
	First string    `json:"first"` // names of consecutive logs
	Last  string    `json:"last"`
	Count int       `json:"count"` // how many
	Since time.Time `json:"since"` // when the first was dropped,
	Until time.Time `json:"until"` // and the last
	Host  string    `json:"host"`
	Cause string    `json:"cause"` // why the archive could not be written then
}

// Has reports whether a log is in the gap.
func (g *Gap) Has(log string) bool {
	dir := g.First[:strings.LastIndexByte(g.First, '/')+1]
	return g.First <= log && log <= g.Last && strings.HasPrefix(log, dir)
}

// String formats it for messages: "000000010000000000000007 to 00000001000000000000000A, 4 files,
// were given up ...".
func (g *Gap) String() string {
	name := func(log string) string { return log[strings.LastIndexByte(log, '/')+1:] }
	day := func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
	by := fmt.Sprintf("by archive push --queue-max on %s: %s", g.Host, g.Cause)
	if g.Count == 1 {
		return fmt.Sprintf("%s was given up at %s %s", name(g.First), day(g.Since), by)
	}
	return fmt.Sprintf("%s to %s, %d files, were given up from %s to %s %s", name(g.First), name(g.Last), g.Count, day(g.Since), day(g.Until), by)
}

// PutGap records a gap, durably. Repeating it is harmless.
func (r *logs) PutGap(ctx context.Context, g Gap) error {
	text, err := json.Marshal(g)
	if err != nil {
		return err
	}
	err = r.writeObject(ctx, gapPrefix+g.Last, store.New, text)
	if err != nil && tidemark.KindOf(err) == tidemark.Exists {
		return nil
	}
	return err
}

// Gaps returns the recorded gaps, in the order of the logs. Kind Corrupt.
func (r *logs) Gaps(ctx context.Context) (out []Gap, err error) {
	for i, err := range r.store.List(ctx, gapPrefix) {
		if err != nil {
			return nil, err
		}
		g, err := r.gap(ctx, i.Name)
		if err != nil && tidemark.KindOf(err) == tidemark.NotFound {
			continue // prune has removed it
		}
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b Gap) int { return strings.Compare(a.First, b.First) })
	return out, nil
}

func (r *logs) gap(ctx context.Context, object string) (g Gap, err error) {
	text, err := r.readObject(ctx, object, maxGap)
	if err != nil {
		return g, err
	}
	if err := json.Unmarshal(text, &g); err != nil || gapPrefix+g.Last != object || g.First > g.Last || g.Count < 1 {
		return g, &tidemark.Error{Kind: tidemark.Corrupt, Op: "read", Object: object, Err: errors.New("it is not in its format")}
	}
	return g, nil
}

// gapsBefore returns the objects of gaps older than all log that stays.
func (r *logs) gapsBefore(ctx context.Context, oldest string) (out []store.Info, err error) {
	for i, err := range r.store.List(ctx, gapPrefix) {
		if err != nil {
			return nil, err
		}
		if last := strings.TrimPrefix(i.Name, gapPrefix); last < oldest && strings.Contains(last, "/") {
			out = append(out, i)
		}
	}
	return out, nil
}
