package notation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/ha"
)

// A WhatIf is a changed input of the calculation, and how the user has written it.
type WhatIf struct {
	Name     string
	Words    []string
	How      func(*ha.Load, *ha.Sites)
	Standbys []string // that it names
}

// A Sweep is what varies, and its values, in the units of ha; none: the usual ones.
type Sweep struct {
	By     ha.Axis
	Values []float64
}

// A change applies one part of a what-if; the standby is the one that is meant, or nil for all.
type adjust func(l *ha.Load, s *ha.Sites, each func(func(*ha.Standby)))

// whatIfWords are what can be changed, with the kind of its value and its parser.
var whatIfWords = map[string]struct {
	form string
	read func(string) (adjust, error)
}{
	"rtt":          {"a time", ofStandbys(ParseSeconds, func(b *ha.Standby, v float64) { b.Network = b.Network.WithRTT(v) })},
	"hop":          {"a time", ofStandbys(ParseSeconds, func(b *ha.Standby, v float64) { b.Network.Hop, b.Network.Hops = v, nil })},
	"network":      {"a rate", ofStandbys(ParseRate, func(b *ha.Standby, v float64) { b.Network.Rate = v })},
	"standby-disk": {"RATE,OVERHEAD", ofStandbys(ParseDisk, func(b *ha.Standby, v ha.Disk) { b.Disk = v })},
	"replay":       {"RATE or RATE,DELAY", ofStandbys(ParseReplay, func(b *ha.Standby, v Replay) { b.Replay, b.ReplayDelay = v.Rate, v.Delay })},
	"sync-relay":   {"on or off", ofStandbys(option.ParseOnOff, func(b *ha.Standby, v bool) { b.SyncRelay = v })},
	"disk":         {"RATE,OVERHEAD", ofAll(ParseDisk, func(l *ha.Load, s *ha.Sites, v ha.Disk) { ha.OnDisk(l, s, v) })},
	"clients":      {"a number", ofAll(strconv.Atoi, func(l *ha.Load, _ *ha.Sites, v int) { l.Clients = v })},
	"rate":         {"commits a second", ofAll(parseNumber, func(l *ha.Load, s *ha.Sites, v float64) { ha.ByRate.Set(l, s, v) })},
	"quorum":       {"FIRST n or ANY n", ofAll(ParseQuorum, func(_ *ha.Load, s *ha.Sites, v Quorum) { s.Wait, s.Any = v.Wait, v.Any })},
}

func ofAll[T any](read func(string) (T, error), give func(*ha.Load, *ha.Sites, T)) func(string) (adjust, error) {
	return func(text string) (adjust, error) {
		v, err := read(text)
		return func(l *ha.Load, s *ha.Sites, _ func(func(*ha.Standby))) { give(l, s, v) }, err
	}
}

func ofStandbys[T any](read func(string) (T, error), give func(*ha.Standby, T)) func(string) (adjust, error) {
	return func(text string) (adjust, error) {
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

// ParseWhatIf reads WORD=VALUE, several of them separated by ; and each with @STANDBY after the
// word if only one standby is meant.
func ParseWhatIf(v string) (WhatIf, error) {
	out := WhatIf{Name: v}
	var all []func(*ha.Load, *ha.Sites)
	for part := range strings.SplitSeq(v, ";") {
		word, value, ok := strings.Cut(part, "=")
		word, standby, _ := strings.Cut(strings.TrimSpace(word), "@")
		w, known := whatIfWords[word]
		if !ok || !known {
			return out, fmt.Errorf("must be WORD=VALUE, several separated by ;, such as 'rtt=5ms; disk=200MiB/s,1ms'; the words are %s", strings.Join(sortedWords(), ", "))
		}
		how, err := w.read(strings.TrimSpace(value))
		if err != nil {
			return out, fmt.Errorf("%s: must be %s", word, w.form)
		}
		out.Words = append(out.Words, word)
		if standby != "" {
			out.Standbys = append(out.Standbys, standby)
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
	out.How = func(l *ha.Load, s *ha.Sites) {
		for _, how := range all {
			how(l, s)
		}
	}
	return out, nil
}

// CheckNames checks that there is a standby of each name in it.
func (w WhatIf) CheckNames(standbys []ha.Standby) error {
	for _, name := range w.Standbys {
		if !slices.ContainsFunc(standbys, func(b ha.Standby) bool { return b.Name == name }) {
			var names []string
			for _, b := range standbys {
				names = append(names, b.Name)
			}
			return &tidemark.Error{Kind: tidemark.Invalid, Op: "calculate", Object: "--what-if " + w.Name, Err: errors.New("there is no standby " + name), Hint: "The standbys are " + strings.Join(names, ", ") + ". Name them with --network NAME=RATE,RTT."}
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
	"rtt": {ha.ByRTT, ParseSeconds}, "network": {ha.ByLink, ParseRate}, "clients": {ha.ByClients, parseNumber},
	"rate": {ha.ByRate, parseNumber}, "disk": {ha.ByDisk, ParseSeconds}, "standby-disk": {ha.ByStandby, ParseSeconds},
}

// ParseSweep reads WORD, or WORD=VALUE,VALUE,...
func ParseSweep(v string) (out Sweep, err error) {
	word, values, some := strings.Cut(v, "=")
	axis, ok := sweepAxes[strings.TrimSpace(word)]
	if !ok {
		return out, fmt.Errorf("must be one of rtt, network, clients, rate, disk and standby-disk, with values or without: rtt, or rtt=1ms,5ms,20ms")
	}
	out.By = axis.by
	if !some {
		return out, nil
	}
	for text := range strings.SplitSeq(values, ",") {
		x, err := axis.read(text)
		if err != nil {
			return out, fmt.Errorf("%q is not a value of %s", text, word)
		}
		out.Values = append(out.Values, x)
	}
	return out, nil
}
