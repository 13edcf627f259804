package tidemark_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/tidemarkdb/tidemark"

// A room is a package's place in the house: its floor, and what of the house it
// may import. "." is the vocabulary.
type room struct {
	floor   int // tens as in the map of doc/ARCHITECTURE.md; a room stands above all that it imports
	imports string
}

// rooms holds every package. A new package needs a line here, and in the map of
// doc/ARCHITECTURE.md: say on which floor it stands and whom it knows.
var rooms = map[string]room{
	".":    {floor: 10},
	"flow": {floor: 10},

	"change": {floor: 20, imports: "."},

	// What engines differ in.
	"engine": {floor: 20, imports: "."},

	// How one engine's types are spelled, for the server and for dump files.
	"mysqltype": {floor: 20, imports: "."},

	// What SQL is made of, whoever wrote it.
	"sqltext": {floor: 20},

	// What Db2 and its tools print.
	"db2/text": {floor: 20},

	// Rooms of the engine for Db2.
	"db2/server": {floor: 31, imports: ". flow db2/drda internal/crash internal/roundtrip internal/plainfile"},
	"db2/schema": {floor: 32, imports: ". db2/server"},
	"db2/bulk":   {floor: 35, imports: ". db2/drda db2/server db2/schema internal/escape"},
	"db2":        {floor: 39, imports: ". internal/roundtrip db2/server db2/schema db2/bulk"},

	// What Db2 speaks.
	"db2/drda": {floor: 20, imports: "internal/crash internal/escape internal/float"},

	// Engines know words, and what both of them do alike.
	"postgres": {floor: 39, imports: "postgres/server postgres/schema postgres/physical postgres/bulk postgres/apply postgres/preflight postgres/stream . change"},
	"mysql":    {floor: 39, imports: ". internal/roundtrip mysql/server mysql/schema mysql/bulk mysql/preflight mysql/stream mysql/apply"},
	"sqlfile":  {floor: 39, imports: ". mysqltype sqltext internal/escape internal/archive internal/charset internal/crash internal/plainfile"},

	// What engines do alike about a stream on its target.
	"apply/order":   {floor: 30, imports: ". change"},
	"apply/resolve": {floor: 30, imports: ". change"},

	// What an engine's log says, for engines and for whoever has its files.
	"postgres/server":    {floor: 31, imports: ". flow internal/roundtrip internal/door postgres/wal internal/crash internal/plainfile"},
	"postgres/schema":    {floor: 32, imports: ". change sqltext postgres/server postgres/wal"},
	"postgres/define":    {floor: 32, imports: ". sqltext postgres/server"},
	"postgres/wal":       {floor: 30, imports: ". internal/archive"},
	"postgres/bulk":      {floor: 34, imports: ". internal/crash internal/roundtrip postgres/schema postgres/server postgres/wal"},
	"postgres/stream":    {floor: 35, imports: ". change flow internal/crash internal/plainfile internal/spool postgres/bulk postgres/schema postgres/server postgres/wal"},
	"postgres/apply":     {floor: 35, imports: ". apply/order apply/resolve change flow postgres/bulk postgres/server"},
	"postgres/preflight": {floor: 36, imports: ". postgres/server postgres/stream"},
	"postgres/pgtest":    {floor: 33, imports: ". change internal/testdb postgres/server postgres/schema"},
	"postgres/physical":  {floor: 33, imports: ". postgres/server postgres/wal internal/crash"},
	"mysql/binlog":       {floor: 30, imports: ". internal/archive"},

	// Where backups are kept, and in what form.
	"store":       {floor: 30, imports: ". internal/crash internal/roundtrip flow internal/plainfile"},
	"backup/repo": {floor: 31, imports: ". engine store internal/spool internal/crash flow"},
	"backup/logs": {floor: 32, imports: ". backup/repo postgres/wal internal/crash flow"},
	"backup/dump": {floor: 32, imports: ". engine flow backup/repo"},

	// Verbs see engines through interfaces of their own.
	"mapping": {floor: 30, imports: ". engine"},
	"ddl":     {floor: 30, imports: ". engine mysqltype change"},
	"load":    {floor: 30, imports: ". engine flow internal/crash"},
	"diff":    {floor: 30, imports: ". engine change flow internal/escape"},

	// A dump file as a side of a comparison.
	"diff/dumped": {floor: 31, imports: ". internal/crash"},

	"lag":        {floor: 30},
	"define":     {floor: 30, imports: "."},
	"catalog":    {floor: 30, imports: ". internal/filelock internal/plainfile"},
	"advisor":    {floor: 31, imports: ". engine flow sample db2/text"},
	"sample":     {floor: 30, imports: ". engine flow"},
	"db2/advise": {floor: 32, imports: ". advisor db2/text internal/crash"},
	"capture":    {floor: 30, imports: ". engine change flow internal/crash"},
	"apply":      {floor: 30, imports: ". change flow internal/crash internal/spool"},
	"ha":         {floor: 30, imports: "."},
	"backup":     {floor: 33, imports: ". flow store backup/repo internal/spool internal/crash"},

	// A queue's log, the stores that it can be in, and what each of them has to do.
	"queue":           {floor: 30, imports: ". change internal/crash flow"},
	"queue/peek":      {floor: 31, imports: ". change queue internal/crash"},
	"queue/jetstream": {floor: 40, imports: ". queue internal/filelock internal/plainfile internal/crash flow"},
	"queue/kafka":     {floor: 40, imports: ". queue internal/crash flow internal/plainfile"},
	"queue/queuetest": {floor: 31, imports: ". change queue"},

	// The link to a process beside a far server.
	"relay": {floor: 30, imports: ". internal/crash internal/plainfile"},

	// Databases beside which it stands.
	"relay/far": {floor: 45, imports: ". engine flow internal/crash load engines"},

	// What measures for ha, and what prints it.
	"ha/measure": {floor: 31, imports: ". flow ha internal/crash"},
	"ha/report":  {floor: 31, imports: "ha"},

	// Where engines and verbs join.
	"engines": {floor: 40, imports: ". engine db2 db2/schema load diff define capture apply ha ha/measure backup backup/dump backup/repo postgres postgres/define postgres/schema postgres/server postgres/wal mysql mysql/binlog mysql/stream sqlfile internal/archive mysql/server mysql/schema postgres/physical postgres/stream"},
	// What every engine has to do.
	"engines/enginetest": {floor: 45, imports: ". apply capture change engine engines mapping internal/crash internal/escape"},

	"job": {floor: 50, imports: ". engine job/notice mysqltype change flow mapping load diff define capture catalog advisor sample store backup backup/repo backup/dump engines diff/dumped internal/crash internal/plainfile job/sampled"},

	// What a stream says of itself.
	"job/sampled": {floor: 45, imports: ". advisor capture catalog sample"},

	// What of a copy people may notice later.
	"job/notice": {floor: 45, imports: ". engine mysqltype"},

	// How long a copy will take.
	"job/forecast": {floor: 55, imports: ". catalog flow job load"},

	// Transactions for tests of servers.
	"job/workload": {floor: 55, imports: ". engine catalog flow job job/sampled"},

	// The life of a stream, which begins with a copy.
	"job/stream": {floor: 55, imports: ". engine mysqltype change flow lag ddl define diff load capture queue apply catalog engines job job/stream/contact job/stream/described job/stream/limit job/stream/loading job/stream/making job/stream/figure job/stream/point job/stream/untold advisor sample internal/crash job/sampled"},

	// What limits it, and what is written of it.
	"job/stream/limit":  {floor: 54, imports: ". advisor capture flow load job sample job/sampled"},
	"job/stream/making": {floor: 54, imports: ". ddl engines job"},
	"job/stream/figure": {floor: 54, imports: ". job/sampled"},

	// What its catalogue keeps of each table.
	"job/stream/loading": {floor: 54, imports: ". catalog change engine"},

	// Whether its servers answer.
	"job/stream/contact": {floor: 54, imports: "."},

	// What foreign keys of a stopped table would have done.
	"job/stream/untold": {floor: 54, imports: ". change"},

	// What a capture says of its source to an apply elsewhere.
	"job/stream/described": {floor: 54, imports: ". engine change queue"},

	// The moments at which it begins and ends.
	"job/stream/point": {floor: 54, imports: ". change engines"},

	// Wiring: everything, the engines for the sake of their options.
	"cmd/tidemark/option":    {floor: 61, imports: "."},
	"cmd/tidemark/address":   {floor: 61, imports: ". relay internal/plainfile"},
	"cmd/tidemark/help":      {floor: 62, imports: ". cmd/tidemark/option"},
	"cmd/tidemark/manual":    {floor: 63, imports: ". engine cmd/tidemark/option cmd/tidemark/metrics ddl engines job/stream job/stream/figure job/sampled"},
	"cmd/tidemark/notation":  {floor: 62, imports: ". ha cmd/tidemark/option internal/plainfile"},
	"cmd/tidemark/metrics":   {floor: 62, imports: ". job job/stream/figure cmd/tidemark/screen internal/crash job/sampled"},
	"cmd/tidemark/archiving": {floor: 63, imports: ". backup/logs backup/repo catalog cmd/tidemark/metrics cmd/tidemark/screen internal/crash postgres/physical postgres/wal"},
	"cmd/tidemark/holdings":  {floor: 62, imports: ". engine backup/logs backup/repo cmd/tidemark/screen postgres/wal"},
	"cmd/tidemark/bundle":    {floor: 62, imports: ". catalog cmd/tidemark/screen job load job/sampled"},
	"cmd/tidemark/screen":    {floor: 61, imports: ". engine flow advisor engines ha ha/measure catalog sample backup backup/repo define diff load job job/stream internal/crash postgres/physical job/stream/limit store sqltext job/workload job/sampled"},
	"cmd/tidemark":           {floor: 69, imports: ". engine advisor relay/far db2/advise db2/text cmd/tidemark/archiving cmd/tidemark/bundle cmd/tidemark/holdings cmd/tidemark/option cmd/tidemark/address cmd/tidemark/help cmd/tidemark/manual cmd/tidemark/notation cmd/tidemark/metrics cmd/tidemark/screen queue/peek change flow postgres postgres/wal mapping load diff define queue queue/jetstream queue/kafka relay apply catalog ha ha/measure ha/report store backup backup/repo backup/dump backup/logs engines job job/forecast job/stream job/stream/loading job/stream/point internal/filelock internal/crash mysql/server postgres/physical job/workload internal/plainfile job/sampled"},

	"proof/ddl": {floor: 90},

	// Db2, by what stands in for it.
	"proof/db2": {floor: 90},

	"proof/peers": {floor: 90},

	// What is said is compared with what is seen from outside.
	"proof/lag": {floor: 90},

	"internal/roundtrip": {floor: 11, imports: "flow"},
	"internal/archive":   {floor: 11, imports: ". internal/plainfile"},
	"internal/plainfile": {floor: 10},
	"internal/charset":   {floor: 10},
	"internal/crash":     {floor: 10},
	"internal/door":      {floor: 11, imports: "internal/crash"},
	"internal/filelock":  {floor: 10},
	"internal/escape":    {floor: 10},
	"internal/float":     {floor: 10},
	"internal/spool":     {floor: 11, imports: "."},
	"internal/testdb":    {floor: 11, imports: ". internal/testdb/home"},

	// The folders of processes of tests, also for what runs them.
	"internal/testdb/home": {floor: 10},

	// What the built program does, by means that share no code with it.
	"proof/definitions": {floor: 90},

	"internal/demo": {floor: 80, imports: "."},

	// What make runs.
	"script/long":  {floor: 80},
	"script/suite": {floor: 81, imports: "script/long internal/testdb/home"},

	// What shows that tests find faults.
	"script/faults": {floor: 81, imports: "script/long"},

	// What users may rely on, by the built program.
	"proof/apps":       {floor: 90},
	"proof/byhand":     {floor: 90},
	"proof/counters":   {floor: 90},
	"proof/dumpdiff":   {floor: 90},
	"proof/folders":    {floor: 90},
	"proof/garbled":    {floor: 90},
	"proof/links":      {floor: 90},
	"proof/hostile":    {floor: 90},
	"proof/limits":     {floor: 90},
	"proof/loghole":    {floor: 90},
	"proof/lookahead":  {floor: 90},
	"proof/manual":     {floor: 90},
	"proof/misuse":     {floor: 90},
	"proof/needs":      {floor: 90},
	"proof/neighbours": {floor: 90},
	"proof/promise":    {floor: 90},
	"proof/schemas":    {floor: 90},
	"proof/screens":    {floor: 90},
	"proof/statements": {floor: 90},
	"proof/twoservers": {floor: 90},
	"proof/values":     {floor: 90},
	"proof/ways":       {floor: 90},
	"proof/words":      {floor: 90},

	// Rooms of the engine for MySQL and MariaDB.
	"mysql/server":    {floor: 31, imports: ". flow internal/roundtrip internal/door internal/crash internal/plainfile"},
	"mysql/functions": {floor: 31, imports: "sqltext"},
	"mysql/schema":    {floor: 32, imports: ". mysqltype sqltext internal/crash mysql/functions mysql/server"},
	"mysql/event":     {floor: 33, imports: ". change mysqltype internal/float mysql/server mysql/schema"},
	"mysql/bulk":      {floor: 35, imports: ". change flow mysqltype internal/charset internal/escape internal/crash mysql/server mysql/schema mysql/event"},
	"mysql/apply":     {floor: 36, imports: ". change apply/resolve internal/escape internal/crash mysql/server mysql/schema mysql/event mysql/bulk"},
	"mysql/stream":    {floor: 36, imports: ". change sqltext internal/crash internal/plainfile mysql/binlog mysql/server mysql/schema mysql/event mysql/history mysql/bulk mysql/preflight"},
	"mysql/preflight": {floor: 34, imports: ". change mysql/server mysql/schema"},
	"mysql/history":   {floor: 34, imports: ". change mysqltype sqltext mysql/server mysql/schema mysql/event"},

	// What their tests share.
	"mysql/mysqltest": {floor: 32, imports: ". mysqltype internal/testdb mysql/server"},
}

