package schemas

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// programs makes views, triggers, routines and events of MySQL and MariaDB, under settings of the
// session that their texts depend on.
func (m *maker) programs() {
	for i := range 1 + m.IntN(4) {
		m.myView(i)
	}
	for i := range 1 + m.IntN(5) {
		m.program(i)
	}
	if m.engine == "mariadb" && m.odds(30) {
		m.add("CREATE SEQUENCE %s%s", m.q(m.name("seq", 0)), pick(m, "", " START 5 INCREMENT -2 MINVALUE -50 MAXVALUE 5", " CACHE 1 CYCLE", " NOCACHE START WITH 7"))
	}
}

func (m *maker) myView(i int) {
	t := pick(m, m.tables...)
	one, two := pick(m, t.columns...), pick(m, t.columns...)
	from, c, d := m.q(t.name), m.q(one.name), m.q(two.name)
	if len(m.views) > 0 && m.odds(40) {
		from, c, d, one.kind, two.kind = pick(m, m.views...), "a", "a", "enum", "enum"
	}
	name := m.q(m.name("view", i))
	query := pick(m, "SELECT "+c+" AS a FROM "+from, "SELECT x."+c+" AS a, y."+d+" AS b FROM "+from+" x LEFT JOIN "+from+" y USING ("+c+")", "SELECT DISTINCT "+c+" AS a FROM "+from+" ORDER BY "+c+" DESC LIMIT 3",
		"WITH q AS (SELECT "+c+" AS a FROM "+from+") SELECT a FROM q UNION ALL SELECT a FROM q", "SELECT "+c+" AS a, row_number() OVER (PARTITION BY "+d+" ORDER BY "+c+") AS n FROM "+from,
		"SELECT "+c+" AS a, count(*) AS n, group_concat("+d+" ORDER BY 1 SEPARATOR '; ') AS g FROM "+from+" GROUP BY "+c+" WITH ROLLUP", "SELECT 'it''s' AS a, 'a\\\\b' AS b, \"dq\" AS c, _latin1'x' AS d, N'n' AS e", "SELECT (SELECT count("+d+") FROM "+from+") AS a",
		"SELECT "+m.call(c, one.kind)+" AS a FROM "+from, "SELECT "+m.call(c, one.kind)+" AS a FROM "+from+" WHERE "+m.call(d, two.kind)+" IS NOT NULL", "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 3) SELECT a FROM r", "SELECT "+c+" AS a, ("+c+" IS NULL OR "+d+" IS NULL) AS b FROM "+from)
	m.mode()
	check := "" // MySQL takes one for any view, MariaDB for those that can be updated
	if strings.HasPrefix(query, "SELECT "+c+" AS a FROM "+m.q(t.name)) && !strings.Contains(query, " LIMIT ") {
		check = pick(m, "", "", " WITH LOCAL CHECK OPTION", " WITH CASCADED CHECK OPTION")
	}
	m.add("CREATE %sVIEW %s AS %s%s", pick(m, "", "", "ALGORITHM = MERGE ", "ALGORITHM = TEMPTABLE ", "SQL SECURITY INVOKER "), name, query, check)
	m.views = append(m.views, name)
}

// mode changes the session now and then.
func (m *maker) mode() {
	if m.odds(40) {
		m.add("%s", pick(m, "SET sql_mode = 'PIPES_AS_CONCAT'", "SET sql_mode = ''", "SET sql_mode = 'NO_BACKSLASH_ESCAPES'", "SET sql_mode = 'STRICT_ALL_TABLES,IGNORE_SPACE'", "SET NAMES utf8mb4", "SET NAMES utf8mb4 COLLATE utf8mb4_bin", "SET time_zone = '+05:30'", "SET time_zone = DEFAULT"))
	}
}

