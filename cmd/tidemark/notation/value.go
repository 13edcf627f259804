// Package notation reads users' notation for the inputs of ha calculate: disks (200MiB/s,1ms),
// links, quorums, measured commits, and changes of any of them (what-if, sweep). value.go has the
// values, change.go the changes.
package notation

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// A Quorum is how many standbys a commit waits for: of the first so many, or of any.
type Quorum struct {
	Wait int
	Any  bool
}

// ParseQuorum reads PostgreSQL's FIRST n or ANY n.
func ParseQuorum(v string) (q Quorum, err error) {
	how, n, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(v)), " ")
	q.Wait, err = strconv.Atoi(strings.TrimSpace(n))
	q.Any = how == "ANY"
	if err != nil || q.Wait < 1 || how != "FIRST" && how != "ANY" {
		return q, fmt.Errorf("must be FIRST n or ANY n, such as ANY 1")
	}
	return q, nil
}

// ParseDisk reads RATE,OVERHEAD or a file.
func ParseDisk(v string) (d ha.Disk, err error) {
	rate, overhead, ok := strings.Cut(v, ",")
	if !ok {
		if err := readMeasured(v, "RATE,OVERHEAD such as 200MiB/s,1ms", &d); err != nil {
			return d, err
		}
		if d.Rate == 0 && d.Overhead > 0 {
			return d, nil // no limit was found
		}
		return d, positive(d.Rate, d.Overhead)
	}
	if d.Rate, err = ParseRate(rate); err != nil {
		return d, err
	}
	d.Overhead, err = ParseSeconds(overhead)
	return d, err
}

// A NamedNetwork is the network to a standby, with its name.
type NamedNetwork struct {
	ha.Network
	Name string
}

var networkName = regexp.MustCompile(`^([\p{L}_][\p{L}\p{N}_.-]*)=(.+)$`)

// ParseNetwork reads RATE,RTT or RATE,RTT,HOP or a file, with NAME= before it or not.
func ParseNetwork(v string) (n NamedNetwork, err error) {
	if m := networkName.FindStringSubmatch(v); m != nil {
		n.Name, v = m[1], m[2]
	}
	rate, rtt, ok := strings.Cut(v, ",")
	if !ok {
		if err := readMeasured(v, "RATE,RTT such as 10MiB/s,100ms", &n.Network); err != nil {
			return n, err
		}
		return n, positive(n.Rate, n.RTT)
	}
	rtt, hop, _ := strings.Cut(rtt, ",")
	if n.Rate, err = ParseRate(rate); err != nil {
		return n, err
	}
	if hop != "" {
		if n.Hop, err = ParseSeconds(hop); err != nil {
			return n, err
		}
	}
	n.RTT, err = ParseSeconds(rtt)
	return n, err
}

// A Replay is how a standby applies its log: bytes a second (0: no limit), and how long a
// commit record takes, in seconds.
type Replay struct{ Rate, Delay float64 }

// ParseReplay reads RATE or RATE,DELAY; the rate may be any.
func ParseReplay(v string) (r Replay, err error) {
	rate, delay, ok := strings.Cut(v, ",")
	if !strings.EqualFold(strings.TrimSpace(rate), "any") {
		if r.Rate, err = ParseRate(rate); err != nil {
			return r, err
		}
	}
	if ok {
		r.Delay, err = ParseSeconds(delay)
	}
	return r, err
}

// ParseLocal reads CLIENTS=RATE[,P50,P99], or a file of them as JSON.
func ParseLocal(v string) ([]ha.Local, error) {
	clients, rest, ok := strings.Cut(v, "=")
	if !ok {
		text, err := plainfile.Read(v, plainfile.Large)
		var out []ha.Local
		if err != nil || json.Unmarshal(text, &out) != nil || len(out) == 0 {
			return nil, fmt.Errorf(`must be CLIENTS=RATE, such as 8=3400, or CLIENTS=RATE,P50,P99, such as 8=3400,2ms,9ms, or a file with [{"clients": 8, "commits_per_second": 3400}]`)
		}
		return out, nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(clients))
	parts := strings.Split(rest, ",")
	rate, rerr := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(parts[0]), "/s"), 64)
	if err != nil || rerr != nil || n < 1 || rate <= 0 || len(parts) != 1 && len(parts) != 3 {
		return nil, fmt.Errorf("must be CLIENTS=RATE, such as 8=3400, or CLIENTS=RATE,P50,P99, such as 8=3400,2ms,9ms")
	}
	l := ha.Local{Clients: n, Rate: rate}
	for i, p := range []float64{0.5, 0.99}[:len(parts)-1] {
		s, err := ParseSeconds(parts[i+1])
		if err != nil {
			return nil, err
		}
		l.Quantiles = append(l.Quantiles, ha.Quantile{P: p, Value: s})
	}
	return []ha.Local{l}, nil
}

