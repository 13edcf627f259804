package screen

import (
	"fmt"
	"strings"
	"time"
)

func perSecond(n int64, seconds float64) int64 {
	if seconds <= 0 {
		return 0
	}
	return int64(float64(n) / seconds)
}

// Count is a number of things: 1 row, 2 rows.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Commas(int64(n)) + " " + what + "s"
}

// Commas writes 1234567 as 1,234,567.
func Commas(n int64) string {
	s := fmt.Sprint(n)
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if neg {
		s = "-" + s
	}
	return s
}

// Bytes writes a size with a unit of 1024 steps.
func Bytes(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// Clock is a duration as a clock shows it.
func Clock(d time.Duration) string {
	s := int(d.Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}

// Percent is how much of total is done.
func Percent(done, total int64) int {
	return int(float64(done) / float64(total) * 100)
}
