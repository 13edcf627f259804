package schemas

import (
	"fmt"
	"strings"
)

// before makes what tables of PostgreSQL may use: types, domains, functions, sequences, collations
// and a schema of their own.
func (m *maker) before() {
	if m.odds(30) {
		m.space = m.name("space", 0)
		m.add("CREATE SCHEMA %s", m.q(m.space))
	}
	for i := range m.IntN(4) {
		d := m.in(m.name("dom", i))
		base := pick(m, "integer", "text", "numeric(10,2)", "timestamptz", "varchar(20)")
		m.add("CREATE DOMAIN %s AS %s%s%s", d, base, pick(m, "", " DEFAULT NULL", " NOT NULL"), pick(m, "", " CHECK (VALUE IS NOT NULL)", " CONSTRAINT "+m.q(m.name("dc", 0))+" CHECK (VALUE::text <> 'it''s')"))
		m.types = append(m.types, d)
	}
	if m.odds(30) {
		c := m.in(m.name("comp", 0))
		m.add("CREATE TYPE %s AS (a integer, %s text, c %s)", c, m.q(m.name("b", 0)), pick(m, append(m.types, "date")...))
		m.types = append(m.types, c)
	}
	if m.odds(20) {
		r := m.in(m.name("rng", 0))
		m.add("CREATE TYPE %s AS RANGE (subtype = %s)", r, pick(m, "numeric", "text", "timestamptz"))
		m.types = append(m.types, r)
	}
	if m.odds(20) {
		c := m.in(m.name("coll", 0))
		m.add("CREATE COLLATION %s %s", c, pick(m, `FROM "C"`, "(provider = icu, locale = 'de-u-co-phonebk')", "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"))
		m.types = append(m.types, "text COLLATE "+c, "varchar(9) COLLATE "+c)
	}
	for i := range m.IntN(3) {
		s := m.in(m.name("seq", i))
		m.add("CREATE SEQUENCE %s%s", s, pick(m, "", " AS smallint", " INCREMENT -2 MAXVALUE 100 START 50", " MINVALUE 5 MAXVALUE 9 CYCLE CACHE 3"))
		m.seqs = append(m.seqs, s)
		if m.odds(50) {
			m.add("SELECT nextval('%s')", strings.ReplaceAll(s, "'", "''"))
		}
	}
	for i := range m.IntN(4) {
		m.function(i)
	}
	if m.odds(15) {
		m.add("CREATE AGGREGATE %s (integer) (SFUNC = int4pl, STYPE = integer, INITCOND = '0')", m.in(m.name("agg", 0)))
	}
	if m.odds(15) && len(m.calls) > 0 {
		m.add("CREATE OPERATOR %s (FUNCTION = %s, RIGHTARG = integer)", pick(m, "@#@", "~~~~"), m.calls[0])
	}
}

// in puts a name into the schema of its own, or not.
func (m *maker) in(name string) string {
	if m.space != "" && m.odds(40) {
		return m.q(m.space) + "." + m.q(name)
	}
	return m.q(name)
}

// function makes a function of one integer, which others, tables and indexes may call.
func (m *maker) function(i int) {
	f := m.in(m.name("f", i))
	inner := "$1"
	if len(m.calls) > 0 && m.odds(50) {
		inner = pick(m, m.calls...) + "($1)"
	}
	m.add("CREATE FUNCTION %s(%s integer) RETURNS integer %s", f, pick(m, "", "x", m.q(m.name("x", 0))), pick(m,
		"LANGUAGE sql IMMUTABLE AS $$ SELECT "+inner+" + 1 $$", "LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN "+inner+" + 1", "LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT "+inner+" * 2; END",
		"LANGUAGE plpgsql IMMUTABLE AS $f$ BEGIN RETURN "+inner+" - 1; END $f$", "LANGUAGE sql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog COST 7 AS 'SELECT $1'"))
	m.calls = append(m.calls, f)
}

// after makes what stands on tables: views, triggers, rules, policies, statistics, children.
func (m *maker) after() {
	for i := range m.tables {
		if t := &m.tables[i]; m.odds(60) {
			m.alterMore(t)
		}
	}
	for i := range m.IntN(4) {
		m.view(i)
	}
	for range m.IntN(3) {
		t := pick(m, m.tables...)
		m.trigger(&t)
	}
	for range m.IntN(4) {
		m.remark()
	}
}

