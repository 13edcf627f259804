package schemas

import (
	"fmt"
	"strings"
)

var mysqlTypes = []string{"tinyint(1)", "tinyint", "tinyint unsigned", "smallint", "mediumint unsigned", "int", "int unsigned", "bigint", "bigint unsigned", "int(5) unsigned zerofill",
	"decimal(10,2)", "decimal(65,30)", "decimal(5,0) unsigned", "float", "double", "float(7,3)", "char(5)", "varchar(20)", "varchar(191)", "varchar(300)", "varchar(768)", "varchar(3000)",
	"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "longblob", "binary(3)", "binary(16)", "varbinary(40)", "varbinary(900)", "date", "time", "time(3)", "datetime", "datetime(6)", "timestamp NULL",
	"timestamp(3) NULL", "year", "bit(1)", "bit(9)", "bit(64)", "json", "geometry", "point", "polygon",
	"varchar(20) CHARACTER SET latin1", "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "varchar(20) CHARACTER SET ascii", "text CHARACTER SET utf16", "char(3) CHARACTER SET binary", "varchar(30) COLLATE utf8mb4_unicode_ci",
	"boolean", "double(8,2)", "float(20)", "dec(5)", "numeric(8)", "nchar(5)", "national varchar(9)", "long varchar", "varchar(20) CHARACTER SET latin1 COLLATE latin1_bin", "varchar(9) CHARACTER SET gbk", "char(4) CHARACTER SET ucs2",
	"char(255)", "binary(0)", "char(0)", "varchar(0)", "bit", "decimal", "year(4)", "multipoint", "linestring", "geometrycollection", "timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP", "datetime(3)", "time(6)", "mediumint(8) unsigned zerofill", "bigint(20) zerofill"}

var mariaTypes = []string{"uuid", "inet6", "inet4", "varchar(50) COMPRESSED", "text COMPRESSED", "varchar(20) CHARACTER SET utf8mb4 COLLATE uca1400_ai_ci"}

