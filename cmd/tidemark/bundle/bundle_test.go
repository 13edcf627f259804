package bundle

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/job"
)

// A restore into a database is a copy, and is shown as one everywhere, although its plan, which
// tells it from a restore of files, is not in the bundle.
func TestRestoreIntoADatabase(t *testing.T) {
	cat, err := catalog.Open(filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cat.Close() })
	report, err := json.Marshal(job.Report{Verb: "restore", Seconds: 2.5, Limit: "The target limits.", Workers: flow.Report{Roles: []flow.Role{{Name: "Reader"}}}})
	if err != nil {
		t.Fatal(err)
	}
	r := catalog.Run{ID: catalog.NewRunID(), Verb: "restore", Source: "file:///place", Target: "postgres://host/shop", Started: time.Now(), State: catalog.Done, Plan: json.RawMessage("{}"), Report: report}
	if err := cat.Begin(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	_, files, err := Gather(t.Context(), cat, r.ID, "test")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range files {
		texts[strings.TrimPrefix(f.Name, "run/"+r.ID+"/")] = string(f.data)
	}
	if text := texts["explain.txt"]; !strings.Contains(text, "restore file:///place to postgres://host/shop, done, 2.5 s") {
		t.Errorf("explain.txt is not one of a copy: %s", text)
	}
	if text := texts["report.txt"]; !strings.Contains(text, "The target limits.") || strings.Contains(text, "restored backup") {
		t.Errorf("report.txt is not one of a copy: %s", text)
	}
	if texts["history.txt"] == "" {
		t.Error("there is no history.txt")
	}
}
