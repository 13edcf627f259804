-- The mixed schema for MariaDB, filled from the PostgreSQL one.
CREATE TABLE customer(id bigint PRIMARY KEY, name varchar(60) NOT NULL, email varchar(80) UNIQUE, balance decimal(12,2), created datetime, active tinyint(1), note text);
CREATE TABLE orders(id bigint PRIMARY KEY, customer_id bigint NOT NULL, placed date NOT NULL, total decimal(12,2), status char(1), ship_to varchar(80), qty int, weight double, KEY o_c(customer_id), KEY o_p(placed,status), FOREIGN KEY (customer_id) REFERENCES customer(id));
CREATE TABLE order_line(o_id bigint, n int, item int NOT NULL, qty smallint, amount decimal(10,2), dist char(24), delivered datetime, PRIMARY KEY(o_id,n), KEY ol_i(item));
CREATE TABLE document(id bigint PRIMARY KEY, title text, body mediumtext, meta json, blb mediumblob);
CREATE TABLE event(id bigint PRIMARY KEY AUTO_INCREMENT, at datetime, kind varchar(20), who bigint, payload json, KEY e_at(at));
