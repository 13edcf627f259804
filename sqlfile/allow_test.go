package sqlfile

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// judged returns what becomes of the statements of a file: "" where they run, else why not.
func judged(t *testing.T, text string, server sqltext.Server) (out []string) {
	t.Helper()
	s := NewScanner(strings.NewReader(text), Options{Server: server})
	for {
		st, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			return append(out, err.Error())
		}
		if st.Tuples == nil {
			out = append(out, st.Beyond+st.Refuse)
		}
	}
}

// TestStatementsOfDumpsRun has what mysqldump, mariadb-dump, mydumper, phpMyAdmin and HeidiSQL
// write.
func TestStatementsOfDumpsRun(t *testing.T) {
	for _, text := range []string{
		"/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;\n/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;",
		"/*!40101 SET @saved_cs_client     = @@character_set_client */;\n/*!50503 SET character_set_client = utf8mb4 */;\n/*!40101 SET character_set_client = @saved_cs_client */;",
		"/*!50503 SET NAMES utf8mb4 */;", "/*!40101 SET NAMES binary*/;", "SET NAMES 'utf8' COLLATE 'utf8_general_ci';", "SET CHARACTER SET latin1;",
		"/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;", "/*!40103 SET TIME_ZONE='+00:00' */;", "SET @@session.foreign_key_checks = OFF;",
		"/*!50106 SET @save_time_zone= @@TIME_ZONE */ ;", "/*!80000 SET SESSION information_schema_stats_expiry=0 */;", "SET autocommit=0, LOCAL sql_notes := 0;",
		"/*M!101100 SET @old_system_versioning_insert_history=@@session.system_versioning_insert_history, @@session.system_versioning_insert_history=1 */;",
		"/*!40101 SET @OLD_LOCAL_SQL_MODE=@@SQL_MODE */;\n/*!40101 SET SQL_MODE=IFNULL(@OLD_LOCAL_SQL_MODE, '') */;\n/*!40014 SET FOREIGN_KEY_CHECKS=IF(@OLD_F IS NULL, 1, @OLD_F) */;",
		"SET sql_mode=(SELECT REPLACE(@@sql_mode,'ONLY_FULL_GROUP_BY',''));", "SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES');", "SET SESSION sql_mode = 'ANSI,TRADITIONAL';",
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;", "SET @half = (SELECT max(a) FROM x);",
		"/*!50001 CREATE ALGORITHM=UNDEFINED */\n/*!50013 DEFINER=`root`@`%` SQL SECURITY DEFINER */\n/*!50001 VIEW `v` AS select `mysql`.`user`.`User` from `mysql`.`user` */;", "/*!50001 DROP VIEW IF EXISTS `v`*/;", "CREATE VIEW v (a) AS SELECT 1;",
		"DELIMITER ;;\n/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`localhost`*/ /*!50003 TRIGGER `tr` BEFORE INSERT ON `t` FOR EACH ROW BEGIN set NEW.a = concat(NEW.a, '/* x */'); /* y */ INSERT INTO `d`.`log` (`a`) VALUES (upper(NEW.b)); END */;;\n",
		"DELIMITER ;;\nCREATE DEFINER='u'@'h' PROCEDURE `p`(x int) BEGIN SET GLOBAL max_connections = 1; CALL q(); END ;;\n", "CREATE DEFINER=CURRENT_USER() FUNCTION f(a int) RETURNS int RETURN 1;",
		"/*!50106 CREATE*/ /*!50117 DEFINER=`a`@`b`*/ /*!50106 EVENT `e` ON SCHEDULE EVERY 1 DAY DO SELECT 1 */ ;", "/*!50106 DROP EVENT IF EXISTS `e` */;", "DROP PROCEDURE IF EXISTS `p`;",
		"CREATE OR REPLACE PACKAGE BODY pk AS x int := 1;", "CREATE SEQUENCE `s` start with 1 ENGINE=InnoDB;", "SELECT SETVAL(`s`, 1001, 0);", "DO SETVAL(`d`.`s`, -5, 0);", "DROP SEQUENCE IF EXISTS `s`;",
		"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `d` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;", "DROP DATABASE IF EXISTS d;", "USE `mysql`;", "CREATE TABLE t (a int, b int DEFAULT (1), KEY (a)) COMMENT='select x';",
		"LOCK TABLES `t` WRITE;", "UNLOCK TABLES;", "/*!40000 ALTER TABLE `t` DISABLE KEYS */;", "ALTER TABLE `t` ADD PRIMARY KEY (`a`), MODIFY `a` int AUTO_INCREMENT;", "CREATE UNIQUE INDEX i ON t (a);", "DROP INDEX i ON t;",
		"/*!80002 ANALYZE TABLE `t` UPDATE HISTOGRAM ON `c` WITH 100 BUCKETS */;", "RENAME TABLE a TO b;", "START TRANSACTION;", "COMMIT;", "BEGIN;", "TRUNCATE TABLE t;", "START SLAVE;",
		"SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'uuid:1';", "CHANGE MASTER TO MASTER_LOG_FILE='x', MASTER_LOG_POS=4;",
		"INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(a) + 1;", "INSERT INTO d.t (a, b) SELECT count(*), now() FROM u JOIN v USING (a) WHERE a IN (1,2);", "INSERT INTO t SET a = coalesce(1, 2);", "UPDATE t SET a = a + 1 WHERE (a > 1);", "DELETE FROM t;",
		"INSERT INTO t VALUES (1,2) AS new(m,n) ON DUPLICATE KEY UPDATE a = new.m;", "CREATE TABLE x AS SELECT md5(a) FROM t;", "INSERT INTO mysql.user SELECT f(1);",
	} {
		for _, server := range []sqltext.Server{{}, {Version: 80033}, {MariaDB: true, Version: 101114}} {
			for _, why := range judged(t, text, server) {
				if why != "" {
					t.Errorf("%s is not run on %+v: %s", text, server, why)
				}
			}
		}
	}
}

