package advisor

import (
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark/db2/text"
)

// compression: BMs compress most of the time. Whether less compression helps depends on what the
// target could write.
func (b *bar) compression(d *Diagnosis) {
	if b.op == text.Restore {
		return // it is not shown there
	}
	busiest := b.BM[b.busiest]
	a := Advice{
		Evidence: []string{fmt.Sprintf("BM %s compressed for %s of its %s (%s); all BMs for %s.", busiest.ID, secs(busiest.Compr), secs(busiest.Total), percentOf(busiest.Compr, busiest.Total), secs(b.compr))},
		Settings: []Setting{{Name: "COMPRESS", Now: "COMPRESS", Propose: "without, or COMPRLIB with a faster library (hardware: libdb2nx842.a on POWER, libdb2zcompr on others)"}},
		Sure:     Likely, Cost: "a larger image",
	}
	if b.mediaBytes > 0 && b.mediaIO > 0 {
		write := time.Duration(float64(b.mediaIO) * float64(b.bytes) / float64(b.mediaBytes) / float64(max(len(b.MC), 1)))
		at := rate(b.mediaBytes, b.mediaIO)
		if write >= b.took {
			a.Do = "Keep the compression: without it the target would be slower than the processors are now. Share the compression among more BMs, or use a faster library."
			a.Settings[0].Propose = "COMPRLIB with a faster library (hardware: libdb2nx842.a on POWER, libdb2zcompr on others)"
			a.Evidence = append(a.Evidence, fmt.Sprintf("Uncompressed, %s at the MCs' %s would take %s.", kB(b.bytes), at, secs(write)))
			a.Cost = "none"
			a.gain(b.took, max(b.media, busiest.IO), fmt.Sprintf("with compression that costs nothing the busiest MC needs %s, and the busiest BM's I/O %s", secs(b.media), secs(busiest.IO)))
		} else {
			a.Do = "Compress less, or with a faster library."
			a.Evidence = append(a.Evidence, fmt.Sprintf("Uncompressed, %s at the MCs' %s would take %s.", kB(b.bytes), at, secs(write)))
			a.gain(b.took, max(write, busiest.IO), fmt.Sprintf("the target would then need %s, and the busiest BM's I/O %s", secs(write), secs(busiest.IO)))
		}
		d.Advice = append(d.Advice, a)
		return
	}
	a.Do = "Compress less, or with a faster library."
	a.gain(b.took, max(busiest.IO, b.took-busiest.Compr), "the time that the busiest BM compressed, if the target can write more")
	a.Sure = Possible
	d.Advice = append(d.Advice, a)
}

// preallocation: for a long time nobody moved data.
func (b *bar) preallocation(d *Diagnosis) {
	idle := b.idle()
	d.Limit = fmt.Sprintf("Preallocating the containers limits: for at least %s of %s no data flowed.", secs(idle), secs(b.took))
	a := Advice{
		Do: "Restore to a file system that allocates without writing (ext4, XFS, GPFS, JFS2, VxFS; not ext3), and shrink table spaces before the backup.",
		Evidence: []string{
			fmt.Sprintf("I/O of all BMs (%s) and MCs (%s) is less than the %s that it took: the rest went by without any.", secs(b.io+b.compr), secs(b.mediaIO), secs(b.took)),
			fmt.Sprintf("The BMs were without work (WaitQ) %s of %s.", secs(b.waitQ), secs(b.life)),
		},
		Settings: []Setting{
			{Name: "DB2_USE_FAST_PREALLOCATION", Now: "not in the text", Propose: "ON", Run: "db2set DB2_USE_FAST_PREALLOCATION=ON"},
			{Name: "table spaces", Now: "containers at their full size", Propose: "reduced to what they hold", Run: "ALTER TABLESPACE ... LOWER HIGH WATER MARK, then REDUCE"},
		},
		Sure: Likely, If: "stacks of db2bm (db2pd -stack) show sqloSetFileSize or DMSAddContainerRequest meanwhile",
		Cost: "another file system",
	}
	a.gain(b.took, b.took-idle, "the time in which nobody worked")
	d.Advice = append(d.Advice, a)
}

// elsewhere: a backup waited for something that its statistics do not have.
func (b *bar) elsewhere() Advice {
	a := Advice{
		Do:       "Look for what it waited for: other utilities on its table spaces (an online backup waits for loads, reorganizations and ALTER TABLESPACE), archiving of logs at its end, and throttling.",
		Evidence: []string{fmt.Sprintf("I/O and compression of all BMs (%s) and MCs (%s) fill less than the %s that it took.", secs(b.io+b.compr), secs(b.mediaIO), secs(b.took))},
		Settings: []Setting{{Name: "UTIL_IMPACT_LIM, UTIL_IMPACT_PRIORITY", Now: "not in the text", Propose: "UTIL_IMPACT_PRIORITY 0 for this backup", Run: "db2 SET UTIL_IMPACT_PRIORITY FOR <id> TO 0"}},
		Sure:     Possible, Cost: "another time of day, or more impact on applications",
	}
	a.gain(b.took, b.took-b.idle(), "the time in which nobody worked")
	return a
}

