package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha"
)

// A whatIf is a change of what is calculated with, and how the user has written it.
type whatIf struct {
	name     string
	words    []string
	how      func(*ha.Load, *ha.Sites)
	standbys []string // that it names
}

// A sweep is what varies, and its values, in the units of ha; none: the usual ones.
type sweep struct {
	by     ha.Axis
	values []float64
}

// A change makes one thing of a what-if; the standby is the one that is meant, or nil for all.
type change func(l *ha.Load, s *ha.Sites, each func(func(*ha.Standby)))

// whatIfWords are what can be changed, with what its value is and how it is read.
var whatIfWords = map[string]struct {
	form string
	read func(string) (change, error)
}{
	"rtt":          {"a time", ofStandbys(parseSeconds, func(b *ha.Standby, v float64) { b.Network = b.Network.WithRTT(v) })},
	"hop":          {"a time", ofStandbys(parseSeconds, func(b *ha.Standby, v float64) { b.Network.Hop, b.Network.Hops = v, nil })},
	"network":      {"a rate", ofStandbys(parseRate, func(b *ha.Standby, v float64) { b.Network.Rate = v })},
	"standby-disk": {"RATE,OVERHEAD", ofStandbys(parseDisk, func(b *ha.Standby, v ha.Disk) { b.Disk = v })},
	"replay":       {"RATE or RATE,DELAY", ofStandbys(parseReplay, func(b *ha.Standby, v replay) { b.Replay, b.ReplayDelay = v.rate, v.delay })},
	"sync-relay":   {"on or off", ofStandbys(parseOnOff, func(b *ha.Standby, v bool) { b.SyncRelay = v })},
	"disk":         {"RATE,OVERHEAD", ofAll(parseDisk, func(l *ha.Load, s *ha.Sites, v ha.Disk) { ha.OnDisk(l, s, v) })},
	"clients":      {"a number", ofAll(strconv.Atoi, func(l *ha.Load, _ *ha.Sites, v int) { l.Clients = v })},
	"rate":         {"commits a second", ofAll(parseNumber, func(l *ha.Load, s *ha.Sites, v float64) { ha.ByRate.Set(l, s, v) })},
	"quorum":       {"FIRST n or ANY n", ofAll(parseQuorumOf, func(_ *ha.Load, s *ha.Sites, v quorum) { s.Wait, s.Any = v.wait, v.any })},
}

func ofAll[T any](read func(string) (T, error), give func(*ha.Load, *ha.Sites, T)) func(string) (change, error) {
	return func(text string) (change, error) {
		v, err := read(text)
		return func(l *ha.Load, s *ha.Sites, _ func(func(*ha.Standby))) { give(l, s, v) }, err
	}
}

func ofStandbys[T any](read func(string) (T, error), give func(*ha.Standby, T)) func(string) (change, error) {
	return func(text string) (change, error) {
		v, err := read(text)
		return func(_ *ha.Load, _ *ha.Sites, each func(func(*ha.Standby))) {
			each(func(b *ha.Standby) { give(b, v) })
		}, err
	}
}

func parseNumber(v string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(v, "/s"), 64)
	if err == nil && n <= 0 {
		err = strconv.ErrRange
	}
	return n, err
}

// parseWhatIf reads WORD=VALUE, several of them parted by ; and each with @STANDBY behind the
// word where only one standby is meant.
func parseWhatIf(v string) (whatIf, error) {
	out := whatIf{name: v}
	var all []func(*ha.Load, *ha.Sites)
	for part := range strings.SplitSeq(v, ";") {
		word, value, ok := strings.Cut(part, "=")
		word, standby, _ := strings.Cut(strings.TrimSpace(word), "@")
		w, known := whatIfWords[word]
		if !ok || !known {
			return out, fmt.Errorf("must be WORD=VALUE, several parted by ;, such as 'rtt=5ms; disk=200MiB/s,1ms'; the words are %s", strings.Join(sortedWords(), ", "))
		}
		how, err := w.read(strings.TrimSpace(value))
		if err != nil {
			return out, fmt.Errorf("%s: must be %s", word, w.form)
		}
		out.words = append(out.words, word)
		if standby != "" {
			out.standbys = append(out.standbys, standby)
		}
		all = append(all, func(l *ha.Load, s *ha.Sites) {
			how(l, s, func(one func(*ha.Standby)) {
				for i := range s.Standbys {
					if standby == "" || s.Standbys[i].Name == standby {
						one(&s.Standbys[i])
					}
				}
			})
		})
	}
	out.how = func(l *ha.Load, s *ha.Sites) {
		for _, how := range all {
			how(l, s)
		}
	}
	return out, nil
}

// checkNames says whether there is a standby of each name that it has.
func (w whatIf) checkNames(standbys []ha.Standby) error {
	for _, name := range w.standbys {
		if !slices.ContainsFunc(standbys, func(b ha.Standby) bool { return b.Name == name }) {
			var names []string
			for _, b := range standbys {
				names = append(names, b.Name)
			}
			return tidemark.Errorf(tidemark.Invalid, "calculate", "--what-if "+w.name, "there is no standby "+name, "the standbys are "+strings.Join(names, ", ")+"; --network NAME=RATE,RTT names them")
		}
	}
	return nil
}

func sortedWords() (words []string) {
	for w := range whatIfWords {
		words = append(words, w)
	}
	slices.Sort(words)
	return words
}

// sweepAxes are the words of --sweep, and how their values are read.
var sweepAxes = map[string]struct {
	by   ha.Axis
	read func(string) (float64, error)
}{
	"rtt": {ha.ByRTT, parseSeconds}, "network": {ha.ByLink, parseRate}, "clients": {ha.ByClients, parseNumber},
	"rate": {ha.ByRate, parseNumber}, "disk": {ha.ByDisk, parseSeconds}, "standby-disk": {ha.ByStandby, parseSeconds},
}

// parseSweep reads WORD, or WORD=VALUE,VALUE,...
func parseSweep(v string) (out sweep, err error) {
	word, values, some := strings.Cut(v, "=")
	axis, ok := sweepAxes[strings.TrimSpace(word)]
	if !ok {
		return out, fmt.Errorf("must be one of rtt, network, clients, rate, disk and standby-disk, with values or without: rtt, or rtt=1ms,5ms,20ms")
	}
	out.by = axis.by
	if !some {
		return out, nil
	}
	for text := range strings.SplitSeq(values, ",") {
		x, err := axis.read(text)
		if err != nil {
			return out, fmt.Errorf("%q is no value of %s", text, word)
		}
		out.values = append(out.values, x)
	}
	return out, nil
}
