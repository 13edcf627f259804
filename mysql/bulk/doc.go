// Package bulk reads tables as they were at one moment, on many lanes, and fills tables.
//
// freeze.go (one view on many lanes, and the position in the log; hold.go keeps the tables as they are), split.go (ranges;
// filter.go writes their conditions), read.go and transform_read.go (rows out: packets become batches without a value being
// made), chunk.go (tables read beside a stream), write*.go and transform_write.go (rows in, strict in spite of LOAD DATA LOCAL),
// ledger.go (which ranges are there, exactly once), redo.go.
package bulk
