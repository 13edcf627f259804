// Package hostile gives the program dump files that want more than to be loaded, and folders that
// others have prepared.
package hostile

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// administration is what a dump is not for, with what a server that has run it would answer.
const administration = "CREATE USER evil1@localhost;\n" +
	"/*!50000 CREATE USER evil2@localhost */;\n" +
	"/*M!100000 /* */ CREATE USER evil3@localhost # */ CREATE VIEW w AS SELECT 1;\n;\n" +
	"/*M!100000 /* */ SET GLOBAL max_connections = 99 # */ SET @a = 1;\n;\n" +
	"GRANT ALL ON *.* TO root@localhost WITH GRANT OPTION;\nFLUSH PRIVILEGES;\n" +
	"SET GLOBAL net_read_timeout = 77;\nSET @x = 1, GLOBAL net_write_timeout = 77;\nSET @@global.max_connections = 99;\n" +
	"SET SESSION sql_mode = @m;\nSET @a = '\\', GLOBAL net_read_timeout = 77 -- ';\n" +
	"INSERT INTO mysql.db (host, db, user) VALUES ('localhost', 'evil', 'evil');\n" +
	"UPDATE mysql.db SET user = 'evil';\nDELETE FROM mysql.db;\n" +
	"CREATE PROCEDURE sys.evil() SELECT 1;\nCREATE VIEW sys.evil AS SELECT 1;\n" +
	"CREATE SERVER evil FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x');\n" +
	"PREPARE s FROM 'CREATE USER evil4@localhost';\nEXECUTE s;\nDO GET_LOCK('x', 0);\nCALL wild();\nSELECT 1 INTO OUTFILE 'evil';\n" +
	"CREATE TEMPORARY TABLE gone (a int);\nCREATE FUNCTION evil RETURNS STRING SONAME 'evil.so';\n"

// permitted is what stays beside it.
const permitted = "SET NAMES utf8mb4;\nCREATE TABLE t (a int PRIMARY KEY, b varchar(90)) ENGINE=InnoDB;\nTRUNCATE TABLE t;\nINSERT INTO t VALUES (1,'x'),(2,'y'),(3,'z');\n" +
	"UPDATE t SET b = concat(b, '!') WHERE a = 1;\nDELETE FROM t WHERE a = 2;\nINSERT INTO t VALUES (2,md5('x'));\nANALYZE TABLE t;\n" +
	"DELIMITER ;;\nCREATE PROCEDURE wild() BEGIN SET GLOBAL net_read_timeout = 77; END;;\n/*!50003 CREATE*/ /*!50003 TRIGGER tr BEFORE INSERT ON t FOR EACH ROW BEGIN /* mine */ CALL wild(); END */;;\nDELIMITER ;\n" +
	"CREATE EVENT ev ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' DO CALL wild();\nCREATE OR REPLACE VIEW v AS SELECT a FROM t;\n"

// state asks for all that administration would change.
const state = "SELECT count(*) FROM mysql.user; SELECT count(*) FROM mysql.db; SELECT count(*) FROM mysql.db WHERE user LIKE 'evil%'; SELECT count(*) FROM mysql.servers; " +
	"SELECT count(*) FROM information_schema.routines WHERE routine_schema = 'sys'; SELECT count(*) FROM information_schema.views WHERE table_schema IN ('sys', 'mysql'); " +
	"SELECT @@global.max_connections, @@global.net_read_timeout, @@global.net_write_timeout, @@global.sql_mode; SELECT count(*) FROM mysql.func"

