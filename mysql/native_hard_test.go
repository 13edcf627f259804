package mysql

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/mysql/mysqltest"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// hardCommon holds what both families accept, and what is easily lost.
const hardCommon = `
SET sql_mode='';
CREATE TABLE parent (a int NOT NULL, b int NOT NULL, note varchar(20) DEFAULT 'x;y', PRIMARY KEY (a), UNIQUE KEY ub (b)) COMMENT='line\none';
CREATE TABLE child (x int, y int, KEY named (y), CONSTRAINT f_restrict FOREIGN KEY (x) REFERENCES parent (a) ON DELETE RESTRICT,
  CONSTRAINT f_none FOREIGN KEY (y) REFERENCES parent (b) ON DELETE NO ACTION ON UPDATE SET NULL);
CREATE TABLE late_auto (a int, n int NOT NULL AUTO_INCREMENT, b int, KEY k1 (a), KEY k2 (n), KEY k3 (b), UNIQUE KEY u (a,b)) AUTO_INCREMENT=77;
CREATE TABLE clustered (id int NOT NULL, v int, UNIQUE KEY z_first (id), UNIQUE KEY a_second (v), KEY (v, id));
CREATE TABLE packed (id int PRIMARY KEY, t text, b blob, KEY kt (t(20)), KEY kb (b(30)), FULLTEXT KEY f1 (t)) ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8;
CREATE TABLE two_texts (id int PRIMARY KEY, t text, u text, FULLTEXT KEY f1 (t), FULLTEXT KEY f2 (u), KEY k (u(9))) ENGINE=InnoDB;
CREATE TABLE isam (id int, t text, KEY (id), FULLTEXT KEY (t)) ENGINE=MyISAM DEFAULT CHARSET=latin1 MAX_ROWS=1000;
CREATE TABLE mem (id int, KEY USING HASH (id), KEY bt (id) USING BTREE) ENGINE=MEMORY;
CREATE TABLE zero (id int PRIMARY KEY, d date NOT NULL DEFAULT '0000-00-00', e enum('a\'b','c,d','e)f') DEFAULT 'e)f', bits bit(3) DEFAULT b'101',
  bin binary(3) DEFAULT 'a\0b', n decimal(5,2) NOT NULL DEFAULT -1.50, c varchar(10) DEFAULT '' COMMENT 'it''s, (a) "test"', KEY kc (c) COMMENT 'key''s');
CREATE TABLE gen (a int, s int GENERATED ALWAYS AS (a + 1) STORED, v varchar(20) GENERATED ALWAYS AS (concat('a,',a,')')) VIRTUAL, UNIQUE KEY us (s), KEY kv (v));
CREATE TABLE hashed (id int NOT NULL, k char(8) NOT NULL, PRIMARY KEY (id,k)) PARTITION BY KEY (k) PARTITIONS 3;
CREATE VIEW z_base AS SELECT count(*) AS n, sum(a) AS total FROM parent;
CREATE SQL SECURITY INVOKER VIEW strings AS SELECT 'it''s parent' AS s, a FROM parent WHERE note <> 'parent' WITH CASCADED CHECK OPTION;
DELIMITER //
CREATE FUNCTION f_twice(n int) RETURNS int DETERMINISTIC RETURN n * 2//
CREATE TRIGGER t2 BEFORE INSERT ON parent FOR EACH ROW SET NEW.b = NEW.b + 1//
CREATE TRIGGER t1 BEFORE INSERT ON parent FOR EACH ROW FOLLOWS t2 SET NEW.b = NEW.b * 2//
CREATE TRIGGER t0 BEFORE INSERT ON parent FOR EACH ROW PRECEDES t2 SET NEW.note = 'ä'//
SET sql_mode='ANSI_QUOTES,PIPES_AS_CONCAT'//
CREATE PROCEDURE ansi() SELECT "a" || 'b' FROM parent//
SET sql_mode='', time_zone='+03:00', collation_connection='latin1_swedish_ci'//
CREATE EVENT once_a_day ON SCHEDULE EVERY 1 DAY STARTS '2031-02-03 04:05:06' ON COMPLETION PRESERVE ENABLE COMMENT 'c' DO DELETE FROM parent WHERE a < 0//
DELIMITER ;
SET collation_connection=utf8mb4_general_ci;
CREATE VIEW a_needs_z AS SELECT z.total, f_twice(z.n) AS twice FROM z_base z;
`