// logsAndThrottle are columns of 12.1.
func (b *bar) logsAndThrottle(d *Diagnosis) {
	longest := func(of func(text.Worker) time.Duration) (out time.Duration) {
		for _, w := range b.BM {
			out = max(out, of(w))
		}
		return out
	}
	if t := longest(func(w text.Worker) time.Duration { return w.Throttle }); t > b.took/10 {
		a := Advice{
			Do:       "Throttle it less.",
			Evidence: []string{fmt.Sprintf("Throttle is %s of %s for one BM.", secs(t), secs(b.took))},
			Settings: []Setting{{Name: "UTIL_IMPACT_PRIORITY", Now: "throttled", Propose: "0, or a higher UTIL_IMPACT_LIM", Run: "db2 SET UTIL_IMPACT_PRIORITY FOR <id> TO 0"}},
			Sure:     Certain, Cost: "applications feel it more",
		}
		a.gain(b.took, b.took-t, "the time that the longest throttled BM slept")
		d.Advice = append(d.Advice, a)
	}
	if t := longest(func(w text.Worker) time.Duration { return w.LogPhase }); t > b.took/5 {
		a := Advice{
			Do:       "Back up when fewer changes are made, or with EXCLUDE LOGS if logs are archived safely: copying logs into the image takes a large part.",
			Evidence: []string{fmt.Sprintf("LogPhase is %s of %s.", secs(t), secs(b.took))},
			Settings: []Setting{{Name: "INCLUDE LOGS", Now: "included", Propose: "EXCLUDE LOGS"}},
			Sure:     Likely, If: "every log is in the archive", Cost: "the image alone can no longer be restored",
		}
		a.gain(b.took, b.took-t, "the log phase")
		d.Advice = append(d.Advice, a)
	}
}

// fragmented: an earlier backup of the same text read faster. Free extents below the high-water
// mark interrupt reading: each needs a read of its own.
func (b *bar) fragmented(d *Diagnosis, around surroundings) {
	if b.op == text.Restore {
		return
	}
	before := around.faster(b, around.at)
	if before == nil {
		return
	}
	then := time.Duration(float64(b.bytes) / before.readRate() * float64(time.Second))
	gain := b.io - then
	if busiest := b.BM[b.busiest]; len(b.BM) > 1 { // what counts is the one that ends last
		gain = busiest.IO - time.Duration(float64(busiest.Bytes)/before.readRate()*float64(time.Second))
	}
	a := Advice{
		Do: "Lower the high-water mark: free extents below it make a backup read in small pieces.",
		Evidence: []string{
			fmt.Sprintf("A backup before it read %s in %s of I/O: %s. This one read %s in %s: %s.", kB(before.bytes), secs(before.io), rate(before.bytes, before.io), kB(b.bytes), secs(b.io), rate(b.bytes, b.io)),
			fmt.Sprintf("It read %s of what the other had read, and took %s of its time.", percent(float64(b.bytes), float64(before.bytes)), percentOf(b.took, before.took)),
		},
		Settings: []Setting{{Name: "high-water mark", Now: "LIST TABLESPACES SHOW DETAIL tells it", Propose: "Used pages", Run: "ALTER TABLESPACE ... LOWER HIGH WATER MARK"}},
		Sure:     Possible, If: "table spaces have free pages below it, rather than disks that are slower now",
		Cost: "extents are moved while applications run: I/O and log",
	}
	a.gain(b.took, b.took-gain, fmt.Sprintf("at the rate before, %s would be read in %s", kB(b.bytes), secs(then)))
	if sp := spaceOf(b.BM[b.most], around.spaces()); sp != nil && sp.HighWater > sp.Used {
		a.Sure, a.If = Likely, ""
		a.Evidence = append(a.Evidence, fmt.Sprintf("%s, which BM %s read, uses %s of the %s pages below its mark (%s).", sp.Name, b.BM[b.most].ID, grouped(sp.Used), grouped(sp.HighWater), percent(float64(sp.Used), float64(sp.HighWater))))
		a.Settings[0].Now, a.Settings[0].Propose = grouped(sp.HighWater)+" pages", "about "+grouped(sp.Used)
		a.Settings[0].Run = fmt.Sprintf("ALTER TABLESPACE %s LOWER HIGH WATER MARK", sp.Name)
	}
	if a.Sure == Likely { // and easier than moving tables
		d.Advice = append([]Advice{a}, d.Advice...)
		return
	}
	d.Advice = append(d.Advice, a)
}

// spaceOf is the table space that a BM has read: the one whose used pages are as many, within a
// hundredth.
func spaceOf(w text.Worker, spaces []text.Space) *text.Space {
	var found *text.Space
	for i := range spaces {
		s := &spaces[i]
		if s.Used <= 0 || s.PageSize <= 0 || s.Temporary() {
			continue
		}
		used := s.Used * s.PageSize
		if off := w.Bytes - used; off <= used/100 && off >= -used/100 {
			if found != nil {
				return nil
			}
			found = s
		}
	}
	return found
}
