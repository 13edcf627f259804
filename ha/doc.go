// Package ha calculates the cost of synchronous replication. It is arithmetic: package measure
// above it measures, and package report prints.
//
// A scanned Log becomes a Profile of the workload (Scan, Profiler; ReadProfile reads a stored one).
// The busiest interval of profiles is a Load (LoadOf), and the servers, their disks and the
// networks between them are Sites. Predict returns, as a Forecast, what each mode carries and what
// its commits cost, what would change that (WhatIf, Sweep), and lines to paste (Settings); Db2 has
// the formulas of Db2's HADR. MakePlan turns all this into a Plan with a recommendation.
//
// Rates are bytes a second and times are seconds everywhere except in printed text, which names its
// units (TimeText, SizeText, RateText, SpeedText).
package ha

import (
	"context"

	"github.com/tidemarkdb/tidemark"
)

// A Log is scanned from its beginning to its end. The record that emit gets is valid until emit
// returns; an error of emit ends the scan with that error.
type Log interface {
	Scan(ctx context.Context, emit func(*tidemark.LogRecord) error) (tidemark.LogScan, error)
}

// A Disk is the time of one durable write: Overhead + bytes/Rate. Quantiles are of a write of Unit
// bytes.
type Disk struct {
	Rate      float64    `json:"bytes_per_second"`
	Overhead  float64    `json:"overhead_seconds"`
	Unit      int        `json:"unit_bytes,omitempty"`
	Quantiles []Quantile `json:"quantiles,omitempty"`
}

// Write returns how long a write of so many bytes takes, in seconds.
func (d Disk) Write(bytes float64) float64 {
	if d.Rate == 0 {
		return d.Overhead
	}
	return d.Overhead + bytes/d.Rate
}

// A Network is a path to a standby: the round trip of a small message, and the rate in bytes a
// second. Hop is what both ends add to each round trip by waking up, without their disks.
type Network struct {
	Rate      float64    `json:"bytes_per_second"`
	RTT       float64    `json:"rtt_seconds"`
	Hop       float64    `json:"hop_seconds,omitempty"`
	Quantiles []Quantile `json:"rtt_quantiles,omitempty"`
	Hops      []Quantile `json:"hop_quantiles,omitempty"` // Hop is their median
}

// Send returns how long sending so many bytes takes, in seconds, without the round trip.
func (n Network) Send(bytes float64) float64 {
	if n.Rate == 0 {
		return 0
	}
	return bytes / n.Rate
}

// A Quantile says that a fraction P (0.99) of the measured times is at most Value seconds.
type Quantile struct {
	P     float64 `json:"p"`
	Value float64 `json:"seconds"`
}