func outside(engine string) string {
	return "makes a table of storage engine " + engine + ", which opens files or other servers with the target's rights"
}

// TestOtherStatementsDoNotRun has what runs administration, or hides it.
func TestOtherStatementsDoNotRun(t *testing.T) {
	my, maria := sqltext.Server{Version: 80033}, sqltext.Server{MariaDB: true, Version: 101114}
	for text, want := range map[string]string{
		"CREATE USER a;": "CREATE USER", "create/**/or replace # x\n user a;": "CREATE USER", "/*!50001 CREATE */ /*!50001 USER a */;": "CREATE USER", "/*! CREATE USER a*/;": "CREATE USER",
		"CREATE OR REPLACE DEFINER=a@b USER x;": "CREATE DEFINER", "CREATE DEFINER='\\'@' USER x;": "CREATE DEFINER", "CREATE AGGREGATE FUNCTION f RETURNS INT SONAME 'x';": "CREATE AGGREGATE", "CREATE FUNCTION f RETURNS INT SONAME 'x';": "CREATE FUNCTION",
		"CREATE TEMPORARY TABLE t (a int);": "CREATE TEMPORARY", "CREATE PROCEDURE sys.p() SELECT 1;": "CREATE PROCEDURE in sys", "DROP VIEW a, `mysql`.`b`;": "DROP VIEW in mysql", "ALTER TABLE t RENAME TO mysql . x;": "ALTER TABLE in mysql",
		"RENAME TABLE t TO sys.t;": "RENAME TABLE in sys", "ALTER USER root IDENTIFIED BY 'x';": "ALTER USER", "ALTER INSTANCE RELOAD TLS;": "ALTER INSTANCE", "DROP USER a;": "DROP USER", "DROP PREPARE s;": "DROP PREPARE", "ALTER DATABASE d READ ONLY = 1;": "",
		"GRANT ALL ON *.* TO a;": "GRANT", "SET GLOBAL a = 1;": "SET GLOBAL", "SET @@GLOBAL . a = 1;": "SET GLOBAL", "SET @a = 1, @@persist.a = 1;": "SET PERSIST", "SET SESSION a = 1, GLOBAL b = 2;": "SET GLOBAL", "SET PERSIST_ONLY a = 1;": "SET PERSIST_ONLY",
		"SET PASSWORD = 'x';": "SET PASSWORD", "SET ROLE x;": "SET ROLE", "SET DEFAULT ROLE x TO y;": "SET DEFAULT", "SET STATEMENT sql_mode='' FOR CREATE USER x;": "SET STATEMENT", "SET RESOURCE GROUP x;": "SET RESOURCE", "SET `sql_mode` = 'ANSI';": "SET", "SET x.key_buffer_size = 1;": "SET",
		"SET @a = f();": "SET to an expression", "SET @a = (SELECT 1 FROM mysql.user);": "SET to an expression", "SET @a = (SELECT @b := 1);": "SET to an expression", "SET @a = load_file('/x');": "SET to an expression", "SET @a = sys.f(1);": "SET to an expression",
		"SET sql_mode = @nothing;": "SET sql_mode to an expression", "SET sql_mode = 1048576;": "SET sql_mode to an expression", "SET sql_mode = 'NO_BACK' 'SLASH_ESCAPES';": "SET sql_mode to an expression", "SET sql_mode = REPLACE(@@sql_mode, 'STRICT_TRANS_TABLES', 'NO_BACKSLASH_ESCAPES');": "SET sql_mode to an expression",
		"SET sql_mode = REPLACE('xACKSLASH_ESCAPES', 'x', 'NO_B');": "SET sql_mode to an expression", "SET character_set_client = CONCAT('a', char(98));": "SET character_set_client to an expression", "SET @@SESSION.SQL_LOG_BIN= 0;": "", "SET foreign_key_checks=0, sql_log_bin = 0;": "SET sql_log_bin",
		"CALL p();": "CALL", "DO f();": "DO", "DO SETVAL(s, f());": "DO", "SELECT 1 INTO OUTFILE '/x';": "SELECT", "SELECT setval(mysql.s, 1);": "SELECT", "HANDLER t OPEN;": "HANDLER", "PREPARE s FROM 'x';": "PREPARE", "EXECUTE IMMEDIATE 'x';": "EXECUTE", "INSTALL PLUGIN x SONAME 'y';": "INSTALL PLUGIN",
		"LOAD DATA INFILE '/x' INTO TABLE t;": "LOAD DATA", "BEGIN NOT ATOMIC CREATE USER a;": "BEGIN", "IF 1 THEN CREATE USER a;": "IF", "LOCK INSTANCE FOR BACKUP;": "LOCK", "START GROUP_REPLICATION;": "START GROUP_REPLICATION", "\xa0;": "unknown", "INSER INTO t VALUES (1);": "INSER",
		"INSERT INTO t SELECT f(1);": "calls f", "INSERT INTO t SELECT `now`();": "calls now", "INSERT INTO t SELECT d.now();": "calls now", "INSERT INTO t SELECT user FROM mysql./**/user;": "names database mysql", "INSERT INTO t SELECT 1 INTO OUTFILE '/x';": "has an INTO", "INSERT INTO t SET a = value(1);": "calls value",
		"INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = sleep(1);": "calls sleep", "INSERT INTO t SELECT @m := 1;": "sets a variable", "UPDATE t, u SET a = 1;": "changes rows of more than one table, or under another name", "UPDATE t SET a = f(1);": "calls f", "DELETE FROM t WHERE load_file('/x');": "calls load_file",
		"CREATE TABLE t LIKE mysql.user;": "names database mysql", "CREATE TABLE t (a int) SELECT 1 AS b;": "takes rows from a query", "CREATE TABLE t AS SELECT f(1);": "calls f",
		"CREATE TABLE t (a int) ENGINE=FEDERATED CONNECTION='mysql://h/d/t';": outside("FEDERATED"), "CREATE TABLE t (`engine` int, type varchar(9)) COMMENT='engine=spider' ENGINE 'Connect' TABLE_TYPE=CSV FILE_NAME='/x';": outside("CONNECT"), "/*!50001 CREATE TABLE t (a int) TYPE=`Spider` */;": outside("SPIDER"),
		"CREATE TABLE t (a int) PARTITION BY HASH (a) (PARTITION p STORAGE ENGINE = SPHINX);": outside("SPHINX"), "CREATE TABLE t LIKE u;": "", "ALTER TABLE t ENGINE=s3;": "ALTER TABLE", "ALTER TABLE t ENGINE=InnoDB;": "",
		"SET default_storage_engine = InnoDB, @@storage_engine='MyISAM';": "", "SET default_storage_engine = 'CONNECT';": "SET default_storage_engine", "SET @x = 'spider'; SET storage_engine = @x;": " | SET storage_engine", "SET storage_engine = @nothing;": "SET storage_engine to an expression",
		"DELIMITER ;;\nCREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW UPDATE mysql.user SET a = 1;;": "names database mysql", "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW CALL p();": "has CALL", "CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW SET @@global.x = 1;": "has @@global",
		"CREATE TRIGGER a BEFORE INSERT ON t FOR EACH ROW SET NEW.a = f(1);": "calls f", "INSERT INTO t SET a = 1; TRUNCATE t;": " | empties its table after rows of it",
	} {
		for _, server := range []sqltext.Server{my, maria} {
			if got := strings.Join(judged(t, text, server), " | "); got != want {
				t.Errorf("%s on %+v: %q, want %q", text, server, got, want)
			}
		}
	}
	// What only one server reads differs, and no text is run that was not judged.
	for text, want := range map[string][2]string{
		"/*M!100000 /* */ CREATE USER a # */ SET @a = 1;\n;": {"", "CREATE USER"}, "/*!50701 CREATE USER a */;": {"CREATE USER", ""}, "/*M!100000 CREATE USER a */;": {"", "CREATE USER"}, "/*!99999 CREATE USER a */;": {"", ""},
	} {
		for i, server := range []sqltext.Server{my, maria} {
			if got := strings.Join(judged(t, text, server), ""); got != want[i] {
				t.Errorf("%s on %+v: %q, want %q", text, server, got, want[i])
			}
		}
	}
}

