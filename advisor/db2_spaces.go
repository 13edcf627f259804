package advisor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/db2/text"
)

// muchFree is how many bytes below a high-water mark are worth moving extents for.
const muchFree = 64 << 20

// explainSpaces tells what table spaces mean for backups and restores of them.
func explainSpaces(d *Diagnosis, all []text.Space, around surroundings) {
	d.Of = "table spaces"
	var spaces []text.Space
	var used, below, total int64
	for _, s := range all {
		if s.Temporary() || s.Used < 0 || s.PageSize <= 0 {
			continue
		}
		spaces = append(spaces, s)
		used += s.Used * s.PageSize
		total += max(s.Total, 0) * s.PageSize
		below += freeBelow(s) * s.PageSize
		if odd := oddState(s); odd != "" {
			d.note("%s is %s.", s.Name, odd)
		}
	}
	d.Title = fmt.Sprintf("%s (%d temporary): %s used of %s", plural(len(all), "table space"), len(all)-len(spaces), size(used), size(total))
	if len(spaces) == 0 {
		d.Limit = "Nothing here is backed up by pages: all are temporary."
		return
	}
	d.fact("Free below high-water marks: %s, which a backup has to find its way around.", size(below))
	free := freeSpaces(d, spaces, around)
	largest := slices.MaxFunc(spaces, func(a, b text.Space) int { return cmp.Compare(a.Used*a.PageSize, b.Used*b.PageSize) })
	share := float64(largest.Used*largest.PageSize) / float64(max(used, 1))
	dominates := share > 0.5 && len(spaces) > 1 && used > muchFree
	d.fact("The largest is %s with %s of %s (%.1f%%).", largest.Name, size(largest.Used*largest.PageSize), size(used), 100*share)
	var limits []string
	if free != "" {
		limits = append(limits, free)
	}
	if dominates {
		limits = append(limits, fmt.Sprintf("One table space dominates: %s has %.1f%% of the used pages, and before 12.1 one BM reads it alone.", largest.Name, 100*share))
		d.Advice = append(d.Advice, dominating(largest, spaces, used, around))
	}
	if a, ok := oversized(spaces); ok {
		d.Advice = append(d.Advice, a)
		limits = append(limits, "A restore creates containers at their full size, which is far more than they hold.")
	}
	if len(limits) == 0 {
		d.Limit = "Nothing here slows a backup or a restore."
		return
	}
	d.Limit = strings.Join(limits, " ")
}

func freeBelow(s text.Space) int64 {
	if s.HighWater < 0 || s.Used < 0 {
		return 0
	}
	return max(s.HighWater-s.Used, 0)
}

// oddState names a state other than normal.
func oddState(s text.Space) string {
	if s.State == "" || strings.Trim(s.State, "0x") == "" {
		return ""
	}
	return fmt.Sprintf("in state %s (%s)", s.State, tidemark.Some(s.States, 3))
}

// freeSpaces advises on table spaces of which a quarter or more below the mark is free.
func freeSpaces(d *Diagnosis, spaces []text.Space, around surroundings) (limit string) {
	var loose []text.Space
	for _, s := range spaces {
		if free := freeBelow(s); free*4 >= s.HighWater && free*s.PageSize >= muchFree {
			loose = append(loose, s)
		}
	}
	if len(loose) == 0 {
		return ""
	}
	slices.SortFunc(loose, func(a, b text.Space) int {
		return cmp.Compare(freeBelow(b)*b.PageSize, freeBelow(a)*a.PageSize)
	})
	const most = 5
	for _, s := range loose[:min(most, len(loose))] {
		d.Advice = append(d.Advice, lower(s, around))
	}
	if len(loose) > most {
		d.note("%d more table spaces have a quarter or more free below their high-water marks.", len(loose)-most)
	}
	s := loose[0]
	return fmt.Sprintf("Free extents below the high-water mark limit a backup's reading: %s of the %s pages below that of %s are free (%s).", grouped(freeBelow(s)), grouped(s.HighWater), s.Name, percent(float64(freeBelow(s)), float64(s.HighWater)))
}