// TestAdministrationInADump: a dump's tables, rows and programs arrive, everything else in it is
// listed and does not run.
func TestAdministrationInADump(t *testing.T) {
	t.Parallel()
	for _, server := range []*testdb.Server{testdb.OwnMySQL(t), testdb.OwnMariaDB(t)} {
		dst := server.NewDatabase(t, "dst")
		file := testdb.Written(t, "dump.sql", permitted+administration)
		before := testdb.Query(t, server.URL(""), state)
		for _, args := range [][]string{{"check", file, dst}, {"copy", file, dst, "--plan"}, {"copy", file, dst}} {
			out := testdb.Must(t, args...)
			for _, want := range []string{"CREATE USER (first in line 15)", "SET GLOBAL", "1 GRANT (line ", "1 FLUSH (line ", "1 CREATE PROCEDURE in sys (line ", "1 CREATE SERVER (line ", "1 CALL (line ", "database mysql", "--run-all-statements"} {
				if !strings.Contains(out, want) {
					t.Errorf("%s: %v does not say %q:\n%s", server.Engine, args, want, out)
				}
			}
			if args[len(args)-1] == "--plan" {
				for _, want := range []string{"  SET NAMES utf8mb4;", "CREATE PROCEDURE wild()", "CREATE EVENT ev", "TRIGGER tr", "VIEW v AS", "CREATE TABLE"} {
					if !strings.Contains(out, want) {
						t.Errorf("%s: the plan does not show %q:\n%s", server.Engine, want, out)
					}
				}
				if strings.Contains(out, "evil") {
					t.Errorf("%s: the plan shows what does not run:\n%s", server.Engine, out)
				}
			}
			if now := testdb.Query(t, server.URL(""), state); now != before {
				t.Fatalf("%s: after %v the server has\n%s\nbefore it\n%s", server.Engine, args, now, before)
			}
		}
		if got := testdb.Query(t, dst, "SELECT a, b FROM t; SELECT count(*) FROM v; SELECT count(*) FROM information_schema.routines WHERE routine_schema = database(); "+
			"SELECT count(*) FROM information_schema.events WHERE event_schema = database(); SELECT action_statement FROM information_schema.triggers WHERE trigger_schema = database()"); got !=
			"1\tx!\n2\t9dd4e461268c8034f5c8564e155c67a6\n3\tz\n3\n1\n1\nBEGIN /* mine */ CALL wild(); END" {
			t.Errorf("%s has\n%s", server.Engine, got)
		}
		dst = server.NewDatabase(t, "dst")
		file = testdb.Written(t, "dump.sql", "CREATE TABLE t (a int);\nCREATE USER evil5@localhost;\nSET GLOBAL net_read_timeout = 78;\n")
		testdb.Must(t, "copy", file, dst, "--run-all-statements")
		if got := testdb.Query(t, server.URL(""), "SELECT count(*), max(@@global.net_read_timeout) FROM mysql.user WHERE user = 'evil5'"); got != "1\t78" {
			t.Errorf("%s with --run-all-statements: %s", server.Engine, got)
		}
	}
}

// TestTablesOfOtherServers: a dump cannot make the target log in elsewhere. With
// --run-all-statements it does, as the listener there sees.
func TestTablesOfOtherServers(t *testing.T) {
	t.Parallel()
	logins := make(chan bool, 1000) // it tries again for minutes
	elsewhere := testdb.Accept(t, func(c net.Conn) {
		c.Close()
		logins <- true
	})
	server := testdb.OwnMariaDB(t)
	testdb.Query(t, server.URL(""), "INSTALL SONAME 'ha_federatedx'")
	dst := server.NewDatabase(t, "dst")
	file := testdb.Written(t, "dump.sql", "CREATE TABLE mine (a int PRIMARY KEY);\nINSERT INTO mine VALUES (1);\n"+
		"CREATE TABLE theirs (a int PRIMARY KEY) ENGINE=FEDERATED CONNECTION='mysql://root@"+elsewhere.Addr().String()+"/d/t';\n")
	for verb, code := range map[string]int{"check": 1, "copy": 7} {
		if o := testdb.Run(t, verb, file, dst); o.Code != code || !strings.Contains(o.Out+o.ErrOut, "FEDERATED, which opens files or other servers") {
			t.Errorf("%s ends with %d:\n%s%s", verb, o.Code, o.Out, o.ErrOut)
		}
	}
	testdb.Must(t, "copy", file, dst, "--exclude", "*.theirs", "--prep", "drop")
	if n := len(logins); n != 0 {
		t.Errorf("the target has logged in %d times", n)
	}
	p := testdb.Command(t, "copy", file, dst, "--prep", "drop", "--run-all-statements")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-logins:
	case <-time.After(time.Minute):
		t.Error("it does not log in at all: the test shows nothing")
	}
	_ = p.Process.Kill()
	_ = p.Wait()
}

