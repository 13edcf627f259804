package logs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// Dropped files are recorded in the server's log folder, since the archive cannot be written at
// that time: one line per file. The next push that succeeds records them in the archive, as one gap
// for consecutive files, and removes the notes. A process that is killed in between records them
// again.

// givenUpNotes is the file of these notes, beside the segments.
const givenUpNotes = "tidemark.given-up"

type givenUpNote struct {
	Name  string    `json:"name"`
	Bytes int64     `json:"bytes"`
	At    time.Time `json:"at"`
	Cause string    `json:"cause"`
}

// noteGivenUp records a dropped file, durably.
func noteGivenUp(file string, cause error) error {
	if name := filepath.Base(file); len(name) != 24 && !ofNone.MatchString(name) {
		return nil // no recovery asks for it
	}
	st, err := os.Stat(file)
	if err != nil {
		return fileError("read", file, err)
	}
	line, err := json.Marshal(givenUpNote{filepath.Base(file), st.Size(), time.Now().UTC(), tidemark.MaskText(cause.Error())})
	if err != nil {
		return err
	}
	name := filepath.Join(filepath.Dir(file), givenUpNotes)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fileError("write", name, err)
	}
	_, err = f.Write(append(line, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return fileError("write", name, err)
}

// tellGaps records in the archive what was dropped, from the notes in the server's log folder.
func (a *Archive) tellGaps(ctx context.Context, dir string) error {
	name := filepath.Join(dir, givenUpNotes)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fileError("read", name, err)
	}
	for _, g := range gapsOf(text) {
		if err := a.r.PutGap(ctx, g); err != nil {
			return err
		}
	}
	return fileError("remove", name, os.Remove(name))
}

// gapsOf converts notes to gaps: one for consecutive segments, and one for each history. A line
// that was truncated by a full disk is ignored.
func gapsOf(text []byte) (out []repo.Gap) {
	host, _ := os.Hostname() // for people only
	run, next := -1, ""      // the last gap of segments, and the name that would extend it
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var n givenUpNote
		if json.Unmarshal(lines.Bytes(), &n) != nil {
			continue
		}
		at, err := place(n.Name)
		if err != nil {
			continue
		}
		if run >= 0 && (at == next || at == out[run].Last) {
			g := &out[run]
			if at == next {
				g.Count++
			}
			g.Last, g.Until, g.Cause = at, n.At, n.Cause
		} else {
			out = append(out, repo.Gap{First: at, Last: at, Count: 1, Since: n.At, Until: n.At, Host: host, Cause: n.Cause})
		}
		if p, ok := wal.ParseName(n.Name, int(n.Bytes)); ok {
			if run < 0 || out[run].Last != at {
				run = len(out) - 1
			}
			next, _ = place(wal.SegmentName(p.Timeline, p.Place+uint64(n.Bytes), uint32(n.Bytes)))
		}
	}
	return out
}

// Gaps returns what was dropped and not archived since, in the order of the log.
func (a *Archive) Gaps(ctx context.Context) (out []repo.Gap, err error) {
	all, err := a.r.Gaps(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range all {
		common := 0
		for common < len(g.First) && g.First[common] == g.Last[common] {
			common++
		}
		logs, err := a.r.Logs(ctx, g.First[:common])
		if err != nil {
			return nil, err
		}
		there := 0
		for _, l := range logs {
			if g.Has(l.Name) && len(l.Name) == len(g.First) {
				there++
			}
		}
		if there < g.Count {
			out = append(out, g)
		}
	}
	return out, nil
}

// gapAt returns the gap in which a file is missing; nil: none is recorded. Unreadable gaps are
// ignored: what matters is that the file is missing.
func (a *Archive) gapAt(ctx context.Context, name string) *repo.Gap {
	at, err := place(strings.TrimSuffix(name, openSuffix))
	if err != nil {
		return nil
	}
	all, err := a.r.Gaps(ctx)
	if err != nil {
		return nil
	}
	for i := range all {
		if all[i].Has(at) {
			return &all[i]
		}
	}
	return nil
}
