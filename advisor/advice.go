package advisor

import (
	"fmt"
	"strings"
	"time"
)

// Advice is what to change, and why.
type Advice struct {
	Rule     string    `json:"rule,omitempty"`         // its name in the manual
	Finding  string    `json:"finding,omitempty"`      // what limits, in one sentence
	Do       string    `json:"do,omitempty"`           // one sentence; "" if there is nothing to gain
	Evidence []string  `json:"evidence,omitempty"`     // the figures it follows from
	Settings []Setting `json:"settings,omitempty"`     // what it changes
	Gain     string    `json:"gain,omitempty"`         // with its arithmetic
	Seconds  float64   `json:"gain_seconds,omitempty"` // the same as a number, where it is one
	Sure     Sureness  `json:"sure,omitempty"`
	If       string    `json:"if,omitempty"` // what it depends on
	Cost     string    `json:"cost,omitempty"`
}

// String returns the advice in a few sentences, for reports.
func (a Advice) String() string {
	out := a.Finding
	if a.Do != "" {
		out = strings.TrimSpace(out + " " + a.Do)
	}
	if a.Seconds > 0 {
		out += fmt.Sprintf(" It would gain at most %.1f s.", a.Seconds)
	}
	return out
}

// Sentences returns each advice in a few sentences.
func Sentences(all []Advice) []string {
	out := make([]string, len(all))
	for i, a := range all {
		out[i] = a.String()
	}
	return out
}

// A Setting has a value now, and another that is proposed.
type Setting struct {
	Name    string `json:"name"`
	Now     string `json:"now"`
	Propose string `json:"propose"`
	Run     string `json:"run,omitempty"` // the command that sets it
}

// Sureness is how sure advice is.
type Sureness string

const (
	Certain  Sureness = "certain"  // the figures leave no other way
	Likely   Sureness = "likely"   // if what figures do not show is as usual
	Possible Sureness = "possible" // worth a trial
)

// gain writes a gain and its arithmetic.
func (a *Advice) gain(took, becomes time.Duration, how string) {
	d := max(took-becomes, 0)
	a.Seconds = d.Seconds()
	a.Gain = fmt.Sprintf("at most %s of %s: %s", secs(d), secs(took), how)
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func kB(n int64) string { return grouped(n>>10) + " kB" }

// size writes an amount with a unit that suits it.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.0f GB", float64(n)/(1<<30))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%.0f MB", float64(n)/(1<<20))
	}
	return kB(n)
}

// rate is an amount in a time, per second.
func rate(n int64, d time.Duration) string {
	if d <= 0 {
		return "unknown"
	}
	mb := float64(n) / (1 << 20) / d.Seconds()
	if mb < 1 {
		return fmt.Sprintf("%.0f kB/s", mb*1024)
	}
	return fmt.Sprintf("%.1f MB/s", mb)
}

func percent(a, b float64) string {
	if b <= 0 {
		return "0%"
	}
	return fmt.Sprintf("%.1f%%", 100*a/b)
}

func percentOf(a, b time.Duration) string { return percent(float64(a), float64(b)) }

// plural is 1 table space, 2 table spaces.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return grouped(int64(n)) + " " + what + "s"
}
