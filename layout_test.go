package tidemark_test

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tidemarkdb/tidemark"

// A room is a package's place in the house: its floor, and what of the house it
// may import. "." is the vocabulary.
type room struct {
	floor   int // as in the map of doc.go; 0 is beside the house
	imports string
	tests   string // what its tests may import besides, and besides internal/testdb
}

// rooms holds every package. A new package needs a line here, and in the map of
// doc.go: say on which floor it stands and whom it knows.
var rooms = map[string]room{
	".":    {floor: 1},
	"flow": {floor: 1},

	// Engines know the vocabulary and nothing else.
	"postgres": {floor: 2, imports: ". internal/spool internal/door postgres/wal internal/crash"},
	"mysql":    {floor: 2, imports: ". mysql/binlog internal/door internal/crash", tests: "postgres apply flow"},
	"sqlfile":  {floor: 2, imports: ". internal/archive internal/charset internal/crash"},

	// What an engine's log says, for engines and for whoever has its files.
	"postgres/wal": {imports: ". internal/archive"},
	"mysql/binlog": {imports: ". internal/archive"},

	// Where backups are kept, and in what form.
	"store":       {imports: ". internal/crash"},
	"backup/repo": {imports: ". store internal/spool internal/crash"},
	"backup/logs": {imports: ". backup/repo postgres/wal internal/crash", tests: "store postgres"},
	"backup/dump": {imports: ". flow backup/repo", tests: "store"},

	// Verbs see engines through interfaces of their own.
	"mapping": {floor: 2, imports: "."},
	"ddl":     {floor: 2, imports: "."},
	"load":    {floor: 2, imports: ". flow internal/crash"},
	"diff":    {floor: 2, imports: ". flow"},
	"lag":     {floor: 2},
	"define":  {floor: 2, imports: "."},
	"catalog": {floor: 2, imports: ". flow internal/filelock"},
	"advisor": {floor: 2, imports: ". flow"},
	"capture": {floor: 2, imports: ". flow internal/crash"},
	"apply":   {floor: 2, imports: ". flow internal/spool", tests: "postgres"},
	"ha":      {floor: 2, imports: ". flow internal/crash"},
	"backup":  {floor: 2, imports: ". flow store backup/repo internal/spool internal/crash", tests: "postgres"},

	// A queue's log, the stores that it can be in, and what each of them has to do.
	"queue":           {floor: 2, imports: ". internal/crash", tests: "queue/queuetest"},
	"queue/jetstream": {floor: 3, imports: ". queue internal/filelock internal/crash", tests: "queue/queuetest"},
	"queue/kafka":     {floor: 3, imports: ". queue internal/crash", tests: "queue/queuetest"},
	"queue/queuetest": {imports: ". queue"},

	// Where engines and verbs meet.
	"engines": {floor: 3, imports: ". flow load diff define capture apply ha backup backup/dump backup/repo postgres postgres/wal mysql mysql/binlog sqlfile internal/archive"},
	"job":     {floor: 4, imports: ". flow lag mapping ddl load diff define capture queue apply catalog advisor store backup backup/repo backup/dump engines internal/crash"},

	// Wiring: everything, the engines for the sake of their options.
	"cmd/tidemark": {floor: 5, imports: ". flow postgres postgres/wal mysql sqlfile mapping ddl load diff define capture queue queue/jetstream queue/kafka apply catalog advisor ha store backup backup/repo backup/dump backup/logs engines job internal/filelock internal/crash"},

	"proof/ddl": {},

	"proof/peers": {},

	// What is said is compared with what is seen from outside.
	"proof/lag": {},

	"internal/archive":  {imports: "."},
	"internal/charset":  {},
	"internal/crash":    {},
	"internal/door":     {imports: "internal/crash"},
	"internal/filelock": {},
	"internal/spool":    {imports: "."},
	"internal/testdb":   {imports: "."},

	// What the built program does, by means that share no code with it.
	"proof/definitions": {},

	// Other tools are compared with the program as users run it.
	"bench":         {imports: ". ha"},                        // ha for what it predicts
	"bench/stream":  {imports: ". flow postgres mysql apply"}, // for parts of it that the program does not offer alone
	"internal/demo": {imports: "."},

	// What users may rely on, by the built program.
	"proof/byhand":     {},
	"proof/counters":   {},
	"proof/folders":    {},
	"proof/garbled":    {},
	"proof/loghole":    {},
	"proof/lookahead":  {},
	"proof/misuse":     {},
	"proof/needs":      {},
	"proof/neighbours": {},
	"proof/statements": {},
	"proof/twoservers": {},
	"proof/values":     {},
	"proof/ways":       {},
}

// mayUseTestdb are the packages outside of tests that start databases of their own.
var mayUseTestdb = []string{"internal/testdb", "internal/demo", "bench"}

// A source is a parsed file.
type source struct {
	path, pkg string // slash paths from the root; pkg "." is the root
	test      bool
	file      *ast.File
	set       *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
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
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("only %d files were found: does the test run in the root?", len(out))
	}
	return out
}

// ours gives the path of an import within the house.
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
		allowed := strings.Fields(r.imports)
		if s.test {
			allowed = append(allowed, s.pkg, "internal/testdb")
			allowed = append(allowed, strings.Fields(r.tests)...)
		}
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
		for _, i := range strings.Fields(r.imports) {
			to, ok := rooms[i]
			switch {
			case !ok:
				t.Errorf("%s may import %s, which is no package", name, i)
			case i == "internal/testdb" && !slices.Contains(mayUseTestdb, name):
				t.Errorf("%s may import internal/testdb, which is for tests", name)
			case r.floor != 0 && to.floor >= r.floor:
				t.Errorf("%s on floor %d may import %s on floor %d", name, r.floor, i, to.floor)
			}
		}
	}
}

// The map in doc.go and the table above say the same.
func TestMapOfTheHouse(t *testing.T) {
	f, err := os.Open("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := regexp.MustCompile(`^//\t(\d| ) +((?:[a-z/]+ )*[a-z/]+)   *\S`)
	onMap := map[string]int{}
	floor := 0
	for in := bufio.NewScanner(f); in.Scan(); {
		m := line.FindStringSubmatch(in.Text())
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
		if r.floor != 0 && onMap[name] != r.floor {
			t.Errorf("%s is on floor %d in layout_test.go and on %d in the map of doc.go (0: not there)", name, r.floor, onMap[name])
		}
	}
	for name := range onMap {
		if _, ok := rooms[name]; !ok {
			t.Errorf("%s is on the map of doc.go and not in layout_test.go", name)
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

// Files and functions have a size that can be read in one go.
func TestSizes(t *testing.T) {
	const fileLines, funcLines, params = 700, 120, 8
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		if n := s.set.File(s.file.Pos()).LineCount(); n > fileLines {
			t.Errorf("%s has %d lines, more than %d", s.path, n, fileLines)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1; n > funcLines {
				t.Errorf("%s: %s has %d lines, more than %d", s.path, f.Name.Name, n, funcLines)
			}
			if n := f.Type.Params.NumFields(); n > params {
				t.Errorf("%s: %s has %d parameters", s.path, f.Name.Name, n)
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

// mayGo are the only places whose goroutines may be bare: those that catch panics, and programs for tests.
var mayGo = []string{"internal/crash", "flow", "internal/testdb", "internal/demo", "bench", "bench/stream", "queue/queuetest"}

// A panic in a goroutine that nobody watches ends the process amid what the others do: each runs in a flow.Group, or by
// internal/crash.
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
