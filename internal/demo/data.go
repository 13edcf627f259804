package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// warehouses is the scale of the data: about half a million rows each, and an item table.
const warehouses = 1

// dialects replace what engines spell differently.
var dialects = map[string]*strings.Replacer{
	"postgres": strings.NewReplacer("{time}", "timestamptz", "{json}", "jsonb", "{object}", "jsonb_build_object",
		"{credit}", "credit", "{as credit}", "::credit", "{start}", "timestamptz '2026-01-01 UTC' + n * interval '1 minute'",
		"{3000}", "generate_series(1, 3000) s(n)", "{100000}", "generate_series(1, 100000) s(n)", "{15}", "generate_series(1, 15) s(n)", "{10}", "generate_series(1, 10) s(n)"),
	"mariadb": strings.NewReplacer("{time}", "datetime(6)", "{json}", "json", "{object}", "json_object",
		"{credit}", "enum ('GC', 'BC')", "{as credit}", "", "{start}", "timestamp '2026-01-01 00:00:00' + interval n minute",
		"{3000}", "(SELECT seq n FROM seq_1_to_3000) s", "{100000}", "(SELECT seq n FROM seq_1_to_100000) s", "{15}", "(SELECT seq n FROM seq_1_to_15) s", "{10}", "(SELECT seq n FROM seq_1_to_10) s"),
}

// behind are statements that only one engine needs, after the tables.
var behind = map[string][]string{
	"postgres": {`ALTER TABLE history REPLICA IDENTITY FULL`, `ANALYZE`},
}

// before are those to run before the tables.
var before = map[string][]string{
	"postgres": {`SET session_replication_role = replica`, `CREATE TYPE credit AS ENUM ('GC', 'BC')`},
	"mariadb":  {`SET sql_log_bin = 0, foreign_key_checks = 0, unique_checks = 0`},
}

// tables are those of TPC-C (tpc.org, TPC-C 5.11, clause 1.3). As in TPC-C, history has no key: a
// duplicate row would stay.
var tables = []string{
	`CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name varchar(10) NOT NULL, w_tax numeric(4,4), w_ytd numeric(12,2))`,
	`CREATE TABLE district (d_w_id int, d_id int, d_name varchar(10) NOT NULL, d_ytd numeric(12,2), d_next_o_id int, PRIMARY KEY (d_w_id, d_id), FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id))`,
	`CREATE TABLE item (i_id int PRIMARY KEY, i_name varchar(24) NOT NULL, i_price numeric(5,2) CHECK (i_price > 0), i_data varchar(50))`,
	`CREATE TABLE stock (s_w_id int, s_i_id int, s_quantity int, s_dist char(24), s_order_cnt int, s_data varchar(50), PRIMARY KEY (s_w_id, s_i_id), FOREIGN KEY (s_i_id) REFERENCES item (i_id))`,
	`CREATE TABLE customer (c_w_id int, c_d_id int, c_id int, c_first varchar(16), c_last varchar(16) NOT NULL, c_since {time}, c_credit {credit}, c_balance numeric(12,2), c_data {json}, PRIMARY KEY (c_w_id, c_d_id, c_id), FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id))`,
	`CREATE TABLE history (h_w_id int, h_d_id int, h_c_id int, h_date {time}, h_amount numeric(6,2), h_data varchar(40))`,
	`CREATE TABLE orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d {time}, o_carrier_id int, o_ol_cnt int, PRIMARY KEY (o_w_id, o_d_id, o_id), FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id))`,
	`CREATE TABLE new_order (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id), FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id))`,
	`CREATE TABLE order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_quantity int, ol_amount numeric(6,2), ol_dist_info char(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))`,
	`CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first)`,
	`CREATE INDEX order_line_item ON order_line (ol_i_id)`,
}

// fills fill the tables with made-up values that repeat from run to run: of 3,000 orders in each
// district the last 900 are new.
var fills = []string{
	`INSERT INTO warehouse SELECT n, concat('W', n), 0.1, 300000 FROM {10} WHERE n <= ` + fmt.Sprint(warehouses),
	`INSERT INTO district SELECT w_id, n, concat('D', n), 30000, 3001 FROM warehouse, {10}`,
	`INSERT INTO item SELECT n, concat('Item ', n), 1 + n % 100, md5(concat(n)) FROM {100000}`,
	`INSERT INTO stock SELECT w_id, n, 10 + n % 91, left(md5(concat(n)), 24), 0, md5(concat(n * w_id)) FROM warehouse, {100000}`,
	`INSERT INTO customer SELECT d_w_id, d_id, n, concat('First', n % 977), concat('Last', n % 1000), {start}, (CASE WHEN n % 10 = 0 THEN 'BC' ELSE 'GC' END){as credit}, -10, {object}('note', repeat('x', n % 300), 'n', n) FROM district, {3000}`,
	`INSERT INTO history SELECT d_w_id, d_id, n, {start}, 10, concat('initial ', d_w_id, '-', d_id, '-', n) FROM district, {3000}`,
	`INSERT INTO orders SELECT d_w_id, d_id, n, 1 + n * 7 % 3000, {start}, CASE WHEN n < 2101 THEN 1 + n % 10 END, 5 + n % 11 FROM district, {3000}`,
	`INSERT INTO new_order SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_id > 2100`,
	`INSERT INTO order_line SELECT o_w_id, o_d_id, o_id, n, 1 + (o_id * 31 + n * 977) % 100000, 5, (o_id * n) % 9999, left(md5(concat(o_id * n)), 24) FROM orders JOIN {15} ON n <= o_ol_cnt`,
}

// keys are the expressions that identify the rows of a table. Rows of history carry a key in their
// text.
var keys = map[string]string{
	"warehouse": "w_id", "district": "d_w_id, d_id", "item": "i_id", "stock": "s_w_id, s_i_id", "customer": "c_w_id, c_d_id, c_id",
	"history": "h_data", "orders": "o_w_id, o_d_id, o_id", "new_order": "no_w_id, no_d_id, no_o_id", "order_line": "ol_w_id, ol_d_id, ol_o_id, ol_number",
}

// fill creates and fills the tables.
func fill(ctx context.Context, s *server) error {
	db, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	for _, sql := range slices.Concat(before[s.engine], tables, fills, behind[s.engine]) {
		if err := db.exec(ctx, dialects[s.engine].Replace(sql)); err != nil {
			return fmt.Errorf("%.60s: %w", sql, err)
		}
	}
	return nil
}
