package option

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Each of these functions makes the Set of a Line, which parses a value of one form into the field
// that it points to.

// OnOff takes on or off, and words like them.
func OnOff(at *bool) func(string) error {
	return func(v string) error {
		on, err := ParseOnOff(v)
		*at = on
		return err
	}
}

// Choose takes one of several words, and calls its function.
func Choose(choices map[string]func()) func(string) error {
	return func(v string) error {
		var do func()
		err := Word(&do, choices)(v)
		if err == nil {
			do()
		}
		return err
	}
}

// OneOf takes one of several words as it is.
func OneOf[T ~string](words []T, at *T) func(string) error {
	return func(v string) error {
		if !slices.Contains(words, T(v)) {
			return fmt.Errorf("must be one of %s", strings.Trim(fmt.Sprint(words), "[]"))
		}
		*at = T(v)
		return nil
	}
}

// Word takes one of several words, and sets its value.
func Word[T any](at *T, words map[string]T) func(string) error {
	return func(v string) error {
		is, ok := words[v]
		if !ok {
			return fmt.Errorf("is not one of its choices")
		}
		*at = is
		return nil
	}
}

// Parsed takes what parse can read.
func Parsed[T any](at *T, parse func(string) (T, error)) func(string) error {
	return func(v string) (err error) {
		*at, err = parse(v)
		return err
	}
}

// Each appends what parse reads.
func Each[T any](at *[]T, parse func(string) (T, error)) func(string) error {
	return func(v string) error {
		x, err := parse(v)
		*at = append(*at, x)
		return err
	}
}

// ParsePast reads a time in the past: how long ago, or a date in this machine's time zone.
func ParsePast(v string) (time.Time, error) {
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
	return time.Time{}, fmt.Errorf("must be a time in the past (90m, 7d), or a date such as 2026-11-21 or 2026-11-21 19:30:00")
}

// Text takes anything.
func Text(at *string) func(string) error {
	return func(v string) error { *at = v; return nil }
}

// List appends anything.
func List(at *[]string) func(string) error {
	return func(v string) error { *at = append(*at, v); return nil }
}

// Number takes a whole number from lo to hi.
func Number(lo, hi int, at *int) func(string) error {
	return func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < lo || n > hi {
			return fmt.Errorf("must be a whole number from %d to %d", lo, hi)
		}
		*at = n
		return nil
	}
}

// CountOrNone is a number for which 0 means none, while the packages below take their zero value
// for "default" and a negative one for none.
func CountOrNone(hi int, at *int) func(string) error {
	return func(v string) error {
		if err := Number(0, hi, at)(v); err != nil {
			return err
		}
		if *at == 0 {
			*at = -1
		}
		return nil
	}
}

// Number64 takes a whole number, 0 or more.
func Number64(at *int64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("must be a whole number, 0 or more")
		}
		*at = n
		return nil
	}
}

// Size takes what ParseSize can read.
func Size(at *int64) func(string) error {
	return func(v string) error {
		n, err := ParseSize(v)
		*at = n
		return err
	}
}

// Duration takes a duration of 0 or more.
func Duration(at *time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < 0 {
			return fmt.Errorf("must be a duration such as 30s")
		}
		*at = d
		return nil
	}
}

// ParseOnOff reads on or off, and words like them.
func ParseOnOff(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "on", "true", "yes", "1", "":
		return true, nil
	case "off", "false", "no", "0":
		return false, nil
	}
	return false, fmt.Errorf("must be on or off")
}

// ParseSize reads 100, 64kB, 8MB, 1.5GB; units are powers of 1024.
func ParseSize(v string) (int64, error) {
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