// lower is the advice for one of them.
func lower(s text.Space, around surroundings) Advice {
	free := freeBelow(s)
	a := Advice{
		Do:       fmt.Sprintf("Lower the high-water mark of %s.", s.Name),
		Evidence: []string{fmt.Sprintf("Used %s pages, high-water mark %s: %s pages (%s) between them are free.", grouped(s.Used), grouped(s.HighWater), grouped(free), size(free*s.PageSize))},
		Settings: []Setting{{Name: "high-water mark", Now: grouped(s.HighWater) + " pages", Propose: "about " + grouped(s.Used), Run: fmt.Sprintf("ALTER TABLESPACE %s LOWER HIGH WATER MARK", s.Name)}},
		Sure:     Likely, If: "it was created by 9.7 or newer (reclaimable storage), and no extent is pending delete",
		Cost: fmt.Sprintf("up to %s of extents are moved while applications run: I/O and log", size(min(free, s.Used)*s.PageSize)),
	}
	a.Settings = append(a.Settings, Setting{Name: "containers", Now: size(max(s.Total, 0) * s.PageSize), Propose: "about " + size(s.Used*s.PageSize), Run: fmt.Sprintf("ALTER TABLESPACE %s REDUCE MAX (automatic storage), or REDUCE (ALL CONTAINERS ...)", s.Name)})
	gaps := int64(0)
	if s.Extent > 0 {
		gaps = min(free, s.Used) / s.Extent
		a.Evidence = append(a.Evidence, fmt.Sprintf("Extents have %s (%s): reading stops at a free one, so it is in up to %s pieces.", plural(int(s.Extent), "page"), size(s.Extent*s.PageSize), grouped(gaps+1)))
	}
	a.Gain = fmt.Sprintf("%s of disk; how much time depends on how the free extents are spread", size(max(s.Total-s.Used, 0)*s.PageSize))
	b := around.backup()
	if b == nil {
		return a
	}
	for _, w := range b.BM {
		if sp := spaceOf(w, []text.Space{s}); sp == nil || w.IO <= 0 {
			continue
		}
		a.Evidence = append(a.Evidence, fmt.Sprintf("BM %s of the last backup in this text read it: %s in %s of I/O, %s.", w.ID, kB(w.Bytes), secs(w.IO), rate(w.Bytes, w.IO)))
		if before := around.faster(b, len(around.all)); before != nil {
			then := time.Duration(float64(w.Bytes) / before.readRate() * float64(time.Second))
			a.gain(b.took, b.took-(w.IO-then), fmt.Sprintf("at the %s of the backup before it, that is %s", rate(before.bytes, before.io), secs(then)))
		}
		break
	}
	return a
}

// dominating is the advice for a table space with most of the data.
func dominating(s text.Space, spaces []text.Space, used int64, around surroundings) Advice {
	n := min(len(spaces), 4)
	own := s.Used * s.PageSize
	a := Advice{
		Do:       fmt.Sprintf("Move tables out of %s, so that several BMs can read at once; or use Db2 12.1, where they share a table space.", s.Name),
		Evidence: []string{fmt.Sprintf("%s holds %s of %s.", s.Name, size(own), size(used))},
		Settings: []Setting{{Name: "table spaces", Now: fmt.Sprintf("the largest has %s", size(own)), Propose: fmt.Sprintf("%d or more of about %s each", n, size(used/int64(n))), Run: "CALL SYSPROC.ADMIN_MOVE_TABLE(...) for each table that moves"}},
		Gain:     fmt.Sprintf("reading takes down to 1/%d of the time, where the disks allow it: %s instead of %s in one BM", n, size(used/int64(n)), size(own)),
		Sure:     Likely, If: "a backup waits for reading: its statistics show that",
		Cost: "moving tables online needs their space a second time, and writes as much log",
	}
	if s.Containers == 1 {
		a.Evidence = append(a.Evidence, "It has 1 container, so prefetchers cannot read it in parallel.")
	}
	if b := around.backup(); b != nil && b.op == text.Backup && b.io > 0 {
		alone := time.Duration(float64(own) / b.readRate() * float64(time.Second))
		a.Evidence = append(a.Evidence, fmt.Sprintf("At the last backup's %s it takes one BM %s.", rate(b.bytes, b.io), secs(alone)))
	}
	return a
}

// oversized are table spaces whose containers are far larger than what was ever in them.
func oversized(spaces []text.Space) (Advice, bool) {
	var names []string
	var total, mark, used int64
	for _, s := range spaces {
		if s.HighWater < 0 || s.Total <= 0 || (s.Total-s.HighWater)*s.PageSize < 1<<30 || s.HighWater*2 > s.Total {
			continue
		}
		names = append(names, s.Name)
		total, mark, used = total+s.Total*s.PageSize, mark+s.HighWater*s.PageSize, used+s.Used*s.PageSize
	}
	if len(names) == 0 {
		return Advice{}, false
	}
	return Advice{
		Do:       "Reduce containers before the backup: a restore creates them at their full size, and on file systems without fast allocation (ext3) it writes every page of them first.",
		Evidence: []string{fmt.Sprintf("%s: %s of containers, of which %s were ever used, and %s are.", tidemark.Some(names, 5), size(total), size(mark), size(used))},
		Settings: []Setting{{Name: "containers", Now: size(total), Propose: "about " + size(mark), Run: fmt.Sprintf("ALTER TABLESPACE %s REDUCE", names[0])}, {Name: "DB2_USE_FAST_PREALLOCATION", Now: "not in the text", Propose: "ON", Run: "db2set DB2_USE_FAST_PREALLOCATION=ON"}},
		Gain:     fmt.Sprintf("%s less to allocate in a restore: %s at 100 MB/s where the file system writes them", size(total-mark), secs(time.Duration(float64(total-mark)/(100<<20)*float64(time.Second)))),
		Sure:     Likely, If: "the target of the restore is slow to allocate",
		Cost: "table spaces grow again when data comes",
	}, true
}