// beside is the first floor of what is not the product: the demo and proofs.
const beside = 80

// mayUseTestdb are the packages outside of tests that start databases, or are of tests only.
var mayUseTestdb = []string{"internal/testdb", "internal/demo", "mysql/mysqltest", "postgres/pgtest"}

// A source is a parsed file.
type source struct {
	path, pkg string // slash paths from the root; pkg "." is the root
	test      bool
	file      *ast.File
	set       *token.FileSet
}

// sources returns every file of the house. All tests share one reading of them: 1,300 files take a
// second and a half.
func sources(t *testing.T) []source {
	t.Helper()
	out, err := readSources()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("only %d files were found: does the test run in the root?", len(out))
	}
	return out
}

var readSources = sync.OnceValues(func() (out []source, err error) {
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil && name != "." {
				return filepath.SkipDir // a module of its own
			}
			if name != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		p := filepath.ToSlash(name)
		out = append(out, source{path: p, pkg: path.Dir(p), test: strings.HasSuffix(p, "_test.go"), file: file, set: set})
		return nil
	})
	return out, err
})

// ours returns the path of an import within the house.
func ours(spec string) (string, bool) {
	if spec == module {
		return ".", true
	}
	return strings.CutPrefix(spec, module+"/")
}

func imports(s source) []string {
	var out []string
	for _, i := range s.file.Imports {
		out = append(out, strings.Trim(i.Path.Value, `"`))
	}
	return out
}

