package advisor

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/db2/text"
	"github.com/tidemarkdb/tidemark/flow"
)

// timesOf are a worker's in our words. A wait for a buffer is not idleness, whichever kind it waits
// for: only WaitQ is.
func timesOf(w text.Worker) flow.Times {
	return flow.Times{Total: w.Total, IO: w.IO, Working: w.Compr, WaitBuffer: w.MsgQ, WaitWork: w.WaitQ}
}

// explain gives what limited a backup or a restore.
func (b *bar) explain(d *Diagnosis, around surroundings) {
	d.Of = string(b.op)
	d.Title = b.title()
	if b.assumed {
		d.note("Nothing in the text says whether this was a backup or a restore: it is taken for a backup (--operation restore otherwise).")
	}
	b.check(d)
	if b.took < tooShort || len(b.BM) == 0 {
		d.Limit = "The job was too short for its limit to be measured."
		if len(b.BM) == 0 {
			d.Limit = "The text has no rows of BM#, so what limits cannot be said."
		}
		return
	}
	b.facts(d)
	facts := StorageFacts{Restore: b.op == text.Restore, Took: b.took, Parallelism: b.parallelism(), Sessions: len(b.MC), Buffers: b.Buffers}
	if facts.Restore {
		facts.Prepare = b.idle()
	} else {
		facts.Server = b.idle()
	}
	switch s := b.sides(); s.verdict(facts) {
	case workIsUneven:
		b.uneven(d, s, around)
	case buffersLimit:
		b.fewBuffers(d)
	case placeLimits:
		b.slowMedia(d)
	case cpuLimits:
		d.Limit = fmt.Sprintf("Compression bound: the BMs spent %s of their time compressing.", percentOf(b.compr, b.life))
		b.compression(d)
	case filesAreMade:
		b.preallocation(d)
	case serverLimits:
		d.Limit = fmt.Sprintf("Something else limits: for at least %s of %s neither side read, compressed or wrote.", secs(b.idle()), secs(b.took))
		d.Advice = append(d.Advice, b.elsewhere())
	default:
		b.slowSpaces(d, around)
	}
	b.logsAndThrottle(d)
	b.fragmented(d, around)
}

func (b *bar) title() string {
	name := "Backup"
	switch {
	case b.op == text.Restore:
		name = "Restore"
	case b.Online:
		name = "Online backup"
	}
	var of []string
	if b.Parallelism > 0 {
		of = append(of, fmt.Sprintf("PARALLELISM %d", b.Parallelism))
	}
	if b.Buffers > 0 && b.BufferSize > 0 {
		of = append(of, fmt.Sprintf("%d buffers of %s pages (%s)", b.Buffers, grouped(b.BufferSize/4096), size(int64(b.Buffers)*b.BufferSize)))
	}
	return fmt.Sprintf("%s: %s, %s", name, secs(b.took), strings.Join(append(of, plural(len(b.BM), "BM"), plural(len(b.MC), "MC")), ", "))
}

// check notes what makes the figures less than whole.
func (b *bar) check(d *Diagnosis) {
	if b.Cut {
		d.note("The text is cut: the record is not whole, and the figures are of what is there.")
	}
	for _, x := range []struct {
		name string
		sum  *text.Worker
		rows []text.Worker
	}{{"BM#", b.BMTotal, b.BM}, {"MC#", b.MCTotal, b.MC}} {
		var n int64
		for _, w := range x.rows {
			n += w.Bytes
		}
		if x.sum != nil && x.sum.Bytes > 0 && (n > x.sum.Bytes+x.sum.Bytes/100 || n < x.sum.Bytes-x.sum.Bytes/100) {
			d.note("The rows of %s add up to %s, and TOT says %s: the text is not whole.", x.name, kB(n), kB(x.sum.Bytes))
		}
	}
}

// moving is what BMs do: read table spaces for a backup, write them for a restore.
func (b *bar) moving() string {
	if b.op == text.Restore {
		return "wrote"
	}
	return "read"
}

