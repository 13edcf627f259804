package mapping

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysqltype"
)

// twin is the simple way to match: the pattern as a regular expression.
func twin(src string, w wildcards) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^(?s:`)
	rs := []rune(src)
	for i := 0; i < len(rs); i++ {
		switch {
		case rs[i] == w.run:
			b.WriteString(`.*`)
		case rs[i] == w.one:
			b.WriteString(`.`)
		case rs[i] == '[' && slices.Index(rs[i:], ']') > 1:
			end := i + slices.Index(rs[i:], ']')
			b.WriteByte('[')
			for j := i + 1; j < end; j++ {
				if j > i+1 && j+1 < end && rs[j] == '-' {
					b.WriteString("-" + escape(rs[j+1]))
					j++
					if j+1 < end && rs[j+1] == '-' { // the end of a range does not begin another
						b.WriteString(escape('-'))
						j++
					}
					continue
				}
				b.WriteString(escape(rs[j]))
			}
			b.WriteByte(']')
			i = end
		default:
			b.WriteString(escape(rs[i]))
		}
	}
	b.WriteString(`)$`)
	return regexp.MustCompile(b.String())
}

func escape(r rune) string { return fmt.Sprintf(`\x{%x}`, r) }

func TestPatternAgainstRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SampledFrom([]wildcards{dmsWildcards, yamlWildcards}).Draw(t, "wildcards")
		src := rapid.StringOfN(rapid.SampledFrom([]rune("abcä[]-^"+string(w.run)+string(w.run)+string(w.one))), 0, 9, -1).Draw(t, "pattern")
		name := rapid.StringOfN(rapid.SampledFrom([]rune("abcä[]-^"+string(w.run)+string(w.one))), 0, 9, -1).Draw(t, "name")
		p, err := w.parse(src)
		if err != nil {
			if !strings.Contains(err.Error(), "reversed") {
				t.Fatal(err)
			}
			return
		}
		if got, want := p.match(name), twin(src, w).MatchString(name); got != want {
			t.Fatalf("%q matches %q: %v, want %v", src, name, got, want)
		}
		if lower := p.lower(); p.match(name) && !lower.match(strings.ToLower(name)) {
			t.Fatalf("%q matches %q, but not in lower case", src, name)
		}
	})
}

func TestPatternTakesNoExponentialTime(t *testing.T) {
	p, err := dmsWildcards.parse(strings.Repeat("%a", 200))
	if err != nil {
		t.Fatal(err)
	}
	if p.match(strings.Repeat("a", 20000) + "b") {
		t.Error("it matches")
	}
}

// drawDatabase draws a small database whose names often collide.
func drawDatabase(t *rapid.T) *tidemark.Database {
	db := &tidemark.Database{Engine: rapid.SampledFrom([]string{"postgres", "mysql"}).Draw(t, "engine")}
	name := rapid.SampledFrom([]string{"a", "A", "b", "ab", "a_b", "tmp_a", "c"})
	seen := map[tidemark.TableID]bool{}
	for range rapid.IntRange(0, 6).Draw(t, "tables") {
		tab := &tidemark.Table{TableID: tidemark.TableID{Schema: name.Draw(t, "schema"), Name: name.Draw(t, "table")},
			Form: rapid.SampledFrom([]tidemark.TableForm{tidemark.Ordinary, tidemark.Ordinary, tidemark.Ordinary, tidemark.View, tidemark.Foreign, tidemark.Partitioned}).Draw(t, "form")}
		if seen[tab.TableID] {
			continue
		}
		seen[tab.TableID] = true
		for _, c := range rapid.SliceOfNDistinct(name, 1, 4, rapid.ID).Draw(t, "columns") {
			col := tidemark.Column{Name: c, Type: dmsTypes[rapid.SampledFrom(dmsTypeWords()).Draw(t, "type")]}
			if rapid.IntRange(0, 5).Draw(t, "generated") == 0 {
				col.Generated = name.Draw(t, "of") + " + 1"
			}
			tab.Columns = append(tab.Columns, col)
		}
		tab.Key = &tidemark.Index{Name: "k", Parts: []tidemark.IndexPart{{Column: tab.Columns[0].Name}}}
		tab.Indexes = []tidemark.Index{{Name: "i", Parts: []tidemark.IndexPart{{Expr: "lower(" + tab.Columns[0].Name + ")"}}}}
		for id := range seen {
			tab.ForeignKeys = append(tab.ForeignKeys, tidemark.ForeignKey{Name: "f", Columns: []string{tab.Columns[0].Name}, Ref: id, RefColumns: []string{"a"}})
			break
		}
		db.Tables = append(db.Tables, tab)
	}
	return db
}

// drawRules draws a task file or a DMS text and reads it.
func drawRules(t *rapid.T) *Rules {
	pat := rapid.SampledFrom([]string{"%", "a", "A", "a%", "%b", "_", "[ab]", "a[_]b", "tmp%", "zz"})
	var rules []string
	rule := func(kind, more string) {
		i := len(rules) + 1
		rules = append(rules, fmt.Sprintf(`{"rule-type":%q,"rule-id":%d,"rule-name":"r%d",%s}`, kind, i, i, more))
	}
	for range rapid.IntRange(1, 3).Draw(t, "selections") {
		rule("selection", fmt.Sprintf(`"rule-action":%q,"object-locator":{"schema-name":%q,"table-name":%q,"table-type":%q}`,
			rapid.SampledFrom([]string{"include", "include", "exclude"}).Draw(t, "action"), pat.Draw(t, "schema"), pat.Draw(t, "table"),
			rapid.SampledFrom([]string{"table", "all", "view"}).Draw(t, "form")))
	}
	for range rapid.IntRange(0, 5).Draw(t, "changes") {
		target := rapid.SampledFrom([]string{"schema", "table", "column"}).Draw(t, "target")
		action := rapid.SampledFrom([]string{"rename", "add-prefix", "remove-prefix", "convert-lowercase", "remove-column", "include-column", "change-data-type"}).Draw(t, "change")
		if strings.HasSuffix(action, "column") || action == "change-data-type" {
			target = "column"
		}
		rule("transformation", fmt.Sprintf(`"rule-target":%q,"rule-action":%q,"value":"a","data-type":{"type":"int4"},"object-locator":{"schema-name":%q,"table-name":%q,"column-name":%q}`,
			target, action, pat.Draw(t, "schema"), pat.Draw(t, "table"), pat.Draw(t, "column")))
	}
	r, _, err := ParseDMS([]byte(`{"rules":[` + strings.Join(rules, ",") + `]}`))
	if err != nil {
		return nil // no include among them
	}
	return r
}

func TestApplyKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		db, r := drawDatabase(t), drawRules(t)
		if r == nil {
			return
		}
		before := map[tidemark.TableID]string{}
		for _, tab := range db.Tables {
			before[tab.TableID] = fmt.Sprintf("%+v %+v", *tab, *tab.Key)
		}
		d := Defaults{FoldCase: rapid.SampledFrom([]string{"", "lower"}).Draw(t, "fold")}
		moves, _, err := r.Apply(db, d)
		for _, tab := range db.Tables {
			if fmt.Sprintf("%+v %+v", *tab, *tab.Key) != before[tab.TableID] {
				t.Fatalf("%s of the source was changed", tab.ID())
			}
		}
		if err != nil {
			if k := tidemark.KindOf(err); k != tidemark.Invalid && k != tidemark.Collision && k != tidemark.Empty {
				t.Fatalf("%v: %v", k, err)
			}
			return
		}
		moving := map[tidemark.TableID]bool{}
		to := map[tidemark.TableID]bool{}
		for i := range moves {
			m := &moves[i]
			if !r.Wants(m.From.ID()) {
				t.Errorf("%s moves, but is not wanted", m.From.ID())
			}
			if to[m.To.ID()] {
				t.Errorf("two tables become %s", m.To.ID())
			}
			moving[m.From.ID()], to[m.To.ID()] = true, true
			checkMove(t, m)
		}
		for _, m := range moves {
			for _, fk := range m.To.ForeignKeys {
				if !to[fk.Ref] {
					t.Errorf("a foreign key of %s refers to %s, which is not there", m.To.ID(), fk.Ref)
				}
			}
		}
		for _, tab := range db.Tables {
			if _, ok := r.selects(tab.TableID, tab.Form); ok != dumbSelects(r, tab) {
				t.Errorf("%s: selected %v", tab.ID(), ok)
			}
			if !moving[tab.TableID] && r.Wants(tab.TableID) && (tab.Form == tidemark.Ordinary || tab.Form == tidemark.Partitioned) {
				if _, ok := r.selects(tab.TableID, tab.Form); ok {
					t.Errorf("%s is selected and does not move", tab.ID())
				}
			}
		}
	})
}

// dumbSelects is Rules.selects without its index.
func dumbSelects(r *Rules, tab *tidemark.Table) bool {
	in := false
	for i := range r.selections {
		if s := &r.selections[i]; s.matches(tab) {
			if s.exclude {
				return false
			}
			in = true
		}
	}
	return in
}

// A file with a rule for each of thousands of tables, all on one line, does not take quadratic
// time.
func TestManyRules(t *testing.T) {
	const n = 4000
	db := &tidemark.Database{Engine: "postgres"}
	var rules []string
	for i := range n {
		name := fmt.Sprintf("t%d", i)
		db.Tables = append(db.Tables, &tidemark.Table{TableID: tidemark.TableID{Schema: "s", Name: name}, Columns: []tidemark.Column{{Name: "id"}}})
		rules = append(rules, fmt.Sprintf(`{"rule-type":"selection","rule-id":%d,"rule-name":"s%d","rule-action":"explicit","load-order":%d,"object-locator":{"schema-name":"s","table-name":%q}}`, 2*i, i, i+1, name),
			fmt.Sprintf(`{"rule-type":"transformation","rule-id":%d,"rule-name":"t%d","rule-action":"rename","rule-target":"table","value":"x%d","object-locator":{"schema-name":"s","table-name":%q}}`, 2*i+1, i, i, name))
	}
	r, _, err := ParseDMS([]byte(`{"rules":[` + strings.Join(rules, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	moves, findings, err := r.Apply(db, Defaults{})
	if err != nil || len(moves) != n || len(findings) != 0 {
		t.Fatalf("%d moves, %d findings, %v", len(moves), len(findings), err)
	}
	for i, m := range moves {
		if want := n - 1 - i; m.Order != want+1 || m.From.Name != fmt.Sprintf("t%d", want) || m.To.Name != fmt.Sprintf("x%d", want) {
			t.Fatalf("move %d is %s to %s, order %d", i, m.From.ID(), m.To.ID(), m.Order)
		}
	}
}

// checkMove checks that a move's two sides fit.
func checkMove(t *rapid.T, m *tidemark.Move) {
	stored := m.To.Stored()
	if len(stored) != len(m.Source) {
		t.Fatalf("%s: %d columns are written and %d read", m.From.ID(), len(stored), len(m.Source))
	}
	if got := len(m.Columns()); got != len(m.Source) {
		t.Fatalf("%s: %v are not all columns of the source", m.From.ID(), m.Source)
	}
	names := map[string]bool{}
	for _, c := range m.To.Columns {
		if names[c.Name] {
			t.Fatalf("%s has two columns %q", m.To.ID(), c.Name)
		}
		names[c.Name] = true
	}
	for _, x := range append(slices.Clone(m.To.Indexes), keyOf(m.To)...) {
		for _, p := range x.Parts {
			if p.Column != "" && !names[p.Column] {
				t.Fatalf("index %s of %s is on %q, which is not there", x.Name, m.To.ID(), p.Column)
			}
		}
	}
	if m.Direct && (m.To.Name != m.From.Name || len(m.To.Columns) != len(m.From.Columns)) {
		t.Fatalf("%s is called direct", m.From.ID())
	}
	for _, c := range m.To.Columns {
		if m.Direct && m.From.Column(c.Name) == nil {
			t.Fatalf("%s is called direct, but %q is new", m.From.ID(), c.Name)
		}
	}
}

func keyOf(t *tidemark.Table) []tidemark.Index {
	if t.Key == nil {
		return nil
	}
	return []tidemark.Index{*t.Key}
}

func TestRewrite(t *testing.T) {
	table := &tidemark.Table{}
	for _, c := range []string{"qty", "Order", "date", "gone", "lower"} {
		table.Columns = append(table.Columns, tidemark.Column{Name: c})
	}
	columns := map[string]string{"qty": `q"u`, "Order": "order", "date": "day", "lower": "low"}
	for _, c := range []struct {
		mysql         bool
		sql, out, bad string
	}{
		{false, `(qty > 0)`, `("q""u" > 0)`, ""},
		{false, `QTY + "qty" + "QTY"`, `"q""u" + "q""u" + "QTY"`, ""},
		{false, `"Order" = order AND 'qty''qty' <> 'gone'`, `"order" = order AND 'qty''qty' <> 'gone'`, ""},
		{false, `(x)::date < date AND lower(qty) = lower`, `(x)::date < "day" AND lower("q""u") = "low"`, ""},
		{false, `E'it\'s gone' || qty`, `E'it\'s gone' || "q""u"`, ""},
		{false, `1 + gone`, ``, "gone"},
		{false, `x 'unclosed qty`, `x 'unclosed qty`, ""},
		{true, "`qty` * Qty", "`q\"u` * `q\"u`", ""},
		{true, `qty = "gone"`, "`q\"u` = \"gone\"", ""},
		{true, `qty = _utf8mb4\'gone\' or ORDER`, "`q\"u` = _utf8mb4\\'gone\\' or `order`", ""},
		{true, `cast(qty as date) + 1e5`, "cast(`q\"u` as date) + 1e5", ""},
	} {
		out, gone := rewrite(c.sql, columns, table, c.mysql)
		if gone != c.bad || gone == "" && out != c.out {
			t.Errorf("%s\n got %s (%s)\nwant %s (%s)", c.sql, out, gone, c.out, c.bad)
		}
	}
}

func TestParseType(t *testing.T) {
	for text, want := range map[string]tidemark.Type{
		"numeric(18,4)":     {Kind: tidemark.Decimal, Precision: 18, Scale: 4},
		"numeric":           {Kind: tidemark.Decimal},
		"decimal( 5 )":      {Kind: tidemark.Decimal, Precision: 5},
		"String(20)":        {Kind: tidemark.Varchar, Length: 20},
		"bigint unsigned":   {Kind: tidemark.Int, Bits: 64, Unsigned: true},
		"datetime(3)":       {Kind: tidemark.DateTime, Precision: 3},
		"timestamp":         {Kind: tidemark.Timestamp, Precision: -1},
		"time(0)":           {Kind: tidemark.Time},
		"char":              {Kind: tidemark.Char, Length: 1},
		"bit(64)":           {Kind: tidemark.Bit, Length: 64},
		"decimal unsigned":  {Kind: tidemark.Decimal, Unsigned: true},
		"jsonb":             {Kind: tidemark.JSON, Native: "jsonb"},
		"varbinary( 3 )   ": {Kind: tidemark.Varbinary, Length: 3},
	} {
		got, err := parseType(text)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "numeric(1,2,3)", "text(3)", "numeric(x)", "numeric(-1)", "date unsigned", "numeric(9999)", "varchar(3", "flot"} {
		if got, err := parseType(text); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}

func TestTypesAsDMSNamesThem(t *testing.T) {
	for _, c := range []struct {
		engine, native, word string
	}{
		{"mysql", "int(10) unsigned", "uint4"}, {"mysql", "mediumint", "int4"}, {"mysql", "bigint", "int8"}, {"mysql", "tinyint unsigned", "uint1"},
		{"mysql", "text", "wstring"}, {"mysql", "longtext", "nclob"}, {"mysql", "blob", "bytes"}, {"mysql", "longblob", "blob"}, {"mysql", "bit(1)", "boolean"},
		{"mysql", "bit(64)", "bytes"}, {"mysql", "time", "string"}, {"mysql", "year", "int2"}, {"mysql", "json", "clob"}, {"mysql", "float", "real8"},
		{"mysql", "enum('a')", "wstring"}, {"mysql", "timestamp", "datetime"}, {"mysql", "point", "blob"}, {"mariadb", "decimal(60,2)", "numeric"},
		{"postgres", "text", "nclob"}, {"postgres", "real", "real8"}, {"postgres", "time", "time"}, {"postgres", "decimal(39,0)", "string"},
	} {
		typ := mysqltype.Parse(c.native)
		if c.engine == "postgres" && typ.Kind == tidemark.Text {
			typ.Length = 0
		}
		if !isDMSType(c.word, &typ, c.engine) {
			t.Errorf("%s %s is %v to DMS, not %s", c.engine, c.native, dmsTypeOf(&typ, c.engine), c.word)
		}
		if isDMSType("date", &typ, c.engine) {
			t.Errorf("%s %s is a date", c.engine, c.native)
		}
	}
}

// TestTypesAfterAt: @ in a task file understands every word of types:, and chooses the columns
// whose type on the source is that.
func TestTypesAfterAt(t *testing.T) {
	for word := range dmsTypes {
		if _, err := parseOfType(word); err != nil {
			t.Error(err)
		}
	}
	for word, typ := range moreTypes {
		of, err := parseOfType(word)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, engine := range []string{"postgres", "mysql", "mariadb"} {
			if !of.has(&typ, engine) {
				t.Errorf("@%s leaves out %+v", word, typ)
			}
			if of.has(&tidemark.Type{Kind: tidemark.Date, Native: "date"}, engine) || of.has(&tidemark.Type{Native: "point"}, engine) {
				t.Errorf("@%s has dates or points", word)
			}
		}
	}
	for _, c := range []struct {
		word, natives, others string // of MySQL and MariaDB
	}{
		{"bool", "tinyint(1)", "tinyint(4), bit(1), int"}, {"int", "int, int(11)", "int unsigned, mediumint, bigint"}, {"bigint unsigned", "bigint unsigned", "bigint, int unsigned"},
		{"Integer", "int", "smallint"}, {"varchar", "varchar(5), varchar(20)", "char(5), text, enum('a')"}, {"varchar(20)", "varchar(20)", "varchar(5), char(20)"},
		{"text", "text, longtext, tinytext", "varchar(20), json, blob"}, {"bytea", "blob, longblob", "varbinary(5), text"}, {"decimal(9,2)", "decimal(9,2), decimal(9,2) unsigned", "decimal(9,3), decimal(10,2)"},
		{"decimal unsigned", "decimal(9,2) unsigned", "decimal(9,2)"}, {"real", "float", "double"}, {"double", "double", "float"}, {"timestamp", "timestamp, timestamp(3)", "datetime, date"},
		{"timestamp(3)", "timestamp(3)", "timestamp, datetime(3)"}, {"year", "year", "smallint"}, {"json", "json", "longtext"}, {"jsonb", "", "json, text"}, {"uuid", "uuid", "char(36)"},
		{"enum", "enum('a','b')", "set('a'), varchar(5)"}, {"set", "set('a')", "enum('a')"}, {"geometry", "point, geometry", "blob"}, {"bit", "bit(1), bit(9)", "tinyint(1)"},
		{"time", "time, time(3)", "datetime, varchar(9)"}, {"time(3)", "time(3)", "time"}, {"datetime", "datetime, timestamp", "date"}, {"clob", "longtext, json", "text"}, {"int8", "bigint", "bigint unsigned"},
		{"string(20)", "varchar(20)", "varchar(5)"}, {"interval", "", "time"},
	} {
		of, err := parseOfType(c.word)
		if err != nil {
			t.Error(err)
			continue
		}
		for i, list := range []string{c.natives, c.others} {
			for _, native := range regexp.MustCompile(`[a-z]+(\([^)]*\))?( unsigned)?`).FindAllString(list, -1) {
				typ := mysqltype.Parse(native)
				if got := of.has(&typ, "mysql"); got != (i == 0) {
					t.Errorf("@%s has %s: %v", c.word, native, got)
				}
			}
		}
	}
	for word, native := range map[string]string{"json": "json", "jsonb": "jsonb"} {
		of, err := parseOfType(word)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []string{"json", "jsonb"} {
			if of.has(&tidemark.Type{Kind: tidemark.JSON, Native: n}, "postgres") != (n == native) {
				t.Errorf("@%s and %s", word, n)
			}
		}
	}
	for _, no := range []string{"", "uid", "enum(3)", "list", "varchar(x)", "date unsigned"} {
		if of, err := parseOfType(no); err == nil {
			t.Errorf("@%s is read as %+v", no, of)
		}
	}
	// DMS does not know a TIME of MySQL as time.
	if typ := mysqltype.Parse("time"); (&ofType{word: "time"}).has(&typ, "mysql") || !(&ofType{word: "string"}).has(&typ, "mysql") {
		t.Error("data-type in a locator of DMS")
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{"5": 5, "32KB": 32 << 10, "6 MB": 6 << 20, "1g": 1 << 30, "7B": 7, "3KiB": 3 << 10} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "x", "KB", "5TB", "1.5MB", "-3", "99999999999999999999", "9999999999999GB", "5 5", "5IMB"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

// Several lanes of planning use Rules at once.
func TestRulesAreNotChangedByUse(t *testing.T) {
	r, _, err := ParseDMS([]byte(`{"rules":[{"rule-type":"selection","rule-id":1,"rule-name":"1","rule-action":"include","object-locator":{"schema-name":"s","table-name":"a"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("%+v", r)
	narrow, err := r.Narrow([]string{"x"}, []string{"y"})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", r) != before || narrow.Wants(tidemark.TableID{Schema: "s", Name: "a"}) || !r.Wants(tidemark.TableID{Schema: "s", Name: "a"}) {
		t.Error("Narrow changed the rules that it was given")
	}
	if !All().Everything() || r.Everything() || narrow.Everything() {
		t.Error("Everything is wrong")
	}
	moves, _, err := All().Apply(&tidemark.Database{}, Defaults{})
	if len(moves) != 0 || err != nil {
		t.Errorf("an empty database: %v, %v", moves, err)
	}
}

// No key is both honoured and without effect, or known twice.
func TestSettingsKeysAreKnownOnce(t *testing.T) {
	for group, keys := range inertKeys {
		seen := map[string]bool{}
		for _, k := range keys {
			if seen[k.name] {
				t.Errorf("%s.%s stands twice in the table", group, k.name)
			}
			seen[k.name] = true
			if k.does == "" || k.hint != "" && !strings.HasSuffix(k.hint, ".") {
				t.Errorf("%s.%s: says %q, hints %q", group, k.name, k.does, k.hint)
			}
		}
	}
}

func seeds(f *testing.F, section string) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		f.Fatal("no scripts", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range strings.Split(string(text), "\n--- "+section+"\n")[1:] {
			part, _, _ = strings.Cut(part, "\n--- ")
			f.Add([]byte(part))
		}
	}
}

// checkError checks that an error has one line of text, and a Kind.
func checkError(t *testing.T, text []byte, err error) {
	if err == nil {
		return
	}
	if tidemark.KindOf(err) == tidemark.Bug || strings.Contains(err.Error(), "\n") || len(err.Error()) < 15 {
		t.Errorf("%q gives the error %q of kind %v", text, err, tidemark.KindOf(err))
	}
}

var fuzzed = &tidemark.Database{Engine: "postgres", Tables: []*tidemark.Table{
	{TableID: tidemark.TableID{Schema: "shop", Name: "orders"}, Columns: []tidemark.Column{{Name: "id", Type: tidemark.Type{Kind: tidemark.Int, Bits: 64}}, {Name: "region", Type: tidemark.Type{Kind: tidemark.Text}}}},
	{TableID: tidemark.TableID{Schema: "public", Name: "client"}, Columns: []tidemark.Column{{Name: "id", Type: tidemark.Type{Kind: tidemark.Int, Bits: 64}}}},
}}

func FuzzParseDMS(f *testing.F) {
	seeds(f, "rules")
	f.Fuzz(func(t *testing.T, text []byte) {
		r, _, err := ParseDMS(text)
		checkError(t, text, err)
		if err == nil {
			_, _, err = r.Apply(fuzzed, Defaults{})
			checkError(t, text, err)
		}
	})
}

func FuzzParseYAML(f *testing.F) {
	seeds(f, "task")
	f.Fuzz(func(t *testing.T, text []byte) {
		task, _, err := ParseYAML(text, func(string) (string, bool) { return "x", true })
		checkError(t, text, err)
		if err == nil {
			_, _, err = task.Rules.Apply(fuzzed, Defaults{})
			checkError(t, text, err)
		}
	})
}

func FuzzParseSettings(f *testing.F) {
	seeds(f, "settings")
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _, err := ParseSettings(text)
		checkError(t, text, err)
	})
}