// program makes a trigger, a routine or an event.
func (m *maker) program(i int) {
	t := pick(m, m.tables...)
	one := pick(m, t.columns...)
	name, c, d := m.q(t.name), m.q(one.name), m.q(pick(m, t.columns...).name)
	m.mode()
	body := pick(m, "SET @x = 1", "BEGIN END", "BEGIN DECLARE v int DEFAULT 7; SET v = v + 1; -- a; comment\n SET @x = CONCAT('it''s', v); END", "BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END; SET @x = \"dq\"; END",
		"IF 1 = 1 THEN SET @x = 'a;b'; ELSE SET @x = '$$'; END IF", "l: BEGIN /* it's */ SET @x = 'ä😀'; LEAVE l; END", "CASE WHEN @x THEN SET @x = '\\\\'; ELSE BEGIN END; END CASE", "BEGIN SET @x = (SELECT count("+c+") FROM "+name+"); SET @x = @x || '#'; END")
	comment := pick(m, "", " COMMENT 'it''s; a'")
	switch m.IntN(5) {
	case 0, 1:
		row, when := "NEW", pick(m, "BEFORE INSERT", "BEFORE UPDATE")
		if m.odds(30) {
			row, when = "OLD", pick(m, "AFTER DELETE", "AFTER UPDATE", "BEFORE DELETE")
		}
		use := pick(m, body, fmt.Sprintf("SET @y = %s.%s", row, c), fmt.Sprintf("SET @y = %s", m.call(row+"."+c, one.kind)), fmt.Sprintf("BEGIN IF %s.%s IS NULL THEN SET @y = 1; END IF; END", row, d))
		if strings.HasPrefix(when, "BEFORE") && row == "NEW" && m.odds(30) {
			use = "SET NEW." + c + " = NEW." + c
		}
		m.add("CREATE TRIGGER %s %s ON %s FOR EACH ROW %s", m.q(m.name("tr", i)), when, name, use)
	case 2:
		m.add("CREATE PROCEDURE %s(%s)%s%s %s", m.q(m.name("p", i)), pick(m, "", "IN a int, OUT b varchar(20) CHARACTER SET latin1", "INOUT `it's` decimal(10,2)", "a enum('x', 'it''s'), b json"), pick(m, "", " SQL SECURITY INVOKER", " MODIFIES SQL DATA"), comment, body)
	case 3:
		m.add("CREATE FUNCTION %s(%s) RETURNS %s DETERMINISTIC%s %s", m.q(m.name("f", i)), pick(m, "", "a int", "a varchar(9), `b c` text"), pick(m, "int", "varchar(20) CHARACTER SET latin1", "decimal(5,2)", "datetime(3)", "text COLLATE utf8mb4_bin"), comment,
			pick(m, "RETURN 7", "BEGIN DECLARE v text DEFAULT 'it''s'; RETURN v; END", "RETURN (SELECT count("+c+") FROM "+name+")", "RETURN "+m.call("'7'", "text")))
	case 4:
		m.add("CREATE EVENT %s ON SCHEDULE %s%s%s%s DO %s", m.q(m.name("e", i)), pick(m, "EVERY 1 DAY", "EVERY '2:30' HOUR_MINUTE STARTS '2036-01-02 03:04:05'", "AT '2037-01-01 00:00:00'", "EVERY 5 MINUTE STARTS '2036-01-01 00:00:00' ENDS '2037-01-01 00:00:00'"),
			pick(m, "", " ON COMPLETION PRESERVE"), pick(m, " DISABLE", " DISABLE", " ENABLE"), comment, body)
	}
}

const programsSQL = `SELECT 'TRIGGER', TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE()
	UNION ALL SELECT ROUTINE_TYPE, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = DATABASE()
	UNION ALL SELECT 'EVENT', EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA = DATABASE() ORDER BY 1, 2`

// programsOf is what a server says of its programs: the settings and the text of each.
func programsOf(t *testing.T, url string) map[string]string {
	db := url[strings.LastIndex(url, "/")+1:]
	db, _, _ = strings.Cut(db, "?")
	out := map[string]string{}
	for row := range strings.SplitSeq(testdb.Query(t, url, programsSQL), "\n") {
		kind, name, ok := strings.Cut(row, "\t")
		if !ok {
			continue
		}
		sql := "SHOW CREATE " + kind + " `" + strings.ReplaceAll(name, "`", "``") + "`"
		if kind == "TRIGGER" { // SHOW says when it was made, too
			sql = "SELECT ACTION_TIMING, EVENT_MANIPULATION, EVENT_OBJECT_TABLE, ACTION_STATEMENT, SQL_MODE, DEFINER, CHARACTER_SET_CLIENT, COLLATION_CONNECTION, DATABASE_COLLATION, ACTION_ORDER FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() AND TRIGGER_NAME = " +
				"'" + strings.ReplaceAll(strings.ReplaceAll(name, `\`, `\\`), "'", "''") + "'"
		}
		text := testdb.Query(t, url, sql)
		out[kind+" "+name] = strings.ReplaceAll(text, db, "DB")
	}
	return out
}
