package promise

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Which of two foreign keys acts first decides whether a row of zone or locked can be deleted:
// PostgreSQL goes by when they were made, MySQL and MariaDB by their names.
const kin = `CREATE TABLE zone (id int PRIMARY KEY, name varchar(20));
CREATE TABLE zone_parent (zone int NOT NULL, parent int NOT NULL, PRIMARY KEY (zone, parent));
ALTER TABLE zone_parent ADD CONSTRAINT zp_child FOREIGN KEY (zone) REFERENCES zone (id) ON DELETE CASCADE ON UPDATE CASCADE;
ALTER TABLE zone_parent ADD CONSTRAINT zp_parent FOREIGN KEY (parent) REFERENCES zone (id) ON DELETE RESTRICT ON UPDATE RESTRICT;
CREATE TABLE tenant (id int PRIMARY KEY, name varchar(20));
CREATE TABLE project (id int PRIMARY KEY, tenant int, name varchar(20));
ALTER TABLE project ADD CONSTRAINT f1 FOREIGN KEY (tenant) REFERENCES tenant (id) ON DELETE CASCADE;
CREATE TABLE task (id int PRIMARY KEY, project int, tenant int, name varchar(20));
ALTER TABLE task ADD CONSTRAINT f2 FOREIGN KEY (project) REFERENCES project (id) ON DELETE CASCADE;
ALTER TABLE task ADD CONSTRAINT f3 FOREIGN KEY (tenant) REFERENCES tenant (id);
CREATE TABLE locked (id int PRIMARY KEY, name varchar(20));
CREATE TABLE hold (id int, locked int, PRIMARY KEY (id));
ALTER TABLE hold ADD CONSTRAINT h1 FOREIGN KEY (locked) REFERENCES locked (id);
ALTER TABLE hold ADD CONSTRAINT h2 FOREIGN KEY (id) REFERENCES locked (id) ON DELETE CASCADE;
CREATE TABLE note (id int PRIMARY KEY, tenant int, reply int);
ALTER TABLE note ADD CONSTRAINT n1 FOREIGN KEY (tenant) REFERENCES tenant (id) ON DELETE SET NULL;
INSERT INTO zone VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');
INSERT INTO zone_parent VALUES (1, 1), (2, 2), (3, 4), (2, 4);
INSERT INTO tenant VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd');
INSERT INTO project VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c');
INSERT INTO task VALUES (1, 1, 1, 'a'), (2, 2, 2, 'b'), (3, 3, 3, 'c'), (4, 3, 3, 'd');
INSERT INTO locked VALUES (1, 'a'), (2, 'b'), (3, 'c');
INSERT INTO hold VALUES (1, 1), (2, 3);
INSERT INTO note VALUES (1, 1, NULL), (2, 2, 1), (3, 3, 2);`

var kinds = []string{"zone", "zone_parent", "tenant", "project", "task", "locked", "hold", "note"}

// TestOrderOfForeignKeys: what can be deleted on the source can be deleted on the target of a copy,
// and nothing else, and a stream carries it over. Of twenty such tables, which are made side by
// side, none has another order.
func TestOrderOfForeignKeys(t *testing.T) {
	var more strings.Builder
	for i := range 20 {
		fmt.Fprintf(&more, "CREATE TABLE p%[1]d (id int PRIMARY KEY); CREATE TABLE c%[1]d (a int PRIMARY KEY, b int);"+
			"ALTER TABLE c%[1]d ADD CONSTRAINT k%[1]d_a FOREIGN KEY (a) REFERENCES p%[1]d (id) ON DELETE CASCADE; ALTER TABLE c%[1]d ADD CONSTRAINT k%[1]d_b FOREIGN KEY (b) REFERENCES p%[1]d (id);"+
			"INSERT INTO p%[1]d VALUES (1), (2); INSERT INTO c%[1]d VALUES (1, 1), (2, 1);", i)
	}
	deletes := "DELETE FROM zone WHERE id = 1; DELETE FROM locked WHERE id = 2"
	for i := range 20 {
		deletes += fmt.Sprintf("; DELETE FROM p%d WHERE id = 2; UPDATE c%[1]d SET b = a; DELETE FROM p%[1]d", i)
	}
	for _, pair := range []string{"postgres postgres", "mysql postgres", "mariadb postgres", "mysql mariadb", "mariadb mysql", "mysql mysql"} {
		from, to, _ := strings.Cut(pair, " ")
		src, dst, after := testdb.ServerOf(t, from).NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst"), testdb.ServerOf(t, to).NewDatabase(t, "after")
		testdb.Query(t, src, kin+more.String())
		testdb.Must(t, "copy", src, after)
		stream := []string{"replicate", src, dst, "--name", testdb.StreamName("kin"), "--until", "now"}
		testdb.Must(t, stream...)
		testdb.Query(t, src, deletes)
		testdb.Query(t, after, deletes)
		for _, url := range []string{src, after} {
			if _, err := testdb.TryQuery(url, "DELETE FROM locked WHERE id = 1"); err == nil {
				t.Errorf("%s: a row of locked is deleted though one of hold refers to it", url)
			}
		}
		if out := testdb.Must(t, stream...); strings.Contains(out, "stopped") {
			t.Errorf("%s:\n%s", pair, out)
		}
		for _, table := range kinds {
			sql := "SELECT * FROM " + table + " ORDER BY 1, 2"
			want := testdb.Query(t, src, sql)
			if got := testdb.Query(t, dst, sql); got != want {
				t.Errorf("%s, stream: %s is\n%s\nnot\n%s", pair, table, got, want)
			}
			if got := testdb.Query(t, after, sql); got != want {
				t.Errorf("%s, after the copy: %s is\n%s\nnot\n%s", pair, table, got, want)
			}
		}
		testdb.Must(t, append(stream, "--remove")...)
	}
}

