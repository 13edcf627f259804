package main

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/archiving"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/holdings"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/define"
	"github.com/tidemarkdb/tidemark/diff"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/job/sampled"
	"github.com/tidemarkdb/tidemark/job/stream"
	"github.com/tidemarkdb/tidemark/job/workload"
	"github.com/tidemarkdb/tidemark/load"
)

// printed are the documents and events that commands print with --json.
var printed = []any{engines.Capability{}, load.Plan{}, job.Report{}, job.Event{}, sampled.Status{}, job.Checked{}, job.Repaired{}, job.StorageReport{}, catalog.Run{}, catalog.TableStat{},
	catalog.StreamTable{}, diff.Result{}, diff.Repaired{}, define.Result{}, tidemark.Finding{}, change.Exception{}, stream.Proof{}, repo.Manifest{}, repo.VerifyReport{}, backup.Status{},
	holdings.List{}, archiving.Event{}, startedReport{}, screen.Utility{}, screen.StreamState{}, ha.Profile{}, ha.Forecast{}, measure.DiskReport{}, measure.SimReport{}, measure.LinkReport{}, measure.LiveReport{}, screen.Pruned{}, screen.StartedBackup{}, ha.Db2Report{}, ha.Plan{}, screen.Versus{}, bundled{}, job.Forecast{}, job.Foreseen{}, workload.Report{}}

// TestJSONKeys checks that all printed keys are lower case.
func TestJSONKeys(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type, string)
	walk = func(x reflect.Type, path string) {
		for x.Kind() == reflect.Pointer || x.Kind() == reflect.Slice || x.Kind() == reflect.Array || x.Kind() == reflect.Map {
			x = x.Elem()
		}
		p := reflect.PointerTo(x)
		if x.Kind() != reflect.Struct || seen[x] || p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			return
		}
		seen[x] = true
		for i := range x.NumField() {
			f := x.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "-" || !f.IsExported() && !f.Anonymous {
				continue
			}
			if name == "" && !f.Anonymous {
				name = f.Name
			}
			if strings.ToLower(name) != name {
				t.Errorf("%s.%s: the key is %q", path, f.Name, name)
			}
			walk(f.Type, path+"."+f.Name)
		}
	}
	for _, v := range printed {
		walk(reflect.TypeOf(v), reflect.TypeOf(v).String())
	}
}

// With --json errors are JSON too, whatever reports them: the command line, even an invalid one, or
// a task file.
func TestJSONErrors(t *testing.T) {
	task := testdb.Written(t, "task.yaml", "source: nowhere.sql\ntarget: postgres://me:secret@127.0.0.1:1/b\noptions:\n  json: on\n")
	for _, x := range []struct {
		code int
		kind string
		args []string
	}{
		{2, "invalid", []string{"copy", "--json", "--lane", "4"}},
		{2, "invalid", []string{"copy", "postgres://me:secret@127.0.0.1:1/a", "--json=on"}},
		{3, "unreachable", []string{"copy", "postgres://me:secret@127.0.0.1:1/a", "postgres://me:secret@127.0.0.1:1/b", "--json"}},
		{6, "not found", []string{"copy", "--config", task}},
		{6, "not found", []string{"report", "01K9", "--json"}},
	} {
		o := cli(t, x.args...)
		lines := strings.Split(strings.TrimSpace(o.errOut), "\n")
		var e struct {
			Event, Kind, Error, Hint, Time string
			Code                           int `json:"exit_code"`
		}
		err := json.Unmarshal([]byte(lines[len(lines)-1]), &e)
		if err != nil || o.code != x.code || e.Event != "error" || e.Kind != x.kind || e.Code != x.code || e.Error == "" || e.Time == "" || strings.Contains(o.errOut, "secret") {
			t.Errorf("%v: exit %d, %v: %s", x.args, o.code, err, o.errOut)
		}
	}
	if o := cli(t, "copy", "--json=off", "--lane", "4"); !strings.HasPrefix(o.errOut, "tidemark: ") {
		t.Errorf("--json=off: %s", o.errOut)
	}
}

// With --json, warnings that accompany an answer are events too, with the same fields as an error's
// line.
func TestJSONWarnings(t *testing.T) {
	line := []string{"replicate", "postgres://me@127.0.0.1:1/a", "postgres://me@127.0.0.1:1/b", "--metrics", "0.0.0.0:0"}
	o := cli(t, append(line, "--json")...)
	lines := strings.Split(strings.TrimSpace(o.errOut), "\n")
	var w struct{ Event, Level, Object, Message, Hint, Time string }
	if err := json.Unmarshal([]byte(lines[0]), &w); err != nil || len(lines) != 2 || w.Event != "warning" || w.Level != "warning" || w.Object == "" || w.Message == "" || w.Hint == "" || w.Time == "" {
		t.Errorf("%v: %s", err, o.errOut)
	}
	if o := cli(t, line...); !strings.HasPrefix(o.errOut, "warning: --metrics ") {
		t.Errorf("without --json: %s", o.errOut)
	}
}

// Empty lists are printed as [].
func TestJSONEmptyLists(t *testing.T) {
	for _, verb := range []string{"runs", "status", "utilities"} {
		if o := must(t, verb, "--json"); o.out != "[]\n" {
			t.Errorf("%s: %s", verb, o.out)
		}
	}
}
