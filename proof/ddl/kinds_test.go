package ddl_test

import (
	"strings"
	"testing"
)

// A kind is one way to change definitions.
type kind struct {
	name  string
	src   server
	setup string   // beside t (id int primary key, n int)
	do    []string // on the source, each a transaction of its own or more; rows among them
	// What becomes of t, by target's engine, "" is any other: "" goes along, or a part of the reason for which it stops.
	to map[string]string
	// doubt is the reason for which it stops where the stream is behind, if that is another.
	doubt string
	// table is another than t.
	table string
}

const goes = ""

// stops is for all engines.
func stops(reason string) map[string]string { return map[string]string{"": reason} }

var kinds = []kind{
	{name: "add column", src: postgres, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)"}},
	{name: "add column with a default", src: postgres, do: []string{"ALTER TABLE t ADD x int DEFAULT 7", "INSERT INTO t (id) VALUES (2)"}},
	{name: "add column with an expression", src: postgres, do: []string{"ALTER TABLE t ADD x int DEFAULT (random() * 1000)::int", "INSERT INTO t (id) VALUES (2)"}, to: stops("has no column x")},
	{name: "add column, then rename it", src: postgres, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)", "ALTER TABLE t RENAME x TO y", "INSERT INTO t VALUES (3, 3, 3)"}, to: stops("x")},
	{name: "rename column", src: postgres, do: []string{"ALTER TABLE t RENAME n TO m", "INSERT INTO t VALUES (2, 2)"}, to: stops("its column n was renamed to m")},
	{name: "exchange names", src: postgres, setup: "ALTER TABLE t ADD m int", do: []string{"BEGIN; ALTER TABLE t RENAME n TO x; ALTER TABLE t RENAME m TO n; ALTER TABLE t RENAME x TO m; COMMIT", "INSERT INTO t VALUES (2, 2, 3)"}, to: stops("was renamed to")},
	{name: "drop column", src: postgres, do: []string{"ALTER TABLE t DROP n", "INSERT INTO t VALUES (2)"}, to: stops("has no column n any more")},
	{name: "drop and add again", src: postgres, do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t DROP n", "ALTER TABLE t ADD n int", "INSERT INTO t VALUES (3, 3)"}, to: stops("n")},
	{name: "drop and add again with another type", src: postgres, do: []string{"INSERT INTO t VALUES (2, 2)", "ALTER TABLE t DROP n", "ALTER TABLE t ADD n text", "INSERT INTO t VALUES (3, '3')"}, to: stops("n")},
	{name: "drop and add in one transaction", src: postgres, do: []string{"BEGIN; INSERT INTO t VALUES (2, 2); ALTER TABLE t DROP n; ALTER TABLE t ADD n int; INSERT INTO t VALUES (3, 3); COMMIT"}, to: stops("n")},
	{name: "add, drop, add", src: postgres, do: []string{"ALTER TABLE t ADD x int", "INSERT INTO t VALUES (2, 2, 2)", "ALTER TABLE t DROP x", "ALTER TABLE t ADD x int", "INSERT INTO t VALUES (3, 3, 3)"}, to: stops("dropped and added")},
	{name: "change type", src: postgres, do: []string{"ALTER TABLE t ALTER n TYPE bigint", "INSERT INTO t VALUES (2, 5000000000)"}, to: stops("its column n is of another type than before")},
	{name: "column that came and went", src: postgres, do: []string{"ALTER TABLE t ADD x int", "ALTER TABLE t DROP x", "INSERT INTO t VALUES (2, 2)", "ALTER TABLE t ADD y int", "INSERT INTO t VALUES (3, 3, 3)"}, doubt: "dropped and added"},
}

// TestKinds changes definitions, once while the stream waits for the source, and once while it is behind.
func TestKinds(t *testing.T) {
	for _, k := range kinds {
		for _, tgt := range []server{postgres, mysql, mariadb} {
			reason, ok := k.to[tgt.name]
			if !ok {
				reason = k.to[""]
			}
			for _, behind := range []bool{false, true} {
				name := strings.ReplaceAll(k.name, " ", "-") + "/" + k.src.name + "-" + tgt.name + map[bool]string{true: "/behind", false: "/ahead"}[behind]
				reason := reason
				if behind && k.doubt != "" {
					reason = k.doubt
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					k.check(t, tgt, reason, behind)
				})
			}
		}
	}
}

func (k kind) check(t *testing.T, tgt server, reason string, behind bool) {
	table := k.table
	if table == "" {
		table = "t"
	}
	s := newStream(t, k.src, tgt, "CREATE TABLE t (id int PRIMARY KEY, n int); CREATE TABLE other (id int PRIMARY KEY)", k.setup, "INSERT INTO t (id) VALUES (1)")
	for _, sql := range k.do {
		if s.do(sql); !behind {
			s.flow()
		}
	}
	s.do("INSERT INTO other VALUES (1)")
	s.flow()
	st := s.whole(table)
	if o := s.whole("other"); o.State != "active" {
		t.Errorf("another table is %+v", o)
	}
	switch {
	case reason == goes && st.State != "active":
		t.Errorf("it is %+v", st)
	case reason != goes && (st.State != "stopped" || !strings.Contains(st.Reason, reason)):
		t.Errorf("it is %+v, not stopped for %q", st, reason)
	}
}