func (b *bar) facts(d *Diagnosis) {
	d.fact("BMs: I/O %s, compression %s, waiting for buffers (MsgQ) %s, without work (WaitQ) %s of %s.", percentOf(b.io, b.life), percentOf(b.compr, b.life), percentOf(b.msgQ, b.life), percentOf(b.waitQ, b.life), secs(b.life))
	if len(b.MC) > 0 {
		d.fact("MCs: I/O %s, waiting for buffers %s of %s.", percentOf(b.mediaIO, b.mediaLife), percentOf(b.mediaQ, b.mediaLife), secs(b.mediaLife))
	}
	d.fact("The BMs %s %s in %s of I/O: %s.", b.moving(), kB(b.bytes), secs(b.io), rate(b.bytes, b.io))
	if b.compr > 0 && b.mediaBytes > 0 && b.op != text.Restore {
		d.fact("Compressed %.1f to 1: %s became %s.", float64(b.bytes)/float64(b.mediaBytes), kB(b.bytes), kB(b.mediaBytes))
	}
}

// shared is how long it would take with the work of BMs shared by n: not less than the media need,
// and without a change of what is throttled or copied from logs.
func (b *bar) shared(n int) time.Duration {
	var fixed time.Duration
	for _, w := range b.BM {
		fixed = max(fixed, w.Throttle+w.LogPhase)
	}
	return max((b.io+b.compr)/time.Duration(n)+fixed, b.media)
}

// intraSpace reports whether the text is of 12.1 or newer, where several BMs can share a table
// space.
func (b *bar) intraSpace() bool {
	for _, c := range b.Columns {
		if c == "LogPhase" || c == "Throttle" {
			return true
		}
	}
	return false
}

// uneven: some BMs had all the work. Before 12.1 a table space is one BM's.
func (b *bar) uneven(d *Diagnosis, s *sides, around surroundings) {
	n := len(b.BM)
	busy, idle := s.uneven()
	most, all := b.BM[b.most], b.parallelism()
	where := "The work is uneven"
	switch {
	case busy > 1:
		where = fmt.Sprintf("%d of %d BMs had nearly all the work", busy, n)
	case most.Bytes*2 > b.bytes:
		where = "One table space dominates"
	}
	name := ""
	if sp := spaceOf(most, around.spaces()); sp != nil {
		name = " That is " + sp.Name + "."
	}
	d.Limit = fmt.Sprintf("%s: BM %s handled %s of %s (%s), and %d of %d BMs had nothing to do most of the time.%s", where, most.ID, kB(most.Bytes), kB(b.bytes), percent(float64(most.Bytes), float64(b.bytes)), idle, n, name)
	even := b.shared(all)
	split := Advice{
		Do: "Spread the data over table spaces of about equal size, because one BM handles a table space alone.",
		Evidence: []string{
			fmt.Sprintf("The BMs were without work (WaitQ) %s of %s (%s).", secs(b.waitQ), secs(b.life), percentOf(b.waitQ, b.life)),
			fmt.Sprintf("BM %s was busy %s of %s: the job cannot end before it.", b.BM[b.busiest].ID, secs(b.busy), secs(b.took)),
		},
		Settings: []Setting{{Name: "table spaces", Now: fmt.Sprintf("the largest has %s of the data", percent(float64(most.Bytes), float64(b.bytes))), Propose: fmt.Sprintf("%d of about %s each", all, kB(b.bytes/int64(all))), Run: "CALL SYSPROC.ADMIN_MOVE_TABLE(...) for each table that moves"}},
		Sure:     Likely, If: fmt.Sprintf("%d table spaces can be %s at once: their containers are on disks with capacity to spare", all, map[bool]string{true: "written", false: "read"}[b.op == text.Restore]),
		Cost: "moving tables online needs their space a second time, and writes as much log",
	}
	split.gain(b.took, even, fmt.Sprintf("the BMs' %s of work shared by %d is %s, and the busiest MC needs %s", secs(b.io+b.compr), all, secs((b.io+b.compr)/time.Duration(all)), secs(b.media)))
	within := split
	within.Do = "Or upgrade to Db2 12.1, where several BMs share a table space."
	within.Settings = []Setting{{Name: "Db2", Now: "one BM a table space", Propose: "12.1 or newer"}}
	within.Cost, within.Evidence, within.Sure = "an upgrade", nil, Possible
	switch {
	case b.op == text.Restore:
		d.Advice = append(d.Advice, split)
	case b.intraSpace():
		within.Do = "Let several BMs share one table space: 12.1 does it unless it was switched off."
		within.Settings = []Setting{{Name: "DB2_BACKUP_ITP", Now: "OFF?", Propose: "ON", Run: "db2set DB2_BACKUP_ITP=ON"}}
		within.Cost, within.Sure = "more I/O at once", Likely
		d.Advice = append(d.Advice, within, split)
	default:
		d.Advice = append(d.Advice, split, within)
	}
	if b.BM[b.busiest].Compr*2 > b.BM[b.busiest].Total {
		b.compression(d)
	}
	b.fewerWorkers(d)
}

