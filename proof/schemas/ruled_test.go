package schemas

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// wider are types that rules may give, by the source's: they take each value.
var wider = map[string][]string{
	"smallint": {"bigint", "numeric(20)", "text", "varchar(40)"}, "mediumint": {"bigint", "text"}, "int": {"bigint", "numeric(20)", "text", "varchar(40)"}, "integer": {"bigint", "numeric(20)", "text", "varchar(40)"},
	"bigint": {"numeric(30)", "text"}, "varchar": {"text", "varchar(400)"}, "character varying": {"text", "varchar(400)"}, "char": {"varchar(300)"}, "date": {"text"}, "uuid": {"text", "varchar(40)"},
}

// named matches names that a rule's patterns take as they are.
var named = regexp.MustCompile(`^[a-z]\w*$`)

// ruled copies once more, with rules that give some columns other types.
func ruled(t *testing.T, m *maker, to, copies, src string, fail func(string, testdb.Outcome)) {
	schema := "DATABASE()"
	if m.engine == "postgres" {
		schema = "'public'"
	}
	tables := map[string]map[string]map[string]string{}
	for row := range strings.SplitSeq(testdb.Query(t, src, "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = "+schema+" ORDER BY 1, 2"), "\n") {
		v := strings.Split(row, "\t")
		if len(v) != 3 || wider[v[2]] == nil || !named.MatchString(v[0]) || !named.MatchString(v[1]) || m.IntN(3) > 0 {
			continue
		}
		if tables[v[0]] == nil {
			tables[v[0]] = map[string]map[string]string{"types": {}}
		}
		typ := pick(m, wider[v[2]]...)
		if m.dumps && typ == "text" && strings.HasPrefix(v[1], "ref") {
			typ = wider[v[2]][len(wider[v[2]])-1] // a foreign key's column: see doc/STATE.md
		}
		tables[v[0]]["types"][v[1]] = typ
	}
	if len(tables) == 0 {
		return
	}
	text, _ := json.Marshal(map[string]any{"tables": tables})
	rules, dst := testdb.Written(t, "rules.yaml", string(text)), testdb.ServerOf(t, to).NewDatabase(t, "ruled")
	checked := testdb.Run(t, "check", copies, dst, "--config", rules)
	if checked.Code != 0 {
		if checked.Code != 1 {
			fail("check with "+string(text), checked)
		}
		return
	}
	if o := testdb.Run(t, "copy", copies, dst, "-v", "--config", rules); o.Code != 0 {
		fail("check is 0, and copy with "+string(text), o)
	} else if o := testdb.Run(t, "diff", src, dst, "--definitions=only", "--config", rules); o.Code != 0 {
		fail("diff --definitions with "+string(text), o)
	}
}
