package server

import gomysql "github.com/go-mysql-org/go-mysql/mysql"

// Limits are settings of a server that decide which tables it makes. The zero value forbids nothing.
type Limits struct {
	FoldTables bool  // names of tables differ by more than case
	Page       int64 // of InnoDB, where a row that may be too wide for one is refused and lies in it in the form DYNAMIC; 0 elsewhere
}

// askLimits are the columns of a query that readLimits reads.
const askLimits = "@@lower_case_table_names, IF(@@innodb_strict_mode AND @@innodb_default_row_format = 'dynamic', @@innodb_page_size, 0)"

// readLimits takes them from a row, from column i on.
func readLimits(r *gomysql.Result, i int) Limits {
	fold, _ := r.GetInt(0, i)
	page, _ := r.GetInt(0, i+1)
	return Limits{FoldTables: fold != 0, Page: page}
}

// PageShare gives how much of a page a row may take: two have to fit.
func (l Limits) PageShare() int64 {
	if l.Page >= 64<<10 {
		return 16383
	}
	return (l.Page - 132) / 2
}
