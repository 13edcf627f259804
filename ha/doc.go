// Package ha answers what synchronous replication would cost. It is arithmetic: what measures is
// package measure above it, what prints is package report.
//
// A scanned Log becomes a Profile of the workload (Scan, Profiler; ReadProfile reads one that was
// written). The busiest interval of profiles is a Load (LoadOf), and the servers, their disks and
// the networks between them are Sites. Predict says of each mode what it carries and what its
// commits cost, as a Forecast, with what would change that (WhatIf, Sweep) and lines to paste
// (Settings); Db2 has the formulas of Db2's HADR. MakePlan makes of it a Plan, which says what to do.
//
// Rates are bytes a second and times are seconds everywhere but in what prints them, which names
// its units (TimeText, SizeText, RateText, SpeedText).
package ha

import (
	"context"

	"github.com/tidemarkdb/tidemark"
)

// A Log is scanned from its beginning to its end. The record that emit gets is valid until it
// returns; an error of emit ends the scan with that error.
type Log interface {
	Scan(ctx context.Context, emit func(*tidemark.LogRecord) error) (tidemark.LogScan, error)
}

// A Disk is how long one write takes that has to be on disk when it returns: Overhead +
// bytes/Rate. Quantiles are of a write of Unit bytes.
type Disk struct {
	Rate      float64    `json:"bytes_per_second"`
	Overhead  float64    `json:"overhead_seconds"`
	Unit      int        `json:"unit_bytes,omitempty"`
	Quantiles []Quantile `json:"quantiles,omitempty"`
}

// Write is how long a write of so many bytes takes, in seconds.
func (d Disk) Write(bytes float64) float64 {
	if d.Rate == 0 {
		return d.Overhead
	}
	return d.Overhead + bytes/d.Rate
}

// A Network is a way to a standby: a round trip of a small message, and the rate at which
// bytes go. Hop is what both ends add to each round trip by waking up, without their disks.
type Network struct {
	Rate      float64    `json:"bytes_per_second"`
	RTT       float64    `json:"rtt_seconds"`
	Hop       float64    `json:"hop_seconds,omitempty"`
	Quantiles []Quantile `json:"rtt_quantiles,omitempty"`
	Hops      []Quantile `json:"hop_quantiles,omitempty"` // Hop is their median
}

// Send is how long so many bytes take to be sent, in seconds, without the round trip.
func (n Network) Send(bytes float64) float64 {
	if n.Rate == 0 {
		return 0
	}
	return bytes / n.Rate
}

// A Quantile says that a part P (0.99) of what was measured is at most Value seconds.
type Quantile struct {
	P     float64 `json:"p"`
	Value float64 `json:"seconds"`
}