// fewerWorkers: what idle BMs cost is small, but as many do the same.
func (b *bar) fewerWorkers(d *Diagnosis) {
	need := 1
	if b.busy > 0 {
		need = int((b.io + b.compr + b.busy - 1) / b.busy)
	}
	if need >= b.parallelism() {
		return
	}
	a := Advice{
		Do:       fmt.Sprintf("Until then, PARALLELISM %d takes the same time with fewer threads and buffers.", need),
		Evidence: []string{fmt.Sprintf("All BMs together were busy %s, which is %.1f times the busiest one's %s.", secs(b.io+b.compr), float64(b.io+b.compr)/float64(max(b.busy, 1)), secs(b.busy))},
		Settings: []Setting{{Name: "PARALLELISM", Now: fmt.Sprint(b.parallelism()), Propose: fmt.Sprint(need)}},
		Gain:     "no time; " + plural(b.parallelism()-need, "thread") + " less",
		Sure:     Likely, Cost: "none",
	}
	d.Advice = append(d.Advice, a)
}

// fewBuffers: both sides wait for the other's.
func (b *bar) fewBuffers(d *Diagnosis) {
	bm, mc := "an empty", "a full"
	if b.op == text.Restore {
		bm, mc = mc, bm
	}
	d.Limit = fmt.Sprintf("Too few buffers limit: the BMs waited for %s one %s of their time, and the MCs for %s one %s.", bm, percentOf(b.msgQ, b.life), mc, percentOf(b.mediaQ, b.mediaLife))
	want := max(enoughBuffers(b.parallelism(), len(b.MC)), b.Buffers*2)
	a := Advice{
		Do:       "Give it more buffers.",
		Evidence: []string{fmt.Sprintf("Both sides wait, so neither's device is the limit: MsgQ is %s of %s for BMs and %s of %s for MCs.", secs(b.msgQ), secs(b.life), secs(b.mediaQ), secs(b.mediaLife))},
		Settings: []Setting{{Name: "WITH n BUFFERS", Now: known(b.Buffers), Propose: fmt.Sprint(want)}},
		Sure:     Likely, If: "the utility heap has room for them",
		Cost: "memory",
	}
	if b.BufferSize > 0 {
		a.Cost = size(int64(want)*b.BufferSize) + " of memory while it runs"
		a.Settings = append(a.Settings, b.heap(want))
	}
	a.gain(b.took, max(b.busy, b.media), fmt.Sprintf("the busiest BM worked %s, and the busiest MC %s", secs(b.busy), secs(b.media)))
	d.Advice = append(d.Advice, a)
}