// Nobody imports whom it must not know.
func TestFloors(t *testing.T) {
	for _, s := range sources(t) {
		r, ok := rooms[s.pkg]
		if !ok {
			t.Errorf("%s: package %s has no line in layout_test.go", s.path, s.pkg)
			continue
		}
		if s.test {
			continue // the compiler keeps tests from making a circle
		}
		allowed := strings.Fields(r.imports)
		for _, spec := range imports(s) {
			if p, is := ours(spec); is && !slices.Contains(allowed, p) {
				t.Errorf("%s must not import %s", s.path, p)
			}
		}
	}
}

// The table above holds no arrow that runs up, and no circle.
func TestFloorsAreConsistent(t *testing.T) {
	for name, r := range rooms {
		if r.floor <= 0 {
			t.Errorf("%s has no floor", name)
		}
		for _, i := range strings.Fields(r.imports) {
			to, ok := rooms[i]
			switch {
			case !ok:
				t.Errorf("%s may import %s, which is no package", name, i)
			case i == "internal/testdb" && !slices.Contains(mayUseTestdb, name):
				t.Errorf("%s may import internal/testdb, which is for tests", name)
			case to.floor >= r.floor:
				t.Errorf("%s on floor %d may import %s on floor %d", name, r.floor, i, to.floor)
			}
		}
	}
}