// alterMore alters a table, or adds what stands on it.
func (m *maker) alterMore(t *made) {
	name := m.q(t.name)
	alter := "ALTER TABLE " + name + " "
	for range 1 + m.IntN(2) {
		c, d := m.q(pick(m, t.columns...).name), m.q(pick(m, t.columns...).name)
		text := pick(m,
			alter+"ADD CONSTRAINT "+m.q(m.name("nv", 0))+" CHECK ("+c+" IS NOT NULL) NOT VALID",
			alter+"ADD CHECK ("+c+" IS NULL OR true) NO INHERIT",
			alter+"ADD EXCLUDE USING btree ("+c+" WITH =) WHERE ("+d+" IS NOT NULL)",
			alter+"ADD EXCLUDE USING gist ("+c+" WITH &&) DEFERRABLE",
			alter+"ALTER "+c+" SET STATISTICS 77", alter+"ALTER "+c+" SET STORAGE EXTERNAL", alter+"ALTER "+c+" SET COMPRESSION lz4", alter+"ALTER "+c+" SET (n_distinct = 5)",
			alter+"REPLICA IDENTITY FULL", alter+"SET UNLOGGED", alter+"SET (autovacuum_enabled = false, toast.autovacuum_enabled = false)", alter+"CLUSTER ON "+m.q("idx1"),
			alter+"ENABLE ROW LEVEL SECURITY", alter+"FORCE ROW LEVEL SECURITY",
			alter+"DROP COLUMN "+d+" CASCADE", alter+"RENAME COLUMN "+c+" TO "+m.q(m.name("r", 0)), alter+"RENAME TO "+m.q(m.name("moved", 0)),
			alter+"ALTER "+c+" SET DEFAULT NULL", alter+"ADD COLUMN late integer DEFAULT 7", alter+"ADD COLUMN late text NOT NULL DEFAULT 'x''y'",
			"CREATE POLICY "+m.q(m.name("pol", 0))+" ON "+name+pick(m, "", " AS RESTRICTIVE", " FOR SELECT")+" USING ("+c+" IS NOT NULL)",
			"CREATE STATISTICS "+m.in(m.name("st", 0))+pick(m, "", " (ndistinct)", " (mcv, dependencies)")+" ON "+c+", "+d+" FROM "+name,
			"CREATE RULE "+m.q(m.name("rule", 0))+" AS ON DELETE TO "+name+pick(m, "", " WHERE OLD."+c+" IS NULL")+" DO "+pick(m, "INSTEAD NOTHING", "ALSO NOTIFY x"),
			"CREATE TABLE "+m.in(m.name("kid", 0))+" ("+pick(m, "", "more integer", c+" text")+") INHERITS ("+name+")",
			"CREATE TABLE "+m.in(m.name("like", 0))+" (LIKE "+name+" INCLUDING ALL)",
			"CREATE TABLE "+m.in(m.name("part", 0))+" PARTITION OF "+name+" FOR VALUES WITH (MODULUS 2, REMAINDER "+pick(m, "0", "1")+")",
			"CREATE TABLE "+m.in(m.name("of", 0))+" (x "+name+", y "+name+"[])",
			"CREATE FUNCTION "+m.in(m.name("g", 0))+"("+name+") RETURNS SETOF "+name+" LANGUAGE sql AS 'SELECT $1.*'",
			"CREATE FUNCTION "+m.in(m.name("g", 0))+"() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT count("+c+") FROM "+name+"; END",
			"CREATE PROCEDURE "+m.in(m.name("p", 0))+"(INOUT a "+name+"."+c+"%TYPE) LANGUAGE plpgsql AS $$ BEGIN DELETE FROM "+name+"; END $$")
		if len(m.calls) > 0 && m.odds(30) {
			f := pick(m, m.calls...)
			text = pick(m, alter+"ADD CHECK ("+f+"(length("+c+"::text)) IS NOT NULL OR true)", alter+"ADD COLUMN gen integer GENERATED ALWAYS AS ("+f+"(3)) STORED", alter+"ADD COLUMN def integer DEFAULT "+f+"(5)",
				"CREATE INDEX ON "+name+" ("+f+"(3), "+c+")", "CREATE INDEX ON "+name+" ("+c+") WHERE "+f+"(2) > 1", "CREATE VIEW "+m.in(m.name("fv", 0))+" AS SELECT "+f+"(1) AS a, "+c+" FROM "+name)
		}
		if len(m.seqs) > 0 && m.odds(15) {
			s := pick(m, m.seqs...)
			text = pick(m, alter+"ADD COLUMN num bigint DEFAULT nextval('"+strings.ReplaceAll(s, "'", "''")+"')", "ALTER SEQUENCE "+s+" OWNED BY "+name+"."+c)
		}
		m.sql = append(m.sql, text)
	}
}