// TestActionsInTheLog: PostgreSQL logs what its foreign keys do to other rows, parents first, and
// checks some of them at the end of a transaction only. No target stops at that.
func TestActionsInTheLog(t *testing.T) {
	const more = `CREATE TABLE ring (id int PRIMARY KEY, next int NOT NULL, name varchar(20));
ALTER TABLE ring ADD CONSTRAINT r1 FOREIGN KEY (next) REFERENCES ring (id) DEFERRABLE INITIALLY DEFERRED;
CREATE TABLE late (id int PRIMARY KEY, ring int NOT NULL REFERENCES ring (id) ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE late_line (late int NOT NULL REFERENCES late (id) ON UPDATE CASCADE ON DELETE CASCADE, n int, PRIMARY KEY (late, n));
INSERT INTO ring VALUES (1, 2, 'a'), (2, 1, 'b'), (3, 3, 'c');
INSERT INTO late VALUES (1, 1), (2, 2), (3, 3);
INSERT INTO late_line VALUES (1, 1), (1, 2), (2, 1), (3, 1);`
	changes := []string{
		"DELETE FROM zone WHERE id = 1",
		"DELETE FROM zone WHERE id = 2",
		"DELETE FROM tenant WHERE id IN (1, 2)",
		"DELETE FROM locked WHERE id = 3; DELETE FROM hold WHERE id = 2",
		"BEGIN; INSERT INTO ring VALUES (4, 5, 'd'); INSERT INTO late VALUES (4, 5); INSERT INTO late_line VALUES (4, 1); INSERT INTO ring VALUES (5, 4, 'e'); COMMIT",
		"BEGIN; DELETE FROM ring WHERE id = 3; DELETE FROM late WHERE ring = 3; COMMIT",
		"UPDATE late SET id = id + 10",
		"BEGIN; UPDATE ring SET id = 20, next = 20 WHERE id = 1; UPDATE ring SET next = 20 WHERE next = 1; COMMIT",
		"BEGIN; DELETE FROM ring WHERE id = 5; INSERT INTO ring VALUES (5, 5, 'again'); UPDATE ring SET next = 4 WHERE id = 4; COMMIT",
		"UPDATE zone SET id = id + 100 WHERE id = 3",
		"DELETE FROM late WHERE id = 11",
	}
	for _, to := range []string{"postgres", "mysql", "mariadb"} {
		src, dst := testdb.ServerOf(t, "postgres").NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
		deferred := strings.NewReplacer("f3 FOREIGN KEY (tenant) REFERENCES tenant (id)", "f3 FOREIGN KEY (tenant) REFERENCES tenant (id) DEFERRABLE INITIALLY DEFERRED")
		testdb.Query(t, src, deferred.Replace(kin)+more)
		stream := []string{"replicate", src, dst, "--name", testdb.StreamName("actions"), "--until", "now"}
		testdb.Must(t, stream...)
		for _, sql := range changes {
			if _, err := testdb.TryQuery(src, sql); err != nil && !strings.Contains(sql, "locked") {
				t.Errorf("%s: %v", sql, err)
			}
			if out := testdb.Must(t, stream...); strings.Contains(out, "stopped") {
				t.Errorf("%s, after %s:\n%s", to, sql, out)
			}
		}
		for _, table := range append([]string{"ring", "late", "late_line"}, kinds...) {
			sql := "SELECT * FROM " + table + " ORDER BY 1, 2"
			if want, got := testdb.Query(t, src, sql), testdb.Query(t, dst, sql); got != want {
				t.Errorf("%s: %s is\n%s\nnot\n%s", to, table, got, want)
			}
		}
		testdb.Must(t, append(stream, "--remove")...)
	}
}

// TestKeysThatOnlyTheTargetHas: rows that break them are written as the source has them, since the
// sessions of a stream from PostgreSQL check no foreign keys (decision 009). Nor do such keys act.
func TestKeysThatOnlyTheTargetHas(t *testing.T) {
	for _, to := range []string{"postgres", "mysql", "mariadb"} {
		src, dst := testdb.ServerOf(t, "postgres").NewDatabase(t, "src"), testdb.ServerOf(t, to).NewDatabase(t, "dst")
		testdb.Query(t, src, "CREATE TABLE child (id int PRIMARY KEY, parent int); CREATE TABLE parent (id int PRIMARY KEY); INSERT INTO parent VALUES (1), (2); INSERT INTO child VALUES (1, 1), (2, 2)")
		stream := []string{"replicate", src, dst, "--name", testdb.StreamName("keys"), "--until", "now"}
		testdb.Must(t, stream...)
		testdb.Query(t, dst, "ALTER TABLE child ADD FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE")
		testdb.Query(t, src, "INSERT INTO child VALUES (3, 4711); UPDATE child SET parent = 3 WHERE id = 1; DELETE FROM parent WHERE id = 2")
		if out := testdb.Must(t, stream...); strings.Contains(out, "stopped") {
			t.Errorf("%s:\n%s", to, out)
		}
		for _, sql := range []string{"SELECT * FROM child ORDER BY 1", "SELECT * FROM parent ORDER BY 1"} {
			if want, got := testdb.Query(t, src, sql), testdb.Query(t, dst, sql); got != want {
				t.Errorf("%s: %s:\n%s\nnot\n%s", to, sql, got, want)
			}
		}
		testdb.Must(t, append(stream, "--remove")...)
	}
}
