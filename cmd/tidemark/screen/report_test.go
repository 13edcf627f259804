package screen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
)

// A short report has the five tables that took longest, and whatever is not complete.
func TestShortTables(t *testing.T) {
	var tables []catalog.TableStat
	begun := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	for i := range 20 {
		name := fmt.Sprintf("t%02d", i)
		x := catalog.TableStat{Schema: "public", Name: name, TargetSchema: "public", TargetName: name, State: load.TableCompleted, Start: begun, End: begun.Add(time.Duration(i) * time.Second)}
		if i == 3 {
			x.State = load.TableError
		}
		if i == 4 {
			x.FullLoadErrorRows = 7
		}
		tables = append(tables, x)
	}
	var out bytes.Buffer
	ShortTables(&out, tables)
	var names []string
	for line := range strings.Lines(out.String()) {
		if name, is := strings.CutPrefix(line, "public."); is {
			names = append(names, name[:3])
		}
	}
	if got := strings.Join(names, " "); got != "t19 t18 t17 t16 t15 t04 t03" || !strings.Contains(out.String(), "13 tables more") {
		t.Errorf("%s\n%s", got, &out)
	}
	if !strings.Contains(out.String(), "ERROR ROWS") || !strings.Contains(out.String(), load.TableError) {
		t.Errorf("it does not say what is wrong:\n%s", &out)
	}
	out.Reset()
	if ShortTables(&out, tables[:5]); strings.Index(out.String(), "t00") > strings.Index(out.String(), "t04") || strings.Contains(out.String(), "more") {
		t.Errorf("a few tables are shown in their order:\n%s", &out)
	}
	out.Reset()
	if Report(&out, &job.Report{Limit: "The target limits."}, false); !strings.HasSuffix(out.String(), "\n\nThe target limits.\n") {
		t.Errorf("%q", out.String())
	}
}
