// Package bulk reads the rows of Db2's tables on lanes: locked for a consistent view, cut into
// ranges, as COPY text (read.go). It writes rows by INSERT (write.go, spool.go), with marker rows
// (ledger.go). Start reading at Bulk.
package bulk