// The map of the house and the table above say the same.
func TestMapOfTheHouse(t *testing.T) {
	text, err := os.ReadFile("doc/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("\n## 3. The map of the house\n"))
	text, _, _ = bytes.Cut(text, []byte("\n## "))
	line := regexp.MustCompile(`^    (\d| )  ((?:[a-z0-9/]+ )*[a-z0-9/]+)   *\S`)
	onMap := map[string]int{}
	floor := 0
	for row := range strings.Lines(string(text)) {
		m := line.FindStringSubmatch(row)
		if m == nil {
			continue
		}
		if m[1] != " " {
			floor = int(m[1][0] - '0')
		}
		for _, name := range strings.Fields(m[2]) {
			if name == "tidemark" {
				name = "."
			}
			onMap[name] = floor
		}
	}
	for name, r := range rooms {
		if on, is := onMap[name]; r.floor < beside && !strings.HasPrefix(name, "internal/") && (!is || on != r.floor/10) {
			t.Errorf("%s is on floor %d in layout_test.go and not on %d of the map of the house", name, r.floor, r.floor/10)
		}
	}
	for name := range onMap {
		if _, ok := rooms[name]; !ok {
			t.Errorf("%s is on the map of the house and not in layout_test.go", name)
		}
	}
}

// The ground floor stands on the standard library alone.
func TestGroundFloorImportsTheStandardLibraryOnly(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.pkg != "." && s.pkg != "flow" {
			continue
		}
		for _, spec := range imports(s) {
			if first, _, _ := strings.Cut(spec, "/"); strings.Contains(first, ".") {
				t.Errorf("%s imports %s", s.path, spec)
			}
		}
	}
}

