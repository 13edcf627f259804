package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

// wrongLines are command lines as newcomers to this program write them, with words of the hint that
// each gets.
var wrongLines = []struct{ line, hint string }{
	// misspelt, or of the wrong command
	{"cpoy postgres://a/x postgres://b/x", "tidemark copy"},
	{"replikate", "tidemark replicate"},
	{"back", "tidemark backup or tidemark backups"},
	{"push /backup 0001", "tidemark archive push"},
	{"calculate daily.scan", "tidemark ha calculate"},
	{"ha scna", "tidemark ha scan"},
	{"postgres://me:secret@old/shop postgres://new/shop", "Put a command first"},
	{"copy a.sql postgres://b/x --lane 4", "Did you mean --lanes?"},
	{"copy a.sql postgres://b/x --range_size 1GB", "Did you mean --range-size?"},
	{"copy a.sql postgres://b/x -lanes 4", "copy --help"},
	{"copy a.sql postgres://b/x --j 4", "one dash: -j"},
	{"copy a.sql postgres://b/x --agents 4", "It is an option of apply, cutover, replicate"},
	{"--quiet copy a.sql postgres://b/x", "Put options after the command"},
	{"copy a.sql postgres://b/x --plan on", "--plan=on"},
	{"diff --definitions on postgres://a/x postgres://b/x", "--definitions=on"},
	{"diff --definitions only postgres://a/x postgres://b/x", "--definitions=only"},
	{"repair a.sql postgres://b/x", "Load it into a database"},
	{"repair postgres://b/x file:a.sql", "Load it into a database"},
	{"diff a.sql b.sql", "Load one of them into a database"},
	{"diff --live a.sql postgres://b/x", "Leave out --live"},
	{"monitor --help", "tidemark status"},
	{"copi --help", "Did you mean tidemark copy?"},
	{"ha mesure -h", "Did you mean tidemark ha measure?"},
	{"help copi", "Did you mean tidemark copy?"},
	{"completion tcsh", "Did you mean tidemark completion"},
	{"ha measure disk --for 3s /nowhere", "Here it is --time"},
	{"copy a.sql postgres://b/x --lanes many", "Parallel sessions"},
	{"copy a.sql postgres://b/x --lanes", "Parallel sessions"},
	{"copy a.sql postgres://b/x --prep recreate", "What to do with tables"},
	{"copy a.sql postgres://b/x --range-size big", "How much of a table"},
	{"copy postgres://a/x", "Usage: tidemark copy"},
	{"report last 01K9 01K9", "Usage: tidemark report"},
	{"replicate postgres://a/x postgres://b/x --until yesterday", "When to stop"},
	{"status --watch=maybe", "until stopped"},
	// pgcopydb
	{"clone --source postgres://a/x --target postgres://b/x", "tidemark copy"},
	{"fork", "tidemark copy"},
	{"follow", "tidemark replicate"},
	{"compare", "tidemark diff"},
	{"copy --source postgres://a/x --target postgres://b/x", "SOURCE and TARGET without an option"},
	{"copy a.sql postgres://b/x --table-jobs 4", "--lanes"},
	{"copy a.sql postgres://b/x --index-jobs 4", "--finishers"},
	{"copy a.sql postgres://b/x --split-tables-larger-than 10GB", "--range-size"},
	{"copy a.sql postgres://b/x --drop-if-exists", "--prep drop"},
	{"copy a.sql postgres://b/x --not-consistent", "consistent snapshot"},
	{"replicate postgres://a/x postgres://b/x --slot-name s", "--name"},
	{"replicate postgres://a/x postgres://b/x --endpos 0/16B3748", "--until"},
	{"copy postgres://a/x postgres://b/x --follow", "tidemark replicate"},
	// mydumper and myloader
	{"mydumper", "--logical"},
	{"myloader", "tidemark copy FILE TARGET"},
	{"copy mysql://a/x mysql://b/x --threads 8", "--lanes"},
	{"copy mysql://a/x mysql://b/x --regex '^(?!(mysql))'", "--include"},
	{"copy mysql://a/x mysql://b/x --rows 100000", "--range-size"},
	{"copy mysql://a/x mysql://b/x --overwrite-tables", "--prep drop"},
	{"backup mysql://a/x /backup --outputdir /d", "standard output"},
	// pgBackRest
	{"info", "tidemark backups"},
	{"expire", "tidemark prune"},
	{"stanza-create", "tidemark backup"},
	{"archive-push /x", "tidemark archive push"},
	{"backup postgres://a/x /backup --stanza main", "--server"},
	{"backup postgres://a/x /backup --type full", "--incremental"},
	{"backup postgres://a/x /backup --process-max 4", "--parallelism"},
	{"restore /backup /data --target-time 2026-11-21", "--to"},
	{"prune /backup --repo1-retention-full 4", "--keep"},
	// pg_dump and pg_restore
	{"pg_dump shop", "--logical"},
	{"pg_restore shop.dump", "tidemark restore"},
	{"copy -h old -U me", "SOURCE and TARGET"},
	{"copy postgres://a/x postgres://b/x --schema-only", "--definitions=only"},
	{"copy postgres://a/x postgres://b/x --no-owner", "--owners"},
	{"copy postgres://a/x postgres://b/x --clean", "--prep drop"},
	{"backup postgres://a/x /backup --format custom", "standard output"},
	{"restore /backup postgres://b/x -j 4", "--lanes or --parallelism"},
	// AWS DMS
	{"full-load-and-cdc", "tidemark replicate"},
	{"create-replication-task --migration-type cdc", "tidemark replicate"},
	{"describe-table-statistics", "tidemark report"},
	{"replicate mysql://a/x mysql://b/x --replication-task-settings s.json", "--task-settings"},
	{"replicate mysql://a/x mysql://b/x --cdc-start-position now", "--from"},
	// kubectl
	{"get streams", "tidemark status"},
	{"describe run 01K9", "tidemark report"},
	{"delete stream shop", "--remove"},
	{"logs -f", "tidemark report"},
	{"status -o json", "standard output"},
	{"copy -f task.yaml", "standard output"},
	// what people want
	{"migrate postgres://a/x postgres://b/x", "tidemark copy"},
	{"sync postgres://a/x postgres://b/x", "tidemark replicate"},
	{"stop", "tidemark sub stop"},
	{"resume last", "--resume last"},
	{"repair postgres://a/x postgres://b/x --dry-run", "tidemark check"},
	{"copy postgres://a/x postgres://b/x --verbose-level 3", "--help-all"},
}

// TestWrongLines runs each wrong command line, and checks that the answer is exit code 2, the error
// in one line, and in a second line a sentence that helps.
func TestWrongLines(t *testing.T) {
	if len(wrongLines) < 60 {
		t.Fatalf("only %d lines", len(wrongLines))
	}
	for _, w := range wrongLines {
		o := helpless(strings.Fields(w.line)...)
		lines := strings.Split(strings.TrimSuffix(o.errOut, "\n"), "\n")
		switch {
		case o.code != 2:
			t.Errorf("tidemark %s: exit %d\n%s%s", w.line, o.code, o.errOut, o.out)
		case len(lines) != 2 || !strings.HasPrefix(lines[1], "hint: ") || !strings.Contains(lines[1], w.hint):
			t.Errorf("tidemark %s: the hint is not about %q:\n%s", w.line, w.hint, o.errOut)
		case strings.Contains(o.errOut, "secret"):
			t.Errorf("tidemark %s tells a password: %s", w.line, o.errOut)
		}
	}
}

// helpless runs a command line as it is, without the test's catalogue.
func helpless(args ...string) outcome {
	var out, errOut bytes.Buffer
	code := run(context.Background(), args, &out, &errOut)
	return outcome{code, out.String(), errOut.String()}
}