// TestRowsThatCallIntoADump: rows and triggers cannot run what the file has defined, and rows that
// are not read are not lost in silence. check knows it before.
func TestRowsThatCallIntoADump(t *testing.T) {
	t.Parallel()
	server := testdb.OwnMySQL(t)
	testdb.Query(t, server.URL(""), "SET GLOBAL log_bin_trust_function_creators = 1")
	routines := "CREATE TABLE t (a int PRIMARY KEY, b int);\nCREATE FUNCTION f() RETURNS int BEGIN SET GLOBAL net_read_timeout = 77; RETURN 1; END;;\nDELIMITER ;\n"
	for text, code := range map[string]int{
		routines + "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW SET NEW.b = f();\nINSERT INTO t VALUES (1,1);\n":                 7,
		routines + "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW SET GLOBAL net_read_timeout = 77;\nREPLACE INTO t SELECT 1,2;\n": 7,
		routines + "INSERT INTO t SELECT 1, f();\n":                                                  7,
		"CREATE TABLE t (a int PRIMARY KEY, b int);\nCREATE TABLE u SELECT user FROM mysql.user;\n":  7,
		"CREATE TABLE t (a int PRIMARY KEY, b int);\nCREATE TABLE u (a int) SELECT 1 AS b;\n":        7,
		"CREATE TABLE t (a int PRIMARY KEY, b int);\nLOAD DATA INFILE '/etc/passwd' INTO TABLE t;\n": 16,
		"CREATE TABLE t (a int PRIMARY KEY, b int);\nINSER INTO t VALUES (1,1);\n":                   16,
		"CREATE TABLE t (a int PRIMARY KEY, b int);\nINSERT INTO t VALUES (1,1);\nTRUNCATE t;\n":     7,
	} {
		dst := server.NewDatabase(t, "dst")
		file := testdb.Written(t, "dump.sql", strings.Replace(text, "CREATE FUNCTION", "DELIMITER ;;\nCREATE FUNCTION", 1))
		if o := testdb.Run(t, "check", file, dst); o.Code != 1 {
			t.Errorf("check of %s: exit %d\n%s%s", text, o.Code, o.Out, o.ErrOut)
		}
		if o := testdb.Run(t, "copy", file, dst); o.Code != code {
			t.Errorf("%s: exit %d\n%s%s", text, o.Code, o.Out, o.ErrOut)
		}
		if got := testdb.Query(t, server.URL(""), "SELECT @@global.net_read_timeout"); got != "30" {
			t.Fatalf("%s has run: %s", text, got)
		}
	}
}

// TestAnotherDatabaseInADump: objects in a database that the target's URL does not name stay out of
// it, and CREATE OR REPLACE DATABASE removes none.
func TestAnotherDatabaseInADump(t *testing.T) {
	t.Parallel()
	server := testdb.MariaDB(t)
	dst, other := server.NewDatabase(t, "dst"), server.NewDatabase(t, "other")
	name := other[strings.LastIndex(other, "/")+1:]
	testdb.Query(t, other, "CREATE TABLE mine (a int)")
	out := testdb.Must(t, "copy", testdb.Written(t, "dump.sql", "CREATE TABLE t (a int);\nCREATE VIEW "+name+".v AS SELECT 1;\nCREATE PROCEDURE "+name+".p() SELECT 1;\n"), dst)
	if !strings.Contains(out, "1 view in another database (line 2), 1 routine in another database (line 3)") {
		t.Errorf("the report:\n%s", out)
	}
	testdb.Run(t, "copy", testdb.Written(t, "dump.sql", "CREATE OR REPLACE DATABASE "+name+";\nUSE "+name+";\nCREATE TABLE t (a int);\n"), server.URL(""))
	if got := testdb.Query(t, other, "SELECT count(*) FROM mine; SELECT count(*) FROM information_schema.views WHERE table_schema = database(); SELECT count(*) FROM information_schema.routines WHERE routine_schema = database()"); got != "0\n0\n0" {
		t.Errorf("the other database has %q", got)
	}
}