// TestFunctionsAreTheServers: a server resolves each name that rows may call before it looks for a
// function that a file could have created.
func TestFunctionsAreTheServers(t *testing.T) {
	t.Parallel()
	for _, srv := range []*testdb.Server{testdb.MySQL(t), testdb.MariaDB(t)} {
		own := functionsOfMySQL
		if srv.Engine == "mariadb" {
			own = functionsOfMariaDB
		}
		dst := srv.NewDatabase(t, "functions")
		var b strings.Builder
		names := strings.Fields(functions + " " + own + " " + reservedWords)
		for _, name := range names {
			b.WriteString("CREATE FUNCTION `" + name + "`() RETURNS int DETERMINISTIC RETURN 4711;\n")
		}
		testdb.Load(t, dst, strings.NewReader(b.String()))
		if got := testdb.Query(t, dst, "SELECT count(*) FROM information_schema.routines WHERE routine_schema = database()"); got != strconv.Itoa(len(names)) {
			t.Fatalf("%s has %s functions", srv.Engine, got)
		}
		for _, name := range names {
			if got, err := testdb.TryQuery(dst, "SELECT "+name+"()"); err == nil && got == "4711" {
				t.Errorf("%s: %s() is the function of the file", srv.Engine, name)
			}
		}
	}
}
