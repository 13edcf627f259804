package sample

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// A Machine is what the processors of this machine did while a job ran.
type Machine struct {
	Processors int     `json:"processors"`
	Busy       float64 `json:"busy"`   // share of their time that they worked, 0 to 1
	IOWait     float64 `json:"iowait"` // share in which one was idle while something waited for a disk
	Own        float64 `json:"own"`    // share that this process used
	Steal      float64 `json:"steal"`  // share that the hypervisor gave to others
}

// ticks are counters of the processors, in units of the kernel (1/100 s), and our own time.
type ticks struct {
	busy, iowait, steal, all float64
	own                      time.Duration
}

// machine keeps ticks: at the start, at the last look, at the end.
type machine struct {
	first, last, end ticks
	told             ticks // when Interval was called last
	ok               bool
}

func (m *machine) start() {
	m.first, m.ok = readTicks()
	m.last, m.told = m.first, m.first
}

func (m *machine) stop() { m.end, _ = readTicks() }

// since returns the shares since the last call.
func (m *machine) since() *Machine {
	if !m.ok {
		return nil
	}
	now, ok := readTicks()
	if !ok {
		return nil
	}
	defer func() { m.last = now }()
	return now.minus(m.last)
}

// whole returns the shares since the start.
func (m *machine) whole() *Machine {
	if !m.ok {
		return nil
	}
	end := m.end
	if end.all == 0 {
		end, _ = readTicks()
	}
	return end.minus(m.first)
}

func (t ticks) minus(u ticks) *Machine {
	all := t.all - u.all
	if all <= 0 {
		return nil
	}
	m := &Machine{Processors: runtime.NumCPU(), Busy: (t.busy - u.busy) / all, IOWait: (t.iowait - u.iowait) / all, Steal: (t.steal - u.steal) / all}
	m.Own = (t.own - u.own).Seconds() * 100 / all
	return m
}

// readTicks reads /proc/stat (proc(5)); ok is false where there is none.
func readTicks() (t ticks, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var user, nice, system, idle, iowait, irq, softirq, steal float64
	if n, _ := fmt.Sscan(strings.TrimPrefix(line, "cpu"), &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal); n < 8 {
		return t, false
	}
	t.busy = user + nice + system + irq + softirq
	t.iowait, t.steal = iowait, steal
	t.all = t.busy + idle + iowait + steal
	t.own = ownTime()
	return t, true
}
