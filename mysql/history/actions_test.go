package history

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
)

// TestActions: actions are distinguished from quoted text, and returned in a form that can be run
// again.
func TestActions(t *testing.T) {
	for _, c := range []struct {
		sql  string
		mode uint64
		want []string
	}{
		{sql: "ALTER TABLE t ADD COLUMN IF NOT EXISTS x int DEFAULT 3 AFTER n, MODIFY n decimal(10,2) NOT NULL, ADD INDEX (x)", want: []string{
			"add column t x: ADD COLUMN x int DEFAULT 3 AFTER n [int moves]", "change column t n: CHANGE COLUMN `n` `n` decimal(10,2) NOT NULL [decimal(10,2) not null]"}},
		{sql: "ALTER TABLE s.t ADD (x int, KEY (x), y enum('a,b',')') CHARACTER SET latin1) PARTITION BY HASH (id) PARTITIONS 3", want: []string{
			"add column t x: ADD COLUMN x int [int]", "add column t y: ADD COLUMN y enum('a,b',')') CHARACTER SET latin1 [enum('a,b',')')]", "repartition t : PARTITION BY HASH (id) PARTITIONS 3"}},
		{sql: "ALTER TABLE t /*!50100 REORGANIZE PARTITION a, b INTO (PARTITION c VALUES LESS THAN (5)) */", want: []string{"repartition t : REORGANIZE PARTITION a, b INTO (PARTITION c VALUES LESS THAN (5))"}},
		{sql: "ALTER TABLE t DROP PARTITION a, b", want: []string{"drop partition t a, b: DROP PARTITION a, b"}},
		{sql: "ALTER TABLE t DROP PARTITION IF EXISTS a", want: []string{"drop partition t a: "}},
		{sql: "ALTER TABLE t TRUNCATE PARTITION ALL", want: []string{"truncate partition t ALL: TRUNCATE PARTITION ALL"}},
		{sql: "ALTER TABLE t COMMENT 'RENAME TO x, DROP PARTITION a', ENGINE=InnoDB, ADD CONSTRAINT c CHECK (a > 0), DROP FOREIGN KEY f"},
		{sql: "ALTER TABLE t RENAME INDEX a TO b, RENAME COLUMN a TO b", want: []string{"change column t -> b a: RENAME COLUMN `a` TO `b`"}},
		{sql: "ALTER IGNORE TABLE `t` RENAME AS u.v", want: []string{"rename table t -> u.v : "}},
		{sql: "RENAME TABLE a TO b, c TO d", want: []string{"rename table a -> s.b : ", "rename table c -> s.d : "}},
		{sql: "DROP TABLE IF EXISTS a, b", want: []string{"drop table a : ", "drop table b : "}},
		{sql: "DROP DATABASE s", want: []string{"drop table  : "}},
		{sql: "CREATE OR REPLACE TABLE t (id int)", want: []string{"drop table t : "}},
		{sql: "CREATE TABLE t (id int)"},
		{sql: "CREATE INDEX i ON t (a)"},
		{sql: "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u", want: []string{"fill partition t p: ", "fill partition u s.t: "}},
		{sql: "ALTER TABLE t CONVERT PARTITION p TO TABLE u", want: []string{"drop partition t p: "}},
		{sql: "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"},
		{sql: "ALTER TABLE t ALTER COLUMN a SET DEFAULT (1 + 2), ALTER b DROP DEFAULT, ALTER INDEX i INVISIBLE", want: []string{
			"set default t a: ALTER COLUMN a SET DEFAULT (1 + 2)", "drop default t b: ALTER COLUMN b DROP DEFAULT"}},
		{sql: `ALTER TABLE "t" DROP "a""b"`, mode: ModeANSIQuotes, want: []string{"drop column t a\"b: DROP COLUMN `a\"b`"}},
		{sql: `ALTER TABLE t ADD x varchar(3) DEFAULT '\'`, mode: ModeNoBackslash, want: []string{"add column t x:  [varchar(3)]"}},
		{sql: "ALTER TABLE t CHANGE a b real", mode: modeRealAsFloat, want: []string{"change column t -> b a:  [float]"}},
		{sql: "ALTER TABLE t ADD g int GENERATED ALWAYS AS (concat(a, ',', b)) STORED, ADD i int AUTO_INCREMENT PRIMARY KEY, ADD u char(36) DEFAULT (uuid())", want: []string{
			"add column t g: ADD COLUMN g int GENERATED ALWAYS AS (concat(a, ',', b)) STORED [int generated]", "add column t i: ADD COLUMN i int AUTO_INCREMENT PRIMARY KEY [int not null numbers]",
			"add column t u: ADD COLUMN u char(36) DEFAULT (uuid()) [char(36) computed]"}},
	} {
		d := &Reader{Mariadb: true, Version: 101100, Mode: c.mode | modeStrict, DB: "s", Key: func(id tidemark.TableID) tidemark.TableID { return id }}
		var got []string
		for _, a := range d.Actions(ReadStatement(c.sql, "s"), c.sql) {
			text := fmt.Sprint(a.Verb, " ", a.Table.Name)
			if a.To != "" {
				text += " -> " + a.To
			}
			text += " " + a.Column + ": " + a.Words
			if a.Def != nil {
				text += " [" + a.Def.Type + said(a) + "]"
			}
			got = append(got, text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s\n%q\nnot\n%q", c.sql, got, c.want)
		}
	}
}

func said(a change.DDLAction) (out string) {
	for word, is := range map[string]bool{" moves": a.Moves, " not null": a.Def.NotNull && !a.Def.Numbers, " not null numbers": a.Def.Numbers, " generated": a.Def.Generated, " computed": a.Def.Computed, " loose": a.Loose} {
		if is {
			out += word
		}
	}
	return out
}
