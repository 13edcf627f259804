package screen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// Findings are said once, what matters most first, in ten lines unless there are more blockers;
// with -v each has its line and its hint.
func TestFindingsAreFew(t *testing.T) {
	var many []tidemark.Finding
	add := func(s tidemark.Severity, object, text, hint string) {
		many = append(many, tidemark.Finding{Severity: s, Object: object, Text: text, Hint: hint})
	}
	add(tidemark.Note, "setting a", "is small", "Enlarge it.")
	for i := range 12 {
		add(tidemark.Warning, fmt.Sprintf("setting s%d", i), fmt.Sprintf("is off %d", i), "Switch it on.")
	}
	for range 2 {
		for _, v := range []string{"v", "w", "x"} {
			add(tidemark.Warning, "view "+v, "is not copied: it is SQL", "Rewrite it.")
		}
	}
	add(tidemark.Warning, "applications", "compare", "")
	add(tidemark.Warning, "trigger t", "is not copied: it is other SQL", "")
	add(tidemark.Warning, "column c", "is shorter", "")
	add(tidemark.Blocker, "table t", "has no columns", "Exclude it.")

	var short, all strings.Builder
	Findings(&short, many, false)
	want := `
Findings:
blocker: table t: has no columns
    hint: Exclude it.
warning: column c: is shorter
warning: applications: compare
warning: 3 views (v, w and 1 more): are not copied: they are SQL
warning: trigger t: is not copied: it is other SQL
warning: setting s0: is off 0
warning: setting s1: is off 1
warning: setting s2: is off 2
10 more findings, and what to do about them: -v shows all
`
	if short.String() != want {
		t.Errorf("%s\nwant%s", short.String(), want)
	}
	Findings(&all, many, true)
	if n := strings.Count(all.String(), "\n"); n != 2+2*1+1+1+1+2*3+2*12+2 || strings.Count(all.String(), "view v") != 1 {
		t.Errorf("%d lines:%s", n, all.String())
	}

	short.Reset()
	Findings(&short, many[13:16], false)
	if got := short.String(); got != "\nFindings:\nwarning: 3 views (v, w and 1 more): are not copied: they are SQL\n    hint: Rewrite it.\n" {
		t.Error(got)
	}
	var blockers []tidemark.Finding
	for i := range 20 {
		blockers = append(blockers, tidemark.Finding{Severity: tidemark.Blocker, Text: fmt.Sprint("b", i), Hint: "h"})
	}
	short.Reset()
	Findings(&short, append(blockers, many...), false)
	if strings.Count(short.String(), "blocker: ") != 21 || !strings.Contains(short.String(), "more findings") {
		t.Errorf("blockers are left out: %s", short.String())
	}
}
