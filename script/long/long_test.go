package long

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var declared = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)

// TestNamesAreLongEverywhere: go test leaves out all tests of a name, so a short one that shared
// its name with a long one would not run at each make test.
func TestNamesAreLongEverywhere(t *testing.T) {
	const top = "../.."
	tests, err := Read(filepath.Join(top, "script/long-tests"))
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string][]string{} // by a test's name
	err = filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && file != top && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return cmp.Or(err, filepath.SkipDir)
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pkg, err := filepath.Rel(top, filepath.Dir(file))
		for _, name := range declared.FindAllStringSubmatch(string(text), -1) {
			packages[name[1]] = append(packages[name[1]], filepath.ToSlash(pkg))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	long := map[string][]string{}
	for _, test := range tests {
		long[test.Name] = append(long[test.Name], test.Package)
	}
	for name, of := range long {
		slices.Sort(of)
		slices.Sort(packages[name])
		if diff := gocmp.Diff(packages[name], of); diff != "" {
			t.Errorf("%s, its packages (-) and those of script/long-tests (+): rename what is short, add what is long\n%s", name, diff)
		}
	}
}

func TestByName(t *testing.T) {
	got := ByName([]Test{{"b", "TestX", 4}, {"a", "TestX", 50}, {"a", "TestA", 7}})
	if diff := gocmp.Diff([]Test{{"", "TestA", 7}, {"", "TestX", 54}}, got); diff != "" {
		t.Error(diff)
	}
}