// heap is what the utility heap must be for buffers: an online backup uses about half of it.
func (b *bar) heap(buffers int) Setting {
	pages := int64(buffers) * b.BufferSize / 4096
	need := max(pages*2, 5000)
	return Setting{Name: "UTIL_HEAP_SZ", Now: "not in the text", Propose: fmt.Sprintf("AUTOMATIC, or at least %s pages (twice the buffers' %s)", grouped(need), grouped(pages)), Run: "UPDATE DB CFG USING UTIL_HEAP_SZ " + fmt.Sprint(need) + " AUTOMATIC"}
}

// goodBuffer is the size in pages that Db2 chooses where the utility heap has room for it: 16 MB,
// as a multiple of extents and one page.
const goodBuffer = 4097

// larger are the settings for larger buffers, where they are so small that devices work in small
// pieces.
func (b *bar) larger() []Setting {
	pages := b.BufferSize / 4096
	if pages <= 0 || pages*4 > goodBuffer {
		return nil
	}
	need := max(int64(b.Buffers), 2) * goodBuffer * 2
	return []Setting{{Name: "BUFFER", Now: grouped(pages) + " pages", Propose: grouped(goodBuffer) + " pages"},
		{Name: "UTIL_HEAP_SZ", Now: "not in the text", Propose: "AUTOMATIC, or at least " + grouped(need) + " pages", Run: fmt.Sprintf("UPDATE DB CFG USING UTIL_HEAP_SZ %d AUTOMATIC", need)}}
}

func twice(n int) string {
	if n <= 0 {
		return "twice as many"
	}
	return fmt.Sprint(2 * n)
}

func known(n int) string {
	if n <= 0 {
		return "not in the text"
	}
	return fmt.Sprint(n)
}

// slowMedia: BMs wait for the MCs.
func (b *bar) slowMedia(d *Diagnosis) {
	if b.op == text.Restore {
		d.Limit = fmt.Sprintf("Reading the image limits: the BMs waited for a full buffer %s of their time, and the MC was busy %s.", percentOf(b.msgQ, b.life), percentOf(b.mediaIO, b.mediaLife))
		a := Advice{
			Do:       "Restore from faster storage: one MC reads the image, however many files it has.",
			Evidence: []string{fmt.Sprintf("The MC read %s in %s of I/O: %s.", kB(b.mediaBytes), secs(b.mediaIO), rate(b.mediaBytes, b.mediaIO))},
			Settings: []Setting{{Name: "FROM", Now: "storage of " + rate(b.mediaBytes, b.mediaIO), Propose: "a local copy of the image on fast disks, or more throughput of the storage manager"}},
			Sure:     Likely, Cost: "space for the image",
		}
		a.gain(b.took, b.busy, fmt.Sprintf("the busiest BM worked %s", secs(b.busy)))
		d.Advice = append(d.Advice, a)
		return
	}
	d.Limit = fmt.Sprintf("Target bound: the BMs waited for an empty buffer %s of their time, and the MCs were busy %s.", percentOf(b.msgQ, b.life), percentOf(b.mediaIO, b.mediaLife))
	m := len(b.MC)
	if m == 0 {
		d.Limit = fmt.Sprintf("Target bound: the BMs waited for an empty buffer %s of their time. The text has no rows of MC#.", percentOf(b.msgQ, b.life))
		m = 1
	}
	more := Advice{
		Do:       "Write to more targets at once: each path after TO, and each session of a storage manager, has an MC of its own.",
		Evidence: []string{fmt.Sprintf("MsgQ of the BMs is %s of %s; their own I/O only %s.", secs(b.msgQ), secs(b.life), secs(b.io))},
		Settings: []Setting{{Name: "TO paths, or OPEN n SESSIONS", Now: known(len(b.MC)), Propose: twice(len(b.MC))}},
		Sure:     Likely, If: "the targets are different devices, or one that can take more at once",
		Cost: "images in several parts, all of which a restore needs",
	}
	if want := enoughBuffers(b.parallelism(), m*2); b.Buffers > 0 && b.Buffers < want/2 {
		more.Settings = append(more.Settings, Setting{Name: "WITH n BUFFERS", Now: fmt.Sprint(b.Buffers), Propose: fmt.Sprint(want)})
	}
	more.Settings = append(more.Settings, b.larger()...)
	if len(b.MC) > 0 {
		half := b.mediaIO / time.Duration(m*2)
		more.gain(b.took, max(half, b.busy), fmt.Sprintf("the MCs' %s of I/O over %d targets is %s, and the busiest BM worked %s", secs(b.mediaIO), m*2, secs(half), secs(b.busy)))
	} else {
		more.gain(b.took, max(b.took/2, b.busy), fmt.Sprintf("half the time with twice the targets; the busiest BM worked %s", secs(b.busy)))
	}
	d.Advice = append(d.Advice, more)
	if b.compr == 0 {
		less := Advice{
			Do:       "Compress, so that less is written.",
			Settings: []Setting{{Name: "COMPRESS", Now: "no", Propose: "COMPRESS"}},
			Sure:     Possible, If: "the data is not compressed already, and processors have time to spare",
			Cost: "processor time in the BMs",
		}
		less.gain(b.took, max(b.took/2, b.busy), "an image half as large would be written in half the time; your data may compress better or worse")
		d.Advice = append(d.Advice, less)
	}
}

