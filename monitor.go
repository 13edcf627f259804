package tidemark

import "time"

// A Measure is a column of a monitor table, with its value in one row: a time.Time, an
// int64, a float64 or a string.
type Measure struct {
	Name  string
	Value any
}

// KeepMonitor is how long rows of monitor tables are kept: IBM's MONITOR_LIMIT of 10080
// minutes.
const KeepMonitor = 7 * 24 * time.Hour
