package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// cascadeTables have children that foreign keys change, and rows that can block a transaction.
const cascadeTables = `
CREATE TABLE boss (id int PRIMARY KEY, code int NOT NULL UNIQUE);
CREATE TABLE worker (id int PRIMARY KEY, boss int, note int, CONSTRAINT worker_boss FOREIGN KEY (boss) REFERENCES boss (id) ON DELETE CASCADE);
CREATE TABLE badge (id int PRIMARY KEY, code int, CONSTRAINT badge_code FOREIGN KEY (code) REFERENCES boss (code) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE slow (id int PRIMARY KEY, n int NOT NULL);
CREATE TABLE mark (id int PRIMARY KEY);
INSERT INTO boss VALUES (1, 101), (2, 102), (3, 103), (4, 104), (5, 105), (6, 106), (11, 111), (12, 112);
INSERT INTO worker VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, 4, 0);
INSERT INTO slow VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0);
`

// plainReference references a column without a unique key, which InnoDB allows.
const plainReference = `
CREATE TABLE team (id int PRIMARY KEY, grade int NOT NULL, KEY (grade));
CREATE TABLE perk (id int PRIMARY KEY, grade int, CONSTRAINT perk_grade FOREIGN KEY (grade) REFERENCES team (grade) ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO team VALUES (7, 207), (8, 208);
`

// TestStreamCascades blocks changes of children on the target while cascading changes to these
// children follow. Those must not be applied first.
func TestStreamCascades(t *testing.T) {
	t.Parallel()
	const full, minimal = "SET SESSION binlog_row_image = 'FULL'; ", "SET SESSION binlog_row_image = 'MINIMAL'; "
	type race struct{ image, first, second string }
	races := []race{
		{full, "UPDATE worker SET boss = 11 WHERE id = 1", "DELETE FROM boss WHERE id = 1"},
		{minimal, "UPDATE worker SET boss = 12 WHERE id = 2", "DELETE FROM boss WHERE id = 2"},
		{minimal, "UPDATE worker SET note = 1 WHERE id = 3", "DELETE FROM boss WHERE id = 3"},
		{full, "UPDATE worker SET note = 1 WHERE id = 4", "DELETE FROM boss WHERE id = 4"},
		{full, "INSERT INTO badge VALUES (5, 105)", "UPDATE boss SET code = 205 WHERE id = 5"},
		{minimal, "INSERT INTO badge VALUES (6, 106)", "UPDATE boss SET code = 206 WHERE id = 6"},
	}
	for _, x := range []pair{{"mariadb to postgres", maria, pg15}, {"mysql to mysql", mysql8, mysql8}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			src, dst, name := x.src(t).NewDatabase(t, "src"), x.dst(t).NewDatabase(t, "dst"), streamName()
			races, tables := races, cascadeTables
			if x.name == "mysql to mysql" {
				tables += plainReference
				races = append(races[:len(races):len(races)], race{full, "INSERT INTO perk VALUES (7, 207)", "UPDATE team SET grade = 307 WHERE id = 7"},
					race{minimal, "INSERT INTO perk VALUES (8, 208)", "DELETE FROM team WHERE id = 8"})
			}
			testdb.Load(t, src, strings.NewReader(tables))
			must(t, "replicate", src, dst, "--name", name, "--until", "now")
			release := kept(t, dst, x.dst(t).Engine)
			f := running(t, "replicate", src, dst, "--name", name, "--agents", "16", "--commit-count", "1")
			for i, r := range races {
				testdb.Query(t, src, fmt.Sprintf("%sBEGIN; UPDATE slow SET n = 1 WHERE id = %d; %s; COMMIT", r.image, i+1, r.first))
			}
			f.follows(src, dst, "mark", 1)
			for _, r := range races {
				testdb.Query(t, src, r.image+r.second)
			}
			f.follows(src, dst, "mark", 2)
			release()
			f.follows(src, dst, "mark", 3)
			f.interrupt()
			equal(t, src, dst, name)
		})
	}
}

// kept keeps the rows of the table slow locked until release is called.
func kept(t *testing.T, dst, engine string) (release func()) {
	t.Helper()
	sleep, find, end := "SELECT pg_sleep(600)", "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'", "SELECT pg_terminate_backend(%s)"
	if engine != "postgres" {
		sleep, find, end = "SELECT SLEEP(600)", "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE = 'User sleep'", "KILL %s"
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = testdb.TryQuery(dst, "BEGIN; SELECT id FROM slow FOR UPDATE; "+sleep) // release ends it
	}()
	id := ""
	for begun := time.Now(); id == ""; time.Sleep(20 * time.Millisecond) {
		if id = testdb.Query(t, dst, find); time.Since(begun) > patience {
			t.Fatal("the rows are not locked")
		}
	}
	return func() {
		testdb.Query(t, dst, fmt.Sprintf(end, id))
		testdb.From(t, "the end of the lock", gone)
	}
}
