package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/mysql"
)

func onOff(at func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, v string) error {
		on, err := parseOnOff(v)
		*at(s) = on
		return err
	}
}

func choose(choices map[string]func(*settings)) func(*settings, string) error {
	return func(s *settings, v string) error {
		f, ok := choices[v]
		if !ok {
			return fmt.Errorf("is not one of its choices")
		}
		f(s)
		return nil
	}
}

func oneOf[T ~string](words []T, at func(*settings) *T) func(*settings, string) error {
	return func(s *settings, v string) error {
		if !slices.Contains(words, T(v)) {
			return fmt.Errorf("must be one of %s", strings.Trim(fmt.Sprint(words), "[]"))
		}
		*at(s) = T(v)
		return nil
	}
}

func sqlStates(s *settings, v string) error {
	for state := range strings.SplitSeq(v, ",") {
		state = strings.ToUpper(strings.TrimSpace(state))
		if len(state) != 5 || strings.Trim(state, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return fmt.Errorf("must be SQLSTATEs of five letters or digits, such as 23505,23503")
		}
		s.stream.Apply.OKStates = append(s.stream.Apply.OKStates, state)
	}
	return nil
}

// parsePast reads a time: how long ago, or when in this machine's time zone.
func parsePast(v string) (time.Time, error) {
	if days, ok := strings.CutSuffix(v, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Now().AddDate(0, 0, -int(n)), nil
		}
	}
	if d, err := time.ParseDuration(v); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02T15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, v, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("must be a time that has passed (90m, 7d), or a date such as 2026-11-21 or 2026-11-21 19:30:00")
}

func text(at func(*settings) *string) func(*settings, string) error {
	return func(s *settings, v string) error { *at(s) = v; return nil }
}

func point(at func(*settings) *job.Point) func(*settings, string) error {
	return func(s *settings, v string) (err error) {
		*at(s), err = job.ParsePoint(v)
		return err
	}
}

func list(at func(*settings) *[]string) func(*settings, string) error {
	return func(s *settings, v string) error { *at(s) = append(*at(s), v); return nil }
}

func number(lo, hi int, at func(*settings) *int) func(*settings, string) error {
	return func(s *settings, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < lo || n > hi {
			return fmt.Errorf("must be a whole number from %d to %d", lo, hi)
		}
		*at(s) = n
		return nil
	}
}

// count0 is a number of which 0 means none, where the packages below take their
// zero value for "default" and a negative one for none.
func count0(hi int, at func(*settings) *int) func(*settings, string) error {
	return func(s *settings, v string) error {
		if err := number(0, hi, at)(s, v); err != nil {
			return err
		}
		if *at(s) == 0 {
			*at(s) = -1
		}
		return nil
	}
}

func number64(at func(*settings) *int64) func(*settings, string) error {
	return func(s *settings, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("must be a whole number from 0 on")
		}
		*at(s) = n
		return nil
	}
}

func size(at func(*settings) *int64) func(*settings, string) error {
	return func(s *settings, v string) error {
		n, err := parseSize(v)
		*at(s) = n
		return err
	}
}

// bytesPerSecond is a rate; 0 is none.
func bytesPerSecond(at func(*settings) *float64) func(*settings, string) error {
	return func(s *settings, v string) (err error) {
		if v == "0" {
			*at(s) = 0
			return nil
		}
		*at(s), err = parseRate(v)
		return err
	}
}

func duration(at func(*settings) *time.Duration) func(*settings, string) error {
	return func(s *settings, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return fmt.Errorf("must be a duration such as 30s")
		}
		*at(s) = d
		return nil
	}
}

func parseOnOff(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "on", "true", "yes", "1", "":
		return true, nil
	case "off", "false", "no", "0":
		return false, nil
	}
	return false, fmt.Errorf("must be on or off")
}

// parseSize reads 100, 64kB, 8MB, 1.5GB; units are powers of 1024.
func parseSize(v string) (int64, error) {
	s := strings.ToLower(strings.TrimSpace(v))
	unit := int64(1)
	for suffix, n := range map[string]int64{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40} {
		for _, form := range []string{suffix, suffix + "b", suffix + "ib"} {
			if rest, ok := strings.CutSuffix(s, form); ok && rest != "" && rest[len(rest)-1] <= '9' {
				s, unit = rest, n
			}
		}
	}
	f, err := strconv.ParseFloat(strings.TrimSuffix(s, "b"), 64)
	if err != nil || f < 0 || f*float64(unit) > 1<<62 {
		return 0, fmt.Errorf("must be a size such as 64MB")
	}
	return int64(f * float64(unit)), nil
}

// zeroDates sets what becomes of dates that are none, for readers of MySQL, targets and comparisons.
func zeroDates(p mysql.Policy, name string) func(*settings) {
	return func(s *settings) {
		s.engine.MySQL.ZeroDates, s.zeroDates, s.engine.Postgres.NullDates = p, name, p == mysql.Null
	}
}