const hardMariaDB = hardCommon + `
CREATE SEQUENCE seq START WITH 100 INCREMENT BY 10 MAXVALUE 5000 CYCLE NOCACHE;
SELECT NEXTVAL(seq);
CREATE TABLE from_seq (id int DEFAULT NEXTVAL(seq), u uuid, i6 inet6, KEY (u));
CREATE TABLE versioned (id int PRIMARY KEY, v int) WITH SYSTEM VERSIONING;
CREATE TABLE periods (id int, s date, e date, PERIOD FOR p (s, e), UNIQUE KEY (id, p WITHOUT OVERLAPS));
CREATE TABLE aria (id int PRIMARY KEY, j json, jd json DEFAULT '[]', KEY ki (id) IGNORED) ENGINE=Aria TRANSACTIONAL=0 PAGE_CHECKSUM=0;
CREATE TABLE lobdef (id int PRIMARY KEY, t text DEFAULT 'abc', c blob COMPRESSED, x int DEFAULT (1 + 2), d datetime DEFAULT (current_timestamp() + INTERVAL 1 DAY), t6 datetime(6) DEFAULT current_timestamp(6) ON UPDATE current_timestamp(6));
CREATE TABLE long_unique (id int PRIMARY KEY, t text, UNIQUE KEY (t));
CREATE TABLE only_empty (id int PRIMARY KEY, v varchar(0), w varbinary(0), KEY (v), UNIQUE KEY (w), KEY two (id, v), KEY (id));
CREATE TABLE checks1 (a int, CHECK (a > 0), CONSTRAINT named CHECK (a < 100));
CREATE TABLE checks2 (a int, CHECK (a > 1), CONSTRAINT named CHECK (a < 200));
CREATE TABLE collations (a varchar(10) COLLATE utf8mb4_uca1400_as_cs, b varchar(10) COLLATE utf8mb4_nopad_bin, c varchar(10) COLLATE latin1_swedish_nopad_ci);
CREATE TABLE listed (id int) PARTITION BY LIST (id) (PARTITION p1 VALUES IN (1,2), PARTITION pd DEFAULT);
CREATE TABLE compressed (id int PRIMARY KEY) PAGE_COMPRESSED=1;
DELIMITER //
SET sql_mode=ORACLE//
CREATE PACKAGE pk AS PROCEDURE p; END//
CREATE PACKAGE BODY pk AS PROCEDURE p AS BEGIN NULL; END; END//
SET sql_mode=''//
CREATE AGGREGATE FUNCTION agg(x int) RETURNS int BEGIN DECLARE s int DEFAULT 0; DECLARE CONTINUE HANDLER FOR NOT FOUND RETURN s; LOOP FETCH GROUP NEXT ROW; SET s = s + x; END LOOP; END//
DELIMITER ;
`

const hardMySQL = hardCommon + `
CREATE TABLE functional (id int PRIMARY KEY, a varchar(20), j json, KEY fx ((lower(a))), UNIQUE KEY ux ((id * 2)), KEY mv ((CAST(j->'$.x' AS UNSIGNED ARRAY))), KEY hidden (a) INVISIBLE);
CREATE TABLE srid (id int PRIMARY KEY, p point NOT NULL SRID 4326, SPATIAL KEY (p));
CREATE TABLE exprs (id int PRIMARY KEY, j json DEFAULT (json_array()), t text DEFAULT ('abc'), e int DEFAULT (1 + 2), hid int DEFAULT 5 INVISIBLE,
  g int GENERATED ALWAYS AS (id + 1) STORED NOT NULL, CONSTRAINT off CHECK (e > 0) NOT ENFORCED, CONSTRAINT on_ CHECK (e < 100));
CREATE TABLE bin0900 (v varchar(20) COLLATE utf8mb4_0900_bin PRIMARY KEY, de varchar(20) COLLATE utf8mb4_de_pb_0900_as_cs, ja varchar(20) COLLATE utf8mb4_ja_0900_as_cs_ks);
CREATE TABLE zipped (id int PRIMARY KEY) COMPRESSION='zlib' STATS_PERSISTENT=1;
CREATE TABLE ngrams (id int PRIMARY KEY, t text, FULLTEXT KEY (t) WITH PARSER ngram);
`

