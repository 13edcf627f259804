package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A table is one that a job copies. Its columns are written NAME:KIND; the kind selects a text form
// of a value that is the same in every engine and under every type that a tool may have given the
// column.
type table struct {
	name    string
	columns string
}

// shopTables are the tables of workload/shop.*.sql. If the data originated in PostgreSQL, one
// column has another name, and one is missing.
func shopTables(engine string) []table {
	t := []table{
		{"customer", "id:text name:text email:text balance:cents created:time active:bool note:text"},
		{"orders", "id:text customer_id:text placed:text total:cents status:text ship_to:text qty:text weight:float"},
		{"order_line", "o_id:text n:text item:text qty:text amount:cents dist:text delivered:time"},
		{"document", "id:text title:text body:text meta:text blob:bytes"},
		{"event", "at:time kind:text who:text payload:text"},
	}
	if engine == "maria" {
		t[3].columns = strings.Replace(t[3].columns, "blob:", "blb:", 1)
		t[4].columns = "id:text " + t[4].columns
	}
	return t
}

var (
	bigTables  = []table{{"movement", "id:text account:text booked:time kind:text amount:cents balance:float memo:text"}}
	wikiTables = []table{{"page", "page_id:text page_namespace:text page_title:bytes page_is_redirect:bool page_is_new:bool page_random:float " +
		"page_touched:bytes page_links_updated:bytes page_latest:text page_len:text page_content_model:bytes page_lang:bytes"}}
)

// canonical returns the expression for the text of a column.
func canonical(engine, column string) string {
	name, kind, _ := strings.Cut(column, ":")
	forms := map[string]map[string]string{
		"postgres": {"text": "%s::text", "cents": "round(%s, 2)::text", "time": "to_char(%s, 'YYYY-MM-DD HH24:MI:SS')", "bool": "%s::int::text",
			"float": "floor(%s * 1000)::bigint::text", "bytes": "md5(%s)"},
		"maria": {"text": "cast(%s as char)", "cents": "cast(%s as char)", "time": "date_format(%s, '%%Y-%%m-%%d %%H:%%i:%%s')", "bool": "cast(%s as char)",
			"float": "cast(cast(floor(%s * 1000) as signed) as char)", "bytes": "md5(%s)"},
	}
	if engine == "mysql" {
		engine = "maria"
	}
	return "coalesce(" + fmt.Sprintf(forms[engine][kind], name) + ", '~')"
}

// A fact describes a table as it must be after a copy.
type fact struct {
	Rows, Indexes, ForeignKeys int64
	Sum                        string // of the rows, in any order; "": not requested
}

// facts reads them from a server, by table. With sums, it reads all values.
func (s *server) facts(ctx context.Context, tables []table, sums bool) (map[string]fact, error) {
	out := map[string]fact{}
	for _, t := range tables {
		f, err := s.fact(ctx, t, sums)
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.name, err)
		}
		out[t.name] = f
	}
	return out, nil
}

func (s *server) fact(ctx context.Context, t table, sums bool) (fact, error) {
	name, err := s.find(ctx, t.name)
	if err != nil {
		return fact{}, err
	}
	sum := "''"
	if sums {
		sum = s.sumOf(t)
	}
	sql := fmt.Sprintf(`SELECT count(*), (SELECT count(*) FROM pg_index WHERE indrelid = '%[1]s'::regclass),
		(SELECT count(*) FROM pg_constraint WHERE conrelid = '%[1]s'::regclass AND contype = 'f'), %[2]s FROM %[1]s`, name, sum)
	if s.engine != "postgres" {
		sql = fmt.Sprintf(`SELECT count(*), (SELECT count(DISTINCT index_name) FROM information_schema.statistics WHERE table_schema = '%[3]s' AND table_name = '%[1]s'),
			(SELECT count(*) FROM information_schema.referential_constraints WHERE constraint_schema = '%[3]s' AND table_name = '%[1]s'), %[2]s FROM %[1]s`, name, sum, database)
	}
	row, err := s.query(ctx, database, sql)
	if err != nil {
		return fact{}, err
	}
	cells := append(strings.Split(row, "\t"), "")
	if len(cells) < 4 {
		return fact{}, fmt.Errorf("unexpected answer %q", row)
	}
	f := fact{Sum: cells[3]}
	for i, at := range []*int64{&f.Rows, &f.Indexes, &f.ForeignKeys} {
		if *at, err = strconv.ParseInt(cells[i], 10, 64); err != nil {
			return fact{}, err
		}
	}
	return f, nil
}

// find returns the name under which a table can be queried: tools choose different schemas in
// PostgreSQL for a MariaDB database.
func (s *server) find(ctx context.Context, name string) (string, error) {
	if s.engine != "postgres" {
		return name, nil
	}
	found, err := s.query(ctx, database, `SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE relname = '`+name+`' AND relkind IN ('r', 'p') AND nspname !~ '^(pg_|information_schema|tidemark)'`)
	if err != nil {
		return "", err
	}
	if n := len(strings.Fields(found)); n != 1 {
		return "", fmt.Errorf("the target has %d such tables", n)
	}
	return found, nil
}

// sumOf returns SQL that adds up a hash of each row.
func (s *server) sumOf(t table) string {
	var values []string
	for _, c := range strings.Fields(t.columns) {
		values = append(values, canonical(s.engine, c))
	}
	hash := "md5(concat_ws('|', " + strings.Join(values, ", ") + "))"
	if s.engine != "postgres" {
		return "sum(cast(conv(left(" + hash + ", 8), 16, 10) as unsigned))"
	}
	return "sum(('x' || left(" + hash + ", 8))::bit(32)::bigint)"
}

// differences describes how got differs from want, one text per table; sums are compared if both
// are known.
func differences(want, got map[string]fact) []string {
	var out []string
	for name, w := range want {
		g := got[name]
		switch {
		case g.Rows != w.Rows:
			out = append(out, fmt.Sprintf("table %s has %d rows, not %d", name, g.Rows, w.Rows))
		case g.Indexes != w.Indexes || g.ForeignKeys != w.ForeignKeys:
			out = append(out, fmt.Sprintf("table %s has %d indexes and %d foreign keys, not %d and %d", name, g.Indexes, g.ForeignKeys, w.Indexes, w.ForeignKeys))
		case g.Sum != "" && w.Sum != "" && g.Sum != w.Sum:
			out = append(out, fmt.Sprintf("the rows of table %s have other values", name))
		}
	}
	slices.Sort(out)
	return out
}