func (m *maker) view(i int) {
	t := pick(m, m.tables...)
	from, c, d := m.q(t.name), m.q(pick(m, t.columns...).name), m.q(pick(m, t.columns...).name)
	if len(m.views) > 0 && m.odds(40) {
		from, c, d = pick(m, m.views...), "a", "a"
	}
	name := m.in(m.name("view", i))
	query := pick(m, "SELECT "+c+" AS a FROM "+from, "SELECT x."+c+" AS a, y."+d+" AS b FROM "+from+" x LEFT JOIN "+from+" y USING ("+c+")", "SELECT DISTINCT ON ("+c+") "+c+" AS a FROM "+from+" ORDER BY "+c+", "+d+" DESC",
		"WITH q AS MATERIALIZED (SELECT "+c+" AS a FROM "+from+") SELECT a FROM q UNION ALL SELECT a FROM q", "SELECT "+c+" AS a, row_number() OVER (PARTITION BY "+d+" ORDER BY "+c+") AS n FROM "+from,
		"SELECT "+c+" AS a, count(*) FILTER (WHERE "+d+" IS NOT NULL) AS n FROM "+from+" GROUP BY "+c, "SELECT a FROM (VALUES ('it''s'), (E'a\\\\b')) v(a)", "SELECT x AS a FROM "+from+" x", "SELECT (SELECT max("+d+"::text) FROM "+from+") AS a", "TABLE "+from)
	switch {
	case m.odds(25):
		m.add("CREATE MATERIALIZED VIEW %s AS %s%s", name, query, pick(m, "", "", " WITH NO DATA"))
		m.add("CREATE %sINDEX %s ON %s (a)", pick(m, "", "UNIQUE "), m.q(m.name("mi", i)), name)
	case m.odds(15):
		m.add("CREATE RECURSIVE VIEW %s (a) AS SELECT 1 UNION ALL SELECT a + 1 FROM %s WHERE a < 3", name, name)
	default:
		m.add("CREATE %sVIEW %s%s AS %s%s", pick(m, "", "OR REPLACE "), name, pick(m, "", "", " WITH (security_barrier)", " WITH (security_invoker = true)"), query, pick(m, "", "", "", " WITH LOCAL CHECK OPTION"))
	}
	m.views = append(m.views, name)
	if m.odds(20) {
		m.add("ALTER VIEW %s ALTER COLUMN a SET DEFAULT '7'", name)
	}
}

func (m *maker) trigger(t *made) {
	name, c := m.q(t.name), m.q(pick(m, t.columns...).name)
	f := m.in(m.name("tf", m.IntN(3)))
	m.add("CREATE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN %s RETURN NEW; END $$", f, pick(m, "", "NEW."+c+" := NEW."+c+";", "RAISE NOTICE 'it''s %', NEW."+c+";"))
	trigger := m.q(m.name("tr", m.IntN(3)))
	m.sql = append(m.sql, fmt.Sprintf("CREATE %s EXECUTE FUNCTION %s(%s)", pick(m,
		"TRIGGER "+trigger+" BEFORE INSERT OR UPDATE ON "+name+" FOR EACH ROW", "TRIGGER "+trigger+" BEFORE UPDATE OF "+c+" ON "+name+" FOR EACH ROW WHEN (OLD."+c+" IS NULL)",
		"TRIGGER "+trigger+" AFTER TRUNCATE ON "+name, "CONSTRAINT TRIGGER "+trigger+" AFTER INSERT ON "+name+" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW",
		"TRIGGER "+trigger+" AFTER INSERT ON "+name+" REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT"), f, pick(m, "", "", "'it''s', 7")))
	if m.odds(40) {
		m.add("ALTER TABLE %s %s TRIGGER %s", name, pick(m, "DISABLE", "ENABLE ALWAYS", "ENABLE REPLICA"), trigger)
	}
	if len(m.views) > 0 && m.odds(30) {
		m.add("CREATE TRIGGER %s INSTEAD OF INSERT ON %s FOR EACH ROW EXECUTE FUNCTION %s()", trigger, pick(m, m.views...), f)
	}
}

// remark comments on something.
func (m *maker) remark() {
	on := []string{"SCHEMA public"}
	for _, f := range m.calls {
		on = append(on, "FUNCTION "+f+"(integer)")
	}
	for _, v := range m.views {
		on = append(on, "VIEW "+v, "MATERIALIZED VIEW "+v, "COLUMN "+v+".a")
	}
	for _, s := range m.seqs {
		on = append(on, "SEQUENCE "+s)
	}
	for _, d := range m.types {
		on = append(on, "DOMAIN "+d, "TYPE "+d)
	}
	t := pick(m, m.tables...)
	on = append(on, "INDEX idx1", "CONSTRAINT uk0 ON "+m.q(t.name), "TRIGGER tr1 ON "+m.q(t.name), "POLICY pol0 ON "+m.q(t.name), "COLUMN "+m.q(t.name)+"."+m.q(pick(m, t.columns...).name))
	m.add("COMMENT ON %s IS %s", pick(m, on...), pick(m, "'it''s'", "E'a\\nb'", "'back\\slash'", "'😀'"))
}
