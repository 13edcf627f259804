package promise

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestTablesAlteredAfterTheirRows: a dump as phpMyAdmin writes it, with keys, AUTO_INCREMENT and
// foreign keys in ALTER TABLEs after the rows, is copied as its statements say. One that fails is
// reported, and what it should have made; to another engine, what is not made is named.
func TestTablesAlteredAfterTheirRows(t *testing.T) {
	const tables = "-- phpMyAdmin SQL Dump\nCREATE TABLE `c` (`id` int(11) NOT NULL, `p` int(11) DEFAULT NULL, `gone` int DEFAULT NULL, `n` int) ENGINE=InnoDB;\n" +
		"INSERT INTO `c` (`id`, `p`, `gone`, `n`) VALUES (1, 2, 3, 4), (2, 2, 3, 4);\n" +
		"CREATE TABLE `p` (`id` int(11) NOT NULL, `v` varchar(20) NOT NULL) ENGINE=InnoDB;\nINSERT INTO `p` (`id`, `v`) VALUES (1, 'x'), (2, 'y');\n" +
		"CREATE TABLE `odd` (`id` int NOT NULL, `gone` int) ENGINE=InnoDB;\nINSERT INTO `odd` VALUES (1, 1);\n"
	const alters = "ALTER TABLE `c`\n  ADD PRIMARY KEY (`id`),\n  ADD KEY `c_p` (`p`);\nALTER TABLE `p`\n  ADD PRIMARY KEY (`id`),\n  ADD UNIQUE KEY `p_v` (`v`);\n" +
		"ALTER TABLE `p`\n  MODIFY `id` int(11) NOT NULL AUTO_INCREMENT, AUTO_INCREMENT=7;\n" +
		"ALTER TABLE `c`\n  ADD CONSTRAINT `c_to_p` FOREIGN KEY (`p`) REFERENCES `p` (`id`) ON DELETE CASCADE;\nALTER TABLE `odd` DROP COLUMN `gone`;\n"
	file := func(sql string) string { return testdb.Written(t, "dump.sql", sql) }
	good := file(tables + alters)
	bad := file(tables + alters + "ALTER TABLE `c` ADD UNIQUE KEY `never` (`n`);\n")
	for _, to := range []string{"mysql", "mariadb"} {
		dst := testdb.ServerOf(t, to).NewDatabase(t, "dst")
		testdb.Must(t, "check", good, dst)
		testdb.Must(t, "copy", good, dst)
		testdb.Query(t, dst, "INSERT INTO p (v) VALUES ('z'); DELETE FROM p WHERE id = 2")
		if got := testdb.Query(t, dst, "SELECT MAX(id), (SELECT COUNT(*) FROM c), (SELECT COUNT(*) FROM odd) FROM p"); got != "7\t0\t1" {
			t.Errorf("%s: the number, the rows that the foreign key leaves, and those of odd are %s", to, got)
		}
		for table, keys := range map[string]string{"c": "PRIMARY KEY (`id`) KEY `c_p` (`p`)", "p": "PRIMARY KEY (`id`) UNIQUE KEY `p_v` (`v`)"} {
			got := testdb.Query(t, dst, "SHOW CREATE TABLE "+table)
			for key := range strings.SplitSeq(keys, ") ") {
				if !strings.Contains(got, strings.TrimSuffix(key, ")")+")") {
					t.Errorf("%s: %s lacks %s:\n%s", to, table, key, got)
				}
			}
		}
		if o := testdb.Run(t, "copy", bad, dst, "--prep", "drop"); o.Code != 16 || strings.Contains(o.Out, "has besides") || strings.Count(o.Out, "never") == 0 {
			t.Errorf("%s: a key that rows violate: exit %d\n%s%s", to, o.Code, o.Out, o.ErrOut)
		}
	}
	// Another engine is given them with the tables, which phpMyAdmin's readers expect as much.
	dst := testdb.Postgres(t, 15).NewDatabase(t, "dst")
	for _, verb := range []string{"check", "copy"} {
		o := testdb.Run(t, verb, good, dst, "-v")
		if o.Code != 0 || strings.Count(o.Out, "its ALTER TABLE") != 1 || !strings.Contains(o.Out, "table odd: its ALTER TABLE") {
			t.Errorf("%s to postgres, about other tables than odd: exit %d\n%s%s", verb, o.Code, o.Out, o.ErrOut)
		}
	}
	testdb.Query(t, dst, "INSERT INTO p (v) VALUES ('z'); DELETE FROM p WHERE id = 2")
	if got := testdb.Query(t, dst, "SELECT max(id), (SELECT count(*) FROM c), (SELECT count(*) FROM odd WHERE gone = 1) FROM p"); got != "7\t0\t1" {
		t.Errorf("postgres: the number, the rows that the foreign key leaves, and those of odd are %s", got)
	}
	if got := testdb.Query(t, dst, "SELECT string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes WHERE schemaname = 'public'"); got != "c_p c_pkey p_pkey p_v" {
		t.Errorf("postgres: the indexes are %s", got)
	}
	// In two files, and by a pipe, which cannot be read ahead.
	dst2 := testdb.Postgres(t, 15).NewDatabase(t, "dst")
	testdb.Must(t, "copy", file(tables)+","+file(alters), dst2)
	if got, want := testdb.PgDump(t, dst2), testdb.PgDump(t, dst); got != want {
		t.Errorf("postgres, from two files:\n%s", testdb.FirstDifference(want, got))
	}
	pipe := testdb.Command(t, "copy", "-v", "-", testdb.Postgres(t, 15).NewDatabase(t, "dst"))
	pipe.Stdin = strings.NewReader(tables + alters)
	out, err := pipe.CombinedOutput()
	if err != nil || strings.Count(string(out), "its ALTER TABLE") != 3 || !strings.Contains(string(out), "Give the dump as a file") {
		t.Errorf("postgres, by a pipe: %v\n%s", err, out)
	}
	// A foreign key that comes alone needs no reading ahead.
	alone := testdb.Command(t, "copy", "-", testdb.Postgres(t, 15).NewDatabase(t, "dst"))
	alone.Stdin = strings.NewReader("-- a dump\nCREATE TABLE `p` (`id` int PRIMARY KEY);\nCREATE TABLE `c` (`id` int PRIMARY KEY, `p` int, KEY `c_p` (`p`));\nINSERT INTO `p` VALUES (1);\nINSERT INTO `c` VALUES (1, 1);\n" +
		"ALTER TABLE `c` ADD CONSTRAINT `c_to_p` FOREIGN KEY (`p`) REFERENCES `p` (`id`);\n")
	if out, err := alone.CombinedOutput(); err != nil || strings.Contains(string(out), "ALTER TABLE") {
		t.Errorf("postgres, a foreign key by a pipe: %v\n%s", err, out)
	}
	if got := testdb.Query(t, alone.Args[len(alone.Args)-1], "SELECT conname FROM pg_constraint WHERE contype = 'f'"); got != "c_to_p" {
		t.Errorf("postgres: the foreign keys are %q", got)
	}
	if o := testdb.Run(t, "copy", bad, dst, "--prep", "drop"); o.Code != 16 || strings.Count(o.Out, "never") == 0 {
		t.Errorf("postgres: a key that rows violate: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
}
