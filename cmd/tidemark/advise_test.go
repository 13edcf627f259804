package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdvise runs the command on the texts of the studies.
func TestAdvise(t *testing.T) {
	texts := filepath.Join("..", "..", "db2", "text", "testdata")
	skew := filepath.Join(texts, "skew.txt")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{skew}, 0, "Limit: One table space dominates: BM 001 handled 2,837,632 kB of 2,960,720 kB (95.8%), and 3 of 4 BMs had nothing to do most of the time."},
		{[]string{skew, "--operation", "restore"}, 0, "Restore: 140.9 s"},
		{[]string{filepath.Join(texts, "fragmented.txt"), "--last", "1"}, 0, "1 listing before these: --last N shows more."},
		{[]string{filepath.Join(texts, "utility.txt"), "--at", "2018-02-28 16:22:08"}, 0, "28.4% is done (2.7 MB/s)"},
		{[]string{filepath.Join(texts, "none.txt")}, 6, "no such file"},
		{[]string{"advise_test.go"}, 2, "hint: It reads db2diag.log"},
		{[]string{}, 2, "Usage: tidemark advise FILE..."},
		{[]string{skew, "--operation", "load"}, 2, "backup"},
		{[]string{skew, "--at", "soon"}, 2, "must be a time"},
		{[]string{skew, "--last", "0"}, 2, "--last"},
	} {
		var out bytes.Buffer
		if code := run(context.Background(), append([]string{"advise"}, c.args...), &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: exit %d\n%s", c.args, code, &out)
		}
	}
	var out bytes.Buffer
	if code := run(context.Background(), []string{"advise", "--json", skew}, &out, os.Stderr); code != 0 {
		t.Fatal(code)
	}
	var all []struct {
		Of     string
		Limit  string
		Advice []struct {
			Do, Gain, Sure, Cost string
			Seconds              float64 `json:"gain_seconds"`
			Settings             []struct{ Name, Now, Propose string }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &all); err != nil || len(all) != 1 || all[0].Of != "backup" || len(all[0].Advice) != 3 {
		t.Fatalf("%v: %s", err, &out)
	}
	if a := all[0].Advice[2]; a.Settings[0].Name != "PARALLELISM" || a.Settings[0].Now != "4" || a.Settings[0].Propose != "2" {
		t.Errorf("%+v", a)
	}
	if s := all[0].Advice[0].Seconds; s < 102.9 || s > 103.1 { // 140.94 - 151.65/4
		t.Errorf("%.2f s", s)
	}
}
