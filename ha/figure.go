package ha

import (
	"fmt"
	"math"
)

// units are the units of one kind of figures, the smallest first.
type units []unit

// A unit formats figures of at least from, divided by size.
type unit struct {
	from, size float64
	format     string
}

// text formats a figure in the largest unit that it reaches.
func (u units) text(v float64) string {
	i := len(u) - 1
	for i > 0 && math.Abs(v) < u[i].from {
		i--
	}
	if size := u[i].size; size < 1 {
		v *= math.Round(1 / size) // a millionth is not exact in binary
	} else {
		v /= size
	}
	return fmt.Sprintf(u[i].format, v)
}

var (
	timeUnits  = units{{0, 1e-6, "%.0f us"}, {1e-3, 1e-3, "%.2f ms"}, {1, 1, "%.1f s"}, {120, 60, "%.0f min"}, {7200, 3600, "%.1f h"}, {48 * 3600, 86400, "%.0f days"}}
	sizeUnits  = units{{0, 1, "%.0f B"}, {1 << 10, 1 << 10, "%.1f KiB"}, {1 << 20, 1 << 20, "%.1f MiB"}, {1 << 30, 1 << 30, "%.1f GiB"}}
	speedUnits = units{{0, 1e3, "%.1f kbit/s"}, {1e6, 1e6, "%.1f Mbit/s"}}

	// Ticks of a chart are round: 60 and 3600 seconds are a minute and an hour, 90 seconds stay 90
	// s.
	shortTimeUnits = units{{0, 1e-6, "%.3g us"}, {0.9999e-3, 1e-3, "%.3g ms"}, {0.9999, 1, "%.3g s"}, {60, 60, "%.3g min"}, {61, 1, "%.3g s"}, {120, 60, "%.3g min"},
		{3600, 3600, "%.3g h"}, {3601, 60, "%.3g min"}, {7200, 3600, "%.3g h"}, {72 * 3600, 86400, "%.3g days"}}
	shortSizeUnits = units{{0, 1, "%.3g B"}, {0.9999e3, 1e3, "%.3g kB"}, {0.9999e6, 1e6, "%.3g MB"}, {0.9999e9, 1e9, "%.3g GB"}}
)

// TimeText formats a time in seconds.
func TimeText(s float64) string {
	if s == 0 {
		return "0 s"
	}
	return timeUnits.text(s)
}

// SizeText formats a size in bytes, in powers of 1024.
func SizeText(bytes float64) string { return sizeUnits.text(bytes) }

// RateText formats a rate in bytes a second; an infinite one is "any".
func RateText(bytes float64) string {
	if math.IsInf(bytes, 1) {
		return "any"
	}
	return SizeText(bytes) + "/s"
}

// SpeedText formats the rate of a link in bits a second, in powers of ten.
func SpeedText(bits float64) string { return speedUnits.text(bits) }

// ShortTime formats a time in seconds for ticks of charts.
func ShortTime(s float64) string { return orZero(s, shortTimeUnits) }

// ShortSize formats a size in bytes for ticks of charts, which are round in powers of ten.
func ShortSize(bytes float64) string { return orZero(bytes, shortSizeUnits) }

func orZero(v float64, in units) string {
	if v == 0 {
		return "0"
	}
	return in.text(v)
}
