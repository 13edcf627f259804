package advisor

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark/db2/text"
)

// Db2Facts are what Db2's texts do not show.
type Db2Facts struct {
	Operation text.Operation // of statistics that do not say it
	At        time.Time      // when LIST UTILITIES was printed, by the server's clock; zero: unknown
}

// A Diagnosis is what a text of Db2 tells.
type Diagnosis struct {
	Of       string    `json:"of"` // "backup", "restore", "table spaces", "utility", "threads", "HADR"
	Database string    `json:"database,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	File     string    `json:"file,omitempty"`
	Line     int       `json:"line"`
	Title    string    `json:"title"`
	Limit    string    `json:"limit"` // one sentence
	Facts    []string  `json:"facts,omitempty"`
	Advice   []Advice  `json:"advice,omitempty"`
	Notes    []string  `json:"notes,omitempty"` // what makes this less sure
}

func (d *Diagnosis) fact(format string, a ...any) {
	d.Facts = append(d.Facts, fmt.Sprintf(format, a...))
}
func (d *Diagnosis) note(format string, a ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, a...))
}

// ExplainDb2 explains listings, in their order. What one says of another of the same database is
// used: table spaces name what a thread of a backup has read, and an earlier backup shows how fast
// that could be.
func ExplainDb2(listings []text.Listing, f Db2Facts) []Diagnosis {
	out := []Diagnosis{}
	agents := map[int]int{} // application handles by EDU
	for _, l := range listings {
		for _, a := range l.Agents {
			agents[a.EDU] = a.Handle
		}
	}
	for i, l := range listings {
		d := Diagnosis{Database: l.DB, Time: l.Taken, File: l.File, Line: l.Line}
		switch {
		case l.Stats != nil:
			b := barOf(l, f)
			b.explain(&d, surroundings{listings, i, f})
		case l.Spaces != nil:
			explainSpaces(&d, l.Spaces, surroundings{listings, i, f})
		case l.Utility != nil:
			explainUtility(&d, l.Utility, surroundings{listings, i, f})
		case l.EDUs != nil:
			explainEDUs(&d, l.EDUs, agents)
		case l.HADR != nil:
			explainHADR(&d, l.HADR, surroundings{listings, i, f})
		default:
			continue
		}
		out = append(out, d)
	}
	return out
}

// surroundings are the listings around one.
type surroundings struct {
	all   []text.Listing
	at    int
	facts Db2Facts
}

// same reports whether two listings may be of one database.
func same(a, b text.Listing) bool { return a.DB == b.DB || a.DB == "" || b.DB == "" }

// spaces are the table spaces of its database, if a text has them: the nearest listing.
func (s surroundings) spaces() []text.Space {
	for distance := 1; distance < len(s.all); distance++ {
		for _, i := range []int{s.at + distance, s.at - distance} {
			if i >= 0 && i < len(s.all) && s.all[i].Spaces != nil && same(s.all[i], s.all[s.at]) {
				return s.all[i].Spaces
			}
		}
	}
	return nil
}

// backup is the last backup of its database, for which the text has statistics.
func (s surroundings) backup() *bar {
	for i := len(s.all) - 1; i >= 0; i-- {
		if l := s.all[i]; l.Stats != nil && len(l.Stats.BM) > 0 && same(l, s.all[s.at]) {
			if b := barOf(l, s.facts); b.op != text.Restore {
				return &b
			}
		}
	}
	return nil
}

// faster is the fastest backup of the same database among the first listings that read as much, or
// more: what its rate was, others could have.
func (s surroundings) faster(than *bar, first int) *bar {
	var best *bar
	for _, l := range s.all[:first] {
		if l.Stats == nil || len(l.Stats.BM) == 0 || !same(l, s.all[s.at]) {
			continue
		}
		b := barOf(l, s.facts)
		if b.alike(than) && b.bytes >= than.bytes && b.io > 0 && b.readRate() > than.readRate()*1.2 && (best == nil || b.readRate() > best.readRate()) {
			best = &b
		}
	}
	return best
}

// A bar is a backup or a restore, summed up.
type bar struct {
	text.Stats
	op             text.Operation
	assumed        bool // nobody said which of the two it is
	took           time.Duration
	io, compr      time.Duration // of all BMs
	msgQ, waitQ    time.Duration
	life           time.Duration
	bytes          int64
	busiest        int           // BM that was busy longest
	most           int           // BM that had most data
	busy           time.Duration // of the busiest
	media          time.Duration // I/O of the busiest MC
	mediaIO        time.Duration // of all MCs
	mediaQ         time.Duration
	mediaLife      time.Duration
	mediaBytes     int64
	logs, throttle time.Duration
}

func barOf(l text.Listing, f Db2Facts) bar {
	b := bar{Stats: *l.Stats, op: l.Stats.Operation}
	if b.op == text.Unknown {
		b.op, b.assumed = cmp.Or(f.Operation, text.Backup), f.Operation == text.Unknown
	}
	for i, w := range b.BM {
		b.took = max(b.took, w.Total)
		b.io, b.compr, b.msgQ, b.waitQ, b.life = b.io+w.IO, b.compr+w.Compr, b.msgQ+w.MsgQ, b.waitQ+w.WaitQ, b.life+w.Total
		b.logs, b.throttle = b.logs+w.LogPhase, b.throttle+w.Throttle
		b.bytes += w.Bytes
		if w.Bytes > b.BM[b.most].Bytes {
			b.most = i
		}
		if w.IO+w.Compr > b.busy {
			b.busy, b.busiest = w.IO+w.Compr, i
		}
	}
	if t := b.BMTotal; t != nil && t.Bytes > b.bytes+b.bytes/100 && t.Total > 0 { // rows are missing
		b.io, b.compr, b.msgQ, b.waitQ, b.life, b.bytes = t.IO, t.Compr, t.MsgQ, t.WaitQ, t.Total, t.Bytes
	}
	for _, w := range b.MC {
		b.took = max(b.took, w.Total)
		b.media = max(b.media, w.IO)
		b.mediaIO, b.mediaQ, b.mediaLife = b.mediaIO+w.IO, b.mediaQ+w.MsgQ, b.mediaLife+w.Total
		b.mediaBytes += w.Bytes
	}
	return b
}

// alike reports whether two were made in the same way, so that their rates can be compared.
func (b *bar) alike(o *bar) bool {
	return b.op == o.op && len(b.BM) == len(o.BM) && len(b.MC) == len(o.MC) && b.Online == o.Online && (b.compr > 0) == (o.compr > 0)
}

// readRate is what the BMs moved in a second of their I/O.
func (b *bar) readRate() float64 {
	if b.io <= 0 {
		return 0
	}
	return float64(b.bytes) / b.io.Seconds()
}

func (b *bar) parallelism() int { return max(b.Parallelism, len(b.BM)) }

// idle is how long nobody worked: at least that, because the times of some may overlap.
func (b *bar) idle() time.Duration {
	if len(b.MC) == 0 || len(b.BM) == 0 {
		return 0
	}
	return max(b.took-b.io-b.compr-b.mediaIO-b.logs, 0)
}

// sides are its times in the form of our own backups, so that the same rules find what limits.
func (b *bar) sides() *sides {
	var s sides
	for _, w := range b.BM {
		t := timesOf(w)
		s.server, s.workers = s.server.Add(t), append(s.workers, t)
	}
	for _, w := range b.MC {
		s.place = s.place.Add(timesOf(w))
	}
	s.serverQueue, s.placeQueue = b.msgQ, b.mediaQ
	return &s
}