// engineRooms are those that may know which engine they are of, or for. In those of ha, each way to
// commit belongs to an engine.
var engineRooms = regexp.MustCompile("^(postgres|mysql|mariadb|db2|sqlfile|sqltext|mysqltype|engine|engines|ha|cmd/tidemark/address|proof|script|internal/(testdb|demo))(/|$)")

// engineTexts advise people on the settings of one engine, or take its name from them.
var engineTexts = []string{"advisor/servers.go", "cmd/tidemark/ha_options.go", "cmd/tidemark/ha_calculate.go", "cmd/tidemark/ha_db2.go"}

// Outside the rooms of engines nothing is decided by an engine's name, since the next engine would
// compile there, and be treated as one of those that are named. Traits decide (package engine), or
// a table that has a row for each engine.
func TestNobodyComparesEngines(t *testing.T) {
	names := []string{`"postgres"`, `"postgresql"`, `"mysql"`, `"mariadb"`, `"db2"`}
	constant := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := s.X.(*ast.Ident)
		return ok && x.Name == "engine" && slices.Contains([]string{"Postgres", "MySQL", "MariaDB", "Db2"}, s.Sel.Name)
	}
	for _, s := range sources(t) {
		if s.test || engineRooms.MatchString(s.pkg) || slices.Contains(engineTexts, s.path) {
			continue
		}
		say := func(n ast.Node, what string) { t.Errorf("%s:%d %s", s.path, s.set.Position(n.Pos()).Line, what) }
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if slices.Contains(names, n.Value) {
					say(n, "has the name of an engine, "+n.Value+": ask for a trait (engine.Of)")
				}
			case *ast.BinaryExpr:
				if (n.Op == token.EQL || n.Op == token.NEQ) && (constant(n.X) || constant(n.Y)) {
					say(n, "compares an engine: ask for a trait (engine.Of)")
				}
			case *ast.CaseClause:
				if slices.ContainsFunc(n.List, constant) {
					say(n, "distinguishes engines: ask for a trait (engine.Of), or make a table")
				}
			}
			return true
		})
	}
}

