package advisor_test

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/advisor"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/db2/text"
)

// update writes what is printed into the script files; stream_test.go has the flag.
func update() bool { return flag.Lookup("update").Value.String() == "true" }

// TestDb2 runs scripts: texts of Db2, and what is said of them. A line "use NAME" stands for a file
// of db2/text's tests, "operation" and "now" give facts, and what is said stands after "=== ".
func TestDb2(t *testing.T) {
	scripts, _ := filepath.Glob("testdata/db2/*.txt")
	if len(scripts) < 10 {
		t.Fatalf("%d scripts", len(scripts))
	}
	for _, file := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in, want, _ := strings.Cut(string(script), "=== said\n")
			var given strings.Builder
			var facts advisor.Db2Facts
			for line := range strings.Lines(in) {
				word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
				switch word {
				case "#":
				case "use":
					file, err := os.ReadFile(filepath.Join("../db2/text/testdata", rest+".txt"))
					if err != nil {
						t.Fatal(err)
					}
					given.Write(file)
				case "operation":
					facts.Operation = text.Operation(rest)
				case "now":
					if facts.At, err = time.Parse(time.DateTime, rest); err != nil {
						t.Fatal(err)
					}
				default:
					given.WriteString(line)
				}
			}
			var listings []text.Listing
			if _, err := text.Read(strings.NewReader(given.String()), func(l text.Listing) { listings = append(listings, l) }); err != nil {
				t.Fatal(err)
			}
			diagnoses := advisor.ExplainDb2(listings, facts)
			for i := range diagnoses {
				diagnoses[i].File = "x.txt"
				for _, a := range diagnoses[i].Advice {
					if a.Do == "" || a.Gain == "" || a.Sure == "" || a.Cost == "" || len(a.Settings) == 0 {
						t.Errorf("advice lacks a part: %+v", a)
					}
				}
			}
			var said strings.Builder
			screen.Diagnoses(&said, diagnoses)
			if update() {
				if err := os.WriteFile(file, []byte(in+"=== said\n"+said.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if said.String() != want {
				t.Errorf("got\n%s\nwant\n%s", &said, want)
			}
		})
	}
}

// FuzzDb2: whatever texts say, there is advice or none, and it is printed.
func FuzzDb2(f *testing.F) {
	for _, pattern := range []string{"testdata/db2/*.txt", "../db2/text/testdata/*.txt"} {
		names, _ := filepath.Glob(pattern)
		for _, n := range names {
			script, err := os.ReadFile(n)
			if err != nil {
				f.Fatal(err)
			}
			in, _, _ := strings.Cut(string(script), "=== said\n")
			f.Add(in, n[0] == 't')
		}
	}
	f.Fuzz(func(t *testing.T, in string, restore bool) {
		facts := advisor.Db2Facts{At: time.Date(2018, 3, 1, 0, 0, 0, 0, time.UTC)}
		if restore {
			facts.Operation = text.Restore
		}
		var listings []text.Listing
		if _, err := text.Read(strings.NewReader(in), func(l text.Listing) { listings = append(listings, l) }); err != nil {
			t.Fatal(err)
		}
		all := advisor.ExplainDb2(listings, facts)
		for _, d := range all {
			if d.Limit == "" || d.Of == "" || d.Title == "" {
				t.Errorf("%+v", d)
			}
			for _, a := range d.Advice {
				if a.Seconds < 0 || a.Do == "" || a.Gain == "" || a.Sure == "" || a.Cost == "" || len(a.Settings) == 0 {
					t.Errorf("%+v", a)
				}
			}
		}
		screen.Diagnoses(io.Discard, all)
	})
}
