package server

import gomysql "github.com/go-mysql-org/go-mysql/mysql"

// Limits are settings of a server that decide which tables and packets it accepts. The zero value
// forbids nothing.
type Limits struct {
	FoldTables bool  // table names are compared without regard to case
	Page       int64 // InnoDB's page size if strict mode refuses rows that may be too wide and DYNAMIC is the default row format; else 0
	Packet     int   // max_allowed_packet of new sessions, in bytes; 0: not known
}

// askLimits are the query columns that readLimits reads.
const askLimits = "@@lower_case_table_names, IF(@@innodb_strict_mode AND @@innodb_default_row_format = 'dynamic', @@innodb_page_size, 0), @@max_allowed_packet"

// readLimits reads them from the result, starting at column i.
func readLimits(r *gomysql.Result, i int) Limits {
	fold, _ := r.GetInt(0, i)
	page, _ := r.GetInt(0, i+1)
	packet, _ := r.GetInt(0, i+2)
	return Limits{FoldTables: fold != 0, Page: page, Packet: int(packet)}
}

// PageShare returns the bytes of a page that one row may take: two rows must fit.
func (l Limits) PageShare() int64 {
	if l.Page >= 64<<10 {
		return 16383
	}
	return (l.Page - 132) / 2
}