// Nothing happens on import.
func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && !s.test && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s has an init function", s.path)
			}
		}
	}
}

// TestNoTemplates keeps html/template and text/template out of our code: they call methods by name,
// so the linker keeps every exported method, which adds 10 MB to the binary.
func TestNoTemplates(t *testing.T) {
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			if p := strings.Trim(spec.Path.Value, `"`); !s.test && (p == "html/template" || p == "text/template") {
				t.Errorf("%s imports %s", s.path, p)
			}
		}
	}
	deps, err := exec.Command("go", "list", "-deps", "./cmd/tidemark").Output()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(strings.Fields(string(deps)), "html/template") {
		t.Error("a library of the program imports html/template")
	}
}

// A package is named for what it hides.
func TestPackageNames(t *testing.T) {
	for _, s := range sources(t) {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		switch name {
		case "util", "utils", "common", "helper", "helpers", "misc", "shared", "base", "lib", "types", "interfaces":
			t.Errorf("%s: a package named %s hides nothing", s.path, name)
		}
		if want := path.Base(s.pkg); name != want && name != "main" && s.pkg != "." {
			t.Errorf("%s: package %s in folder %s", s.path, name, want)
		}
	}
}

// larger holds what may exceed its limit, by the name that TestSizes gives it: how far, and why.
var larger = map[string]struct {
	limit int
	why   string
}{
	"fields of backup/repo.Manifest": {40, "a document on disk: doc/format/repository.md has its fields one by one"},
}

// A size is what something measures, and what such a thing may.
type size struct {
	name     string
	n, limit int
}

// sizes measures everything that has a limit.
func sizes(t *testing.T) []size {
	t.Helper()
	var out []size
	lines, methods := map[string]int{}, map[string]int{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		n := s.set.File(s.file.Pos()).LineCount()
		out = append(out, size{"lines of " + s.path, n, 600})
		lines[s.pkg] += n
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				name := s.pkg + "." + n.Name.Name
				if on := receiver(n); on != "" {
					methods[s.pkg+"."+on]++
					name = s.pkg + "." + on + "." + n.Name.Name
				}
				out = append(out, size{"lines of " + name, s.set.Position(n.End()).Line - s.set.Position(n.Pos()).Line + 1, 120},
					size{"parameters of " + name, n.Type.Params.NumFields(), 8})
			case *ast.TypeSpec:
				if is, ok := n.Type.(*ast.StructType); ok {
					out = append(out, size{"fields of " + s.pkg + "." + n.Name.Name, is.Fields.NumFields(), 25})
				}
			}
			return true
		})
	}
	for pkg, n := range lines {
		out = append(out, size{"lines of package " + pkg, n, 8000})
	}
	for name, n := range methods {
		out = append(out, size{"methods of " + name, n, 40})
	}
	return out
}

// receiver returns the name of the type that f is a method of.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	on := f.Recv.List[0].Type
	for {
		switch is := on.(type) {
		case *ast.StarExpr:
			on = is.X
		case *ast.IndexExpr:
			on = is.X
		case *ast.IndexListExpr:
			on = is.X
		case *ast.Ident:
			return is.Name
		}
	}
}