func hard(srv *testdb.Server) string {
	if srv.Engine == "mysql" {
		return hardMySQL
	}
	return hardMariaDB
}

func TestHardObjectsComeOutEqual(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		src, dst := srv.NewDatabase(t, "hard_src"), srv.NewDatabase(t, "hard_dst")
		testdb.Load(t, src, strings.NewReader(hard(srv)))
		testdb.Load(t, src, strings.NewReader("CREATE PROCEDURE qualified() SELECT "+mysqltest.DatabaseOf(src)+".parent.a FROM "+mysqltest.DatabaseOf(src)+".parent, `"+mysqltest.DatabaseOf(src)+"`.`z_base` WHERE note = '"+
			"' -- "+mysqltest.DatabaseOf(src)+".parent;\n"))
		db := describe(t, src)
		e := open(t, dst, server.Options{})
		objects, findings := e.Render(db, movesOf(db, mysqltest.DatabaseOf(dst)))
		build(t, e, objects)
		if diff := cmp.Diff(strings.Split(showAll(t, src), "\n"), strings.Split(showAll(t, dst), "\n")); diff != "" {
			t.Errorf("source and target differ (-source +target):\n%s", diff)
		}
		golden(t, "hard-"+srv.Engine+".txt", told(append(db.Findings, findings...), mysqltest.DatabaseOf(src), "SRC", mysqltest.DatabaseOf(dst), "DST"))
		if srv.Engine == "mariadb" {
			if next := testdb.Query(t, dst, "SELECT NEXTVAL(seq)"); next != "110" {
				t.Errorf("the sequence continues at %s", next)
			}
		}
	})
}

func TestHardObjectsCrossTheFamily(t *testing.T) {
	maria, my := testdb.MariaDB(t), testdb.MySQL(t)
	for _, way := range []struct {
		name     string
		from, to *testdb.Server
	}{{"mariadb-mysql", maria, my}, {"mysql-mariadb", my, maria}} {
		t.Run(way.name, func(t *testing.T) {
			dst, findings := across(t, way.from, way.to, "hard", func(rawURL string) { testdb.Load(t, rawURL, strings.NewReader(hard(way.from))) })
			golden(t, "hard-"+way.name+".txt", findings+"\n"+showAll(t, dst)+"\n")
		})
	}
}

// Tables that are left out, renamed or changed affect what depends on them, and each dependent is
// named.
func TestWhatNeedsALeftOutTable(t *testing.T) {
	mysqltest.Servers(t, func(t *testing.T, srv *testdb.Server) {
		src, dst := srv.NewDatabase(t, "part_src"), srv.NewDatabase(t, "part_dst")
		testdb.Load(t, src, strings.NewReader(hardCommon))
		db := describe(t, src)
		var moves []tidemark.Move
		for _, m := range movesOf(db, mysqltest.DatabaseOf(dst)) {
			switch m.From.Name {
			case "parent":
				to := *m.To
				to.Name = "elders"
				m.To, m.Direct = &to, false
				moves = append(moves, m)
			case "child", "gen":
				moves = append(moves, m)
			}
		}
		e := open(t, dst, server.Options{})
		objects, findings := e.Render(db, moves)
		build(t, e, objects)
		golden(t, "left-out-"+srv.Engine+".txt", told(findings, mysqltest.DatabaseOf(src), "SRC", mysqltest.DatabaseOf(dst), "DST")+"\n"+showAll(t, dst)+"\n")
	})
}