// slowSpaces: table spaces are the limit, and all BMs share the work.
func (b *bar) slowSpaces(d *Diagnosis, around surroundings) {
	verb, waited := "reading", "a full buffer"
	if b.op == text.Restore {
		verb, waited = "writing", "an empty buffer"
	}
	d.Limit = fmt.Sprintf("Source bound: the BMs spent %s of their time %s table spaces, and the MCs waited for %s %s.", percentOf(b.io, b.life), verb, waited, percentOf(b.mediaQ, b.mediaLife))
	if b.op == text.Restore {
		d.Limit = "Writing the table spaces limits" + strings.TrimPrefix(d.Limit, "Source bound")
	}
	now := b.parallelism()
	want := now * 2
	a := Advice{
		Evidence: []string{fmt.Sprintf("%s of %s is I/O of the BMs, at %s altogether.", secs(b.io), secs(b.life), rate(b.bytes, b.io/time.Duration(len(b.BM))))},
		Sure:     Possible, If: "the disks of the containers can do more at once, and processors are free",
		Cost: "more I/O and memory while it runs",
	}
	spaces := 0
	for _, s := range around.spaces() {
		if !s.Temporary() {
			spaces++
		}
	}
	if spaces > 0 && !b.intraSpace() {
		want = min(want, spaces)
		a.Evidence = append(a.Evidence, fmt.Sprintf("There are %s to share.", plural(spaces, "table space")))
	}
	if want <= now {
		a.Do = fmt.Sprintf("More BMs than %d have nothing to do: use faster disks for the containers, or more containers on other disks, which prefetchers read in parallel.", now)
		a.Settings = []Setting{{Name: "containers", Now: "as they are", Propose: "on several disks", Run: "ALTER TABLESPACE ... ADD (...), and DB2_PARALLEL_IO"}}
		a.Gain, a.Cost = "as much as the disks are faster", "a rebalance"
		d.Advice = append(d.Advice, a)
		return
	}
	a.Do = "Use more BMs."
	a.Settings = append([]Setting{{Name: "PARALLELISM", Now: fmt.Sprint(now), Propose: fmt.Sprint(want)}}, b.larger()...)
	a.gain(b.took, b.shared(want), fmt.Sprintf("the BMs' %s of work shared by %d is %s, and the busiest MC needs %s", secs(b.io+b.compr), want, secs((b.io+b.compr)/time.Duration(want)), secs(b.media)))
	d.Advice = append(d.Advice, a)
}