// Packages, files, functions and types have a size that one can live in. What is larger has a
// reason, as long as it is.
func TestSizes(t *testing.T) {
	still := map[string]bool{}
	for _, s := range sizes(t) {
		may, has := larger[s.name]
		still[s.name] = s.n > s.limit
		if limit := max(s.limit, may.limit); s.n > limit {
			t.Errorf("%s: %d, more than %d", s.name, s.n, limit)
		}
		if has && (may.limit <= s.limit || may.why == "") {
			t.Errorf("%s: an exception needs a limit above %d, and a reason", s.name, s.limit)
		}
	}
	for name := range larger {
		if !still[name] {
			t.Errorf("%s: no longer above its limit, so it needs no exception", name)
		}
	}
}

// What the map of the house names is there: paths from the root, or of the package that its
// paragraph has named last.
func TestMapNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("doc/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	built, _, found := strings.Cut(string(text), "Planned, not built")
	if !found {
		t.Error("no section says what is planned and not built")
	}
	named := regexp.MustCompile("`([a-z0-9_*/.]+/[a-z0-9_*/.]*|[a-z0-9_*]+\\.go)`")
	n := 0
	for i, line := range strings.Split(built, "\n") {
		beside := "." // the package that the line has named last
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			n++
			there, err := filepath.Glob(m[1])
			if err == nil && there == nil {
				there, err = filepath.Glob(path.Join(beside, m[1]))
			}
			if err != nil || there == nil {
				t.Errorf("doc/ARCHITECTURE.md, line %d: there is no %s", i+1, m[1])
				continue
			}
			beside = filepath.ToSlash(there[0])
			if strings.HasSuffix(beside, ".go") {
				beside = path.Dir(beside)
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d paths were found", n)
	}
}

// The tests and their files that pages name are there.
func TestPagesNameTests(t *testing.T) {
	var files, tests []string
	for _, s := range sources(t) {
		files = append(files, s.path)
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				tests = append(tests, f.Name.Name)
			}
		}
	}
	named := regexp.MustCompile("`([a-z0-9_/]+_test\\.go)`|\\b((?:Test|Fuzz)[A-Z][A-Za-z0-9]+)")
	for _, page := range []string{"doc/survival.md", "doc/faults.md", "doc/STATE.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, m := range named.FindAllStringSubmatch(line, -1) {
				there := slices.Contains(files, m[1]) || slices.Contains(files, "cmd/tidemark/"+m[1])
				if m[2] != "" { // -run of a command takes the beginning of a name
					there = slices.ContainsFunc(tests, func(name string) bool { return strings.HasPrefix(name, m[2]) })
				}
				if !there {
					t.Errorf("%s, line %d: there is no %s%s", page, i+1, m[1], m[2])
				}
			}
		}
	}
}

// Every package says what it is.
func TestPackageDocs(t *testing.T) {
	has := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			has[s.pkg] = has[s.pkg] || s.file.Doc != nil
		}
	}
	for pkg, ok := range has {
		if !ok {
			t.Errorf("package %s has no doc comment", pkg)
		}
	}
}

// mayGo are the only places whose goroutines may be bare: those that catch panics, and programs for
// tests.
var mayGo = []string{"internal/crash", "flow", "internal/testdb", "internal/demo", "queue/queuetest", "mysql/mysqltest", "script/suite"}

// A panic in a goroutine that nobody watches ends the process amid what the others do: each runs in
// a flow.Group, or by internal/crash.
func TestNoBareGoroutines(t *testing.T) {
	instead := map[string]string{
		"sync.WaitGroup": "crash.Group", "errgroup.Group": "crash.Group", "errgroup.WithContext": "crash.Group",
		"context.AfterFunc": "crash.OnDone", "time.AfterFunc": "crash.After",
	}
	for _, s := range sources(t) {
		if s.test || slices.Contains(mayGo, s.pkg) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a bare go statement; crash.Go is for that", s.set.Position(n.Pos()))
			case *ast.SelectorExpr:
				if from, ok := n.X.(*ast.Ident); ok && instead[from.Name+"."+n.Sel.Name] != "" {
					t.Errorf("%s: %s.%s runs goroutines that nobody watches; %s is for that", s.set.Position(n.Pos()), from.Name, n.Sel.Name, instead[from.Name+"."+n.Sel.Name])
				}
			}
			return true
		})
	}
}
