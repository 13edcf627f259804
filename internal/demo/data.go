package main

import "fmt"

var tables = []string{
	`CREATE TYPE credit AS ENUM ('GC', 'BC')`,
	`CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name text NOT NULL, w_city text, w_tax numeric(4,4), w_ytd numeric(12,2))`,
	`CREATE TABLE district (d_w_id int REFERENCES warehouse, d_id int, d_name text NOT NULL, d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id int, PRIMARY KEY (d_w_id, d_id))`,
	`CREATE TABLE item (i_id int PRIMARY KEY, i_im_id int, i_name varchar(24) NOT NULL, i_price numeric(5,2) CHECK (i_price > 0), i_data varchar(50))`,
	`CREATE TABLE stock (s_w_id int REFERENCES warehouse, s_i_id int REFERENCES item, s_quantity int, s_dist char(24), s_ytd int, s_order_cnt int, s_data varchar(50), PRIMARY KEY (s_w_id, s_i_id))`,
	`CREATE TABLE customer (c_w_id int, c_d_id int, c_id int, c_first text, c_last text NOT NULL, c_since timestamptz, c_credit credit, c_discount numeric(4,4), c_balance numeric(12,2), c_data jsonb, PRIMARY KEY (c_w_id, c_d_id, c_id), FOREIGN KEY (c_w_id, c_d_id) REFERENCES district)`,
	`CREATE TABLE history (h_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, h_w_id int, h_d_id int, h_c_id int, h_date timestamptz, h_amount numeric(6,2), h_data text)`,
	`CREATE TABLE orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamptz, o_carrier_id int, o_ol_cnt int, PRIMARY KEY (o_w_id, o_d_id, o_id), FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer)`,
	`CREATE TABLE new_order (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id), FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders)`,
	`CREATE TABLE order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_delivery_d timestamptz, ol_quantity int, ol_amount numeric(6,2), ol_dist_info char(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))`,
	`CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first)`,
	`CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)`,
	`CREATE INDEX order_line_item ON order_line (ol_i_id)`,
	`CREATE VIEW open_orders AS SELECT o.* FROM orders o JOIN new_order n ON (o.o_w_id, o.o_d_id, o.o_id) = (n.no_w_id, n.no_d_id, n.no_o_id)`,
	`CREATE FUNCTION order_total(w int, d int, o int) RETURNS numeric LANGUAGE sql STABLE AS 'SELECT sum(ol_amount) FROM order_line WHERE (ol_w_id, ol_d_id, ol_o_id) = (w, d, o)'`,
}

// fills gives the statements that fill the tables for w warehouses, with TPC-C's
// cardinalities: 100,000 items and as many stock rows a warehouse, 10 districts
// of 3,000 customers and 3,000 orders of about 10 lines.
func fills(w int) []string {
	return []string{
		fmt.Sprintf(`INSERT INTO warehouse SELECT w, 'W' || w, 'City ' || w, 0.1, 300000 FROM generate_series(1, %d) w`, w),
		`INSERT INTO district SELECT w_id, d, 'D' || d, 0.05, 30000, 3001 FROM warehouse, generate_series(1, 10) d`,
		`INSERT INTO item SELECT i, i * 7 % 10000, 'Item ' || i, 1 + i % 100, repeat(md5(i::text), 1 + i % 2)::varchar(50) FROM generate_series(1, 100000) i`,
		`INSERT INTO stock SELECT w_id, i, 10 + i % 91, md5(i::text)::char(24), 0, 0, md5((i * w_id)::text) FROM warehouse, generate_series(1, 100000) i`,
		`INSERT INTO customer SELECT d_w_id, d_id, c, 'First' || c % 977, 'Last' || c % 1000, timestamptz '2026-01-01 UTC' + c * interval '1 minute', (CASE WHEN c % 10 = 0 THEN 'BC' ELSE 'GC' END)::credit, c % 50 / 100.0, -10, jsonb_build_object('note', repeat('x', c % 300), 'n', c) FROM district, generate_series(1, 3000) c`,
		`INSERT INTO history (h_w_id, h_d_id, h_c_id, h_date, h_amount, h_data) SELECT c_w_id, c_d_id, c_id, c_since, 10, 'initial ' || c_id FROM customer`,
		`INSERT INTO orders SELECT d_w_id, d_id, o, 1 + o * 7 % 3000, timestamptz '2026-06-01 UTC' + o * interval '1 second', CASE WHEN o < 2101 THEN 1 + o % 10 END, 5 + o % 11 FROM district, generate_series(1, 3000) o`,
		`INSERT INTO new_order SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_id > 2100`,
		`INSERT INTO order_line SELECT o_w_id, o_d_id, o_id, n, 1 + (o_id * 31 + n * 977) % 100000, CASE WHEN o_id < 2101 THEN o_entry_d END, 5, (o_id * n) % 9999 / 1.0, md5((o_id * n)::text)::char(24) FROM orders, LATERAL generate_series(1, o_ol_cnt) n`,
		`ANALYZE`,
	}
}