// ParsePaused reads PAUSE=TIME.
func ParsePaused(v string) (p ha.Pause, err error) {
	pause, commit, _ := strings.Cut(v, "=")
	var err2 error
	p.Seconds, err = ParseSeconds(pause)
	p.Commit, err2 = ParseSeconds(commit)
	if err != nil || err2 != nil || p.Seconds == 0 || p.Commit == 0 {
		return p, fmt.Errorf("must be PAUSE=TIME, such as 10ms=1.2ms")
	}
	return p, nil
}

var nearForm = regexp.MustCompile(`^(\w+):(\d+)=([\d.]+)(?:/s)?,(.+)$`)

// ParseNear reads MODE:CLIENTS=RATE,RTT.
func ParseNear(v string) (n ha.Near, err error) {
	form := fmt.Errorf("must be MODE:CLIENTS=RATE,RTT, such as on:32=7200,0.4ms")
	m := nearForm.FindStringSubmatch(strings.TrimSpace(v))
	if m == nil {
		return n, form
	}
	n.Mode = m[1]
	n.Clients, err = strconv.Atoi(m[2])
	rate, rerr := strconv.ParseFloat(m[3], 64)
	rtt, terr := ParseSeconds(m[4])
	if err != nil || rerr != nil || terr != nil || n.Clients < 1 || rate <= 0 {
		return n, form
	}
	n.Rate, n.RTT = rate, rtt
	return n, nil
}

// readMeasured reads the output of ha measure.
func readMeasured(file, form string, into any) error {
	text, err := plainfile.Read(file, plainfile.Large)
	if err != nil {
		return fmt.Errorf("must be %s, or a file from tidemark ha measure --json", form)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the file is not from tidemark ha measure --json: %w", err)
	}
	return nil
}

func positive(rate, seconds float64) error {
	if rate <= 0 || seconds < 0 {
		return fmt.Errorf("the file has no rate (bytes_per_second) above 0")
	}
	return nil
}

// Units of rates, in bytes a second, and of times, in seconds.
var (
	rateUnits = map[string]float64{"": ha.MiB, "B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "KiB/s": 1 << 10, "MiB/s": ha.MiB, "GiB/s": 1 << 30,
		"kbit/s": 1e3 / 8, "Mbit/s": 1e6 / 8, "Gbit/s": 1e9 / 8}
	timeUnits = map[string]float64{"": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
)

// ParseRate reads a rate, bytes a second; without a unit it is MiB/s.
func ParseRate(v string) (float64, error) {
	rate, err := withUnit(v, rateUnits)
	if err != nil || rate <= 0 {
		return 0, fmt.Errorf("%q must be a rate above 0, such as 200MiB/s, 10MB/s or 1Gbit/s", v)
	}
	return rate, nil
}

// ParseSeconds reads a time, in seconds; without a unit it is seconds.
func ParseSeconds(v string) (float64, error) {
	s, err := withUnit(v, timeUnits)
	if err != nil || s < 0 {
		return 0, fmt.Errorf("%q must be a time of 0 or more, such as 0.5ms, 100us or 0.001s", v)
	}
	return s, nil
}

func withUnit(v string, units map[string]float64) (float64, error) {
	v = strings.TrimSpace(v)
	end := strings.IndexFunc(v, func(r rune) bool { return !strings.ContainsRune("0123456789.eE+-", r) })
	if end < 0 {
		end = len(v)
	}
	n, err := strconv.ParseFloat(v[:end], 64)
	unit, ok := units[strings.TrimSpace(v[end:])]
	if err != nil || !ok || n > 1e15 {
		return 0, strconv.ErrSyntax
	}
	return n * unit, nil
}
