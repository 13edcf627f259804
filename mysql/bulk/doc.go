// Package bulk reads tables in one consistent snapshot on many lanes, and fills tables.
//
// freeze.go (one view on many lanes, and its log position; hold.go keeps tables from being
// altered), split.go (ranges; filter.go writes their conditions), read.go and transform_read.go
// (rows out: packets become batches without decoding values), chunk.go (tables read beside a
// stream), write*.go and transform_write.go (rows in, strict in spite of LOAD DATA LOCAL),
// ledger.go (which ranges were written, exactly once), redo.go.
package bulk