var mysqlDefaults = map[string][]string{
	"tinyint": {"0", "1"}, "smallint": {"-1"}, "int": {"0", "7", "NULL", "(7)", "(-(1))", "(NULL)", "(0x41)", "('7')", "(1.5)", "(2 + 3)"}, "bigint": {"0", "9223372036854775807"}, "decimal": {"1.50", "0.00", "0"}, "float": {"1.5", "0"}, "double": {"0.1", "1e10"},
	"varchar": {"(1.50)", "(1e3)", "(true)", "(concat('a', '\\n'))", "''", "'it''s'", "'a\\\\b'", "'ä'", "NULL", "(upper('x'))", "('')"}, "date": {"'2024-02-29'", "(curdate())", "('2024-1-2')", "(20240102)", "(curdate() + interval 1 day)"}, "time": {"'12:00:00'", "'-838:59:59'"},
	"datetime": {"('2024-1-2')", "(date'2024-01-02')", "'2024-02-29 12:00:00'", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"}, "datetime(6)": {"CURRENT_TIMESTAMP(6)", "'2024-02-29 12:00:00.123456'"},
	"timestamp": {"CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP", "NULL"}, "year": {"2024", "(24)"}, "bit": {"b'1'", "0", "(1)", "(b'1')"}, "binary": {"'abc'", "0x00", "(7)", "(0x61)"}, "varbinary": {"(7)", "(concat('a', 'b'))", "''", "0x00ff"},
	"enum": {"(1)"}, "set": {"(1)", "''"}, "boolean": {"true", "(false)"}, "numeric": {"(7)"}, "char": {"(7)", "''", "'x'"},
	"text": {"('x')"}, "json": {"('{}')", "(json_array())"}, "blob": {"('x')"}, "uuid": {"(uuid())"},
}

// generated are types that computed columns have, called those whose defaults are calls.
var (
	generated = map[string]bool{"int": true, "varchar": true, "bigint": true, "text": true, "double": true, "varbinary": true}
	called    = map[string]bool{"varchar": true, "text": true, "varbinary": true, "char": true, "mediumtext": true}
)

func (m *maker) mysqlColumn(name string, t *made) (kind, text string) {
	kind = pick(m, mysqlTypes...)
	switch {
	case m.engine == "mariadb" && m.odds(6):
		kind = pick(m, mariaTypes...)
	case len(t.columns) == 0 && m.odds(60):
		kind = pick(m, "int AUTO_INCREMENT", "bigint unsigned AUTO_INCREMENT", "int", "varchar(40)", "bigint unsigned", "binary(16)")
	case m.odds(10):
		kind = pick(m, "enum(", "enum(", "set(") + strings.Replace(m.labels(), "one,two", "one two", 1) + ")" + pick(m, "", "", " CHARACTER SET latin1", " CHARACTER SET binary")
	case m.engine == "mysql" && m.odds(2):
		kind = "point NOT NULL SRID 4326"
	}
	text = m.q(name) + " " + kind
	head, _, _ := strings.Cut(kind, "(")
	head, _, _ = strings.Cut(head, " ")
	list := mysqlDefaults[head]
	if exact, ok := mysqlDefaults[kind]; ok {
		list = exact
	}
	switch {
	case strings.HasSuffix(kind, "AUTO_INCREMENT"):
		return kind, text
	case m.odds(9) && generated[head]:
		expr := pick(m, "(1 + 1)", "(concat('a', 'b'))")
		if len(t.columns) > 0 && m.odds(60) {
			base := pick(m, t.columns...)
			of := m.q(base.name)
			expr = pick(m, "("+of+" + 1)", "(lower("+of+"))", "(concat("+of+", '-'))", "(coalesce("+of+", 0))", "(if("+of+" > 1, 'a', 'b'))", "(md5("+of+"))", "("+of+")", "(length("+of+"))")
			if m.odds(50) {
				expr = "(" + m.call(of, base.kind) + ")"
			}
		}
		return kind, text + " GENERATED ALWAYS AS " + expr + pick(m, " STORED", " VIRTUAL")
	case called[head] && m.odds(6):
		text += " DEFAULT (" + pick(m, m.call(pick(m, "'v'", "'6ccd780c-baba-1026-9564-5b8c656024db'", "x'00ff'"), "text"), m.call("7", "int"), m.call("'2024-02-29'", "date"), m.call("'{\"a\": 1}'", "json")) + ")"
	case len(list) > 0 && m.odds(35):
		text += " DEFAULT " + pick(m, list...)
	}
	if m.odds(35) && !strings.Contains(kind, "NULL") {
		text += " NOT NULL"
	}
	if m.odds(8) {
		text += " COMMENT " + pick(m, "'it''s'", "'😀'", "'a;b'", `'back\\slash'`)
	}
	if m.odds(5) {
		text += " CHECK (" + m.q(name) + " IS NOT NULL)"
	}
	if m.odds(3) {
		text += " INVISIBLE"
	}
	return kind, text
}

func (m *maker) mysqlKey(t *made, i int) string {
	var list []string
	for range 1 + m.IntN(2) {
		c := pick(m, t.columns...)
		list = append(list, m.q(c.name)+m.prefix(c.kind)+pick(m, "", "", " DESC"))
	}
	head := pick(m, "UNIQUE KEY ", "KEY ", "UNIQUE KEY ", "KEY ", "FULLTEXT KEY ", "SPATIAL KEY ")
	name := m.q(m.name("uk", i)) + " "
	if m.odds(20) {
		name = ""
	}
	return head + name + "(" + strings.Join(list, ", ") + ")" + pick(m, "", "", "", " COMMENT 'k'", " USING BTREE")
}

func (m *maker) mysqlIndex(t *made, i int) {
	c := pick(m, t.columns...)
	what := m.q(c.name) + m.prefix(c.kind)
	if m.engine == "mysql" && m.odds(15) {
		what = pick(m, "(lower("+m.q(c.name)+"))", "("+m.q(c.name)+" + 1)", "(cast("+m.q(c.name)+" as char(10)))")
	}
	if m.odds(20) {
		what += ", " + m.q(pick(m, t.columns...).name)
	}
	if strings.HasPrefix(c.kind, "varchar(") && m.odds(20) {
		what += "(5)"
	}
	m.add("CREATE %sINDEX %s ON %s (%s)", pick(m, "", "", "UNIQUE "), m.q(m.name("idx", m.IntN(50))), m.q(t.name), what)
}

func (m *maker) mysqlOptions(t *made) string {
	text := pick(m, "", "", "", " DEFAULT CHARSET=latin1", " DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin", " ROW_FORMAT=DYNAMIC", " ENGINE=MyISAM", " DEFAULT CHARSET=binary", " DEFAULT CHARSET=utf8mb3",
		" ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8", " ROW_FORMAT=COMPACT", " STATS_PERSISTENT=0", " MAX_ROWS=1000 AVG_ROW_LENGTH=100", " ENGINE=MEMORY", " DEFAULT COLLATE=utf8mb4_unicode_ci COMMENT='it''s'", " DEFAULT CHARSET=latin1 COLLATE=latin1_general_cs", " DEFAULT CHARSET=ucs2")
	if m.engine == "mariadb" && m.odds(5) {
		text = pick(m, " ENGINE=Aria", " WITH SYSTEM VERSIONING", " PAGE_COMPRESSED=1")
	}
	if m.odds(10) {
		text += fmt.Sprintf(" AUTO_INCREMENT=%d", 1+m.IntN(5000))
	}
	if m.odds(10) {
		text += pick(m, " PARTITION BY HASH ("+m.q(t.columns[0].name)+") PARTITIONS 3", " PARTITION BY KEY () PARTITIONS 2", " PARTITION BY LIST ("+m.q(t.columns[0].name)+") (PARTITION `p 0` VALUES IN (1,2,NULL) COMMENT = 'it''s', PARTITION p1 VALUES IN (7))",
			" PARTITION BY RANGE COLUMNS ("+m.q(t.columns[0].name)+") (PARTITION p0 VALUES LESS THAN ('m'), PARTITION p1 VALUES LESS THAN (MAXVALUE))",
			" PARTITION BY RANGE ("+m.q(t.columns[0].name)+") SUBPARTITION BY HASH ("+m.q(t.columns[0].name)+") SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)",
			" PARTITION BY RANGE ("+m.q(t.columns[0].name)+") (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)")
	}
	return text
}
