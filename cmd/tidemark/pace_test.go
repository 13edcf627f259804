package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// Deadlines as people write them, at 22:00.
func TestDeadlines(t *testing.T) {
	now := time.Date(2026, 11, 25, 22, 0, 0, 0, time.UTC)
	read := deadlineFrom(func() time.Time { return now })
	for text, want := range map[string]string{"06:00": "2026-11-26T06:00:00Z", "23:30": "2026-11-25T23:30:00Z", "+90m": "2026-11-25T23:30:00Z", "2026-11-27T06:00": "2026-11-27T06:00:00Z", "2026-11-27 06:00:30": "2026-11-27T06:00:30Z"} {
		if at, err := read(text); err != nil || at.Format(time.RFC3339) != want {
			t.Errorf("%s: %s, %v", text, at.Format(time.RFC3339), err)
		}
	}
	for text, want := range map[string]string{"21:30": "has passed: it is 22:00 now. For another day give the date, such as 2026-11-26T21:30", "2026-11-25T06:00": "has passed", "soon": "must be HH:MM", "+0s": "must be HH:MM", "-3h": "must be HH:MM"} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]float64{"+10%": 0.1, "10%": 0.1, "100%": 1} {
		if x, err := parseRise(text); err != nil || x != want {
			t.Errorf("%s: %v, %v", text, x, err)
		}
	}
	for _, text := range []string{"10", "+0%", "-10%", "x%"} {
		if _, err := parseRise(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// A copy with time enough uses one lane; one that cannot be done in time says so before it moves
// rows, and is done all the same; one that minds its source is complete and leaves nothing there.
func TestCopyByADeadline(t *testing.T) {
	for name, srv := range map[string]*testdb.Server{"postgres": testdb.Postgres(t, 15), "mariadb": testdb.MariaDB(t)} {
		t.Run(name, func(t *testing.T) {
			src := srv.NewDatabase(t, "pace_s")
			largeTables(t, src)
			before := tablesThere(t, src)
			copied := func(args ...string) (outcome, int) {
				t.Helper()
				to := srv.NewDatabase(t, "pace_t")
				o := must(t, append([]string{"copy", src, to}, args...)...)
				must(t, "diff", src, to)
				var r struct {
					Run struct {
						Report struct {
							Workers struct {
								Roles []struct {
									Name    string
									Workers []struct{}
								}
							}
						}
					}
				}
				var runs []struct{ ID, Verb string }
				if err := json.Unmarshal([]byte(must(t, "runs", "--json").out), &runs); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal([]byte(must(t, "report", runs[0].ID, "--json").out), &r); err != nil {
					t.Fatal(err)
				}
				for _, role := range r.Run.Report.Workers.Roles {
					if role.Name == "Reader" {
						return o, len(role.Workers)
					}
				}
				return o, 0
			}
			if o, readers := copied("--finish-by", "+3h"); readers != 1 || strings.Contains(o.errOut, "cannot be kept") {
				t.Errorf("with time enough: %d readers, %s", readers, o.errOut)
			}
			if o, _ := copied("--finish-by", "+10ms"); !strings.Contains(o.errOut, "cannot be kept: the copy is expected to take") {
				t.Errorf("without time: %s", o.errOut)
			}
			if o, readers := copied("--source-p99", "+300%", "--lanes", "2"); readers == 0 || readers > 2 || !strings.Contains(o.errOut, "p99 on the source") {
				t.Errorf("with a limit of the p99: %d readers, %s", readers, o.errOut)
			}
			if o, readers := copied("--source-p99", "+300%", "--source-canary", "--finish-by", "+1h"); readers == 0 || !strings.Contains(o.errOut, "pace: 1 lane: ") {
				t.Errorf("with a canary: %d readers, %s", readers, o.errOut)
			}
			if after := tablesThere(t, src); after != before {
				t.Errorf("the source has other tables:\n%s\nbefore:\n%s", after, before)
			}
			testdb.Query(t, src, "CREATE TABLE tidemark_canary (i int)") // of somebody else
			o := cli(t, "copy", src, srv.NewDatabase(t, "pace_v"), "--source-p99", "+10%", "--source-canary")
			if o.code == 0 || !strings.Contains(o.errOut, "tidemark_canary: another copy of this source uses it, or it is not of tidemark") {
				t.Errorf("exit %d: %s", o.code, o.errOut)
			}
			must(t, "copy", src, srv.NewDatabase(t, "pace_w"))
			testdb.Query(t, src, "SELECT i FROM tidemark_canary; DROP TABLE tidemark_canary")
			o = cli(t, "copy", src, srv.NewDatabase(t, "pace_u"), "--finish-by", "2026-01-01T06:00")
			if o.code != 2 || !strings.Contains(o.errOut, "has passed") {
				t.Errorf("exit %d: %s", o.code, o.errOut)
			}
		})
	}
	if o := cli(t, "copy", "file:/tmp/x.sql", "postgres://localhost:1/x", "--finish-by", "+1h"); o.code == 0 || !strings.Contains(o.errOut, "are for databases") {
		t.Errorf("exit %d: %s", o.code, o.errOut)
	}
}

// Two options that would turn the same lanes are refused, before anything is asked.
func TestOneGovernorOfLanes(t *testing.T) {
	for name, args := range map[string][]string{
		"auto with a number of lanes": {"--auto", "--lanes", "2"},
		"auto with a deadline":        {"--auto", "--finish-by", "+3h"},
		"experiment with a canary":    {"--experiment", "--source-p99", "+10%", "--source-canary"},
	} {
		t.Run(name, func(t *testing.T) {
			args = append([]string{"copy", "postgres://me@localhost:1/a", "postgres://me@localhost:1/b"}, args...)
			sameText(t, cli(t, args...), 2, args)
		})
	}
}

// A wrong line in the user's table of volumes is refused, with its number.
func TestVolumesOfTheUser(t *testing.T) {
	args := []string{"copy", "postgres://me@localhost:1/a", "postgres://me@localhost:1/b", "--volumes", testdb.Written(t, "volumes", "# ours\nsan\t5000\t400\tcontract\nnas\tmany\t100\tguess\n")}
	sameText(t, cli(t, args...), 2, args)
}

// The table of a canary whose copy was killed disappears with the next copy of that source,
// whatever its options; that of one that works stays.
func TestCanaryThatWasKilled(t *testing.T) {
	for name, srv := range map[string]*testdb.Server{"postgres": testdb.Postgres(t, 15), "mariadb": testdb.MariaDB(t), "mysql": testdb.MySQL(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := srv.NewDatabase(t, "canary")
			largeTables(t, src)
			before := tablesThere(t, src)
			pace := []string{"--source-p99", "+300%", "--source-canary"}
			// A copy looks at the source for a while before its rows move: the table is there from
			// then on.
			begin := func(args ...string) (cmd *exec.Cmd, end func()) {
				t.Helper()
				cmd = process(t, args...)
				out, in := startInStep(t, cmd)
				t.Cleanup(func() { cmd.Process.Kill() })
				over := make(chan struct{})
				go func() { drain(in); close(over) }()
				for tablesThere(t, src) == before {
					select {
					case <-over:
						t.Fatal("it has ended")
					default:
					}
				}
				return cmd, func() { cmd.Process.Kill(); <-over; _ = cmd.Wait(); out.Close() }
			}
			killed := func() string {
				t.Helper()
				to := srv.NewDatabase(t, "canary_t")
				_, end := begin(append([]string{"copy", src, to}, pace...)...)
				end()
				if tablesThere(t, src) == before {
					t.Fatal("it was not killed in time")
				}
				return to
			}
			clean := func(how string) {
				t.Helper()
				if after := tablesThere(t, src); after != before {
					t.Errorf("after %s the source has\n%s\nbefore:\n%s", how, after, before)
				}
			}
			to := killed()
			must(t, append([]string{"copy", src, to, "--resume", "last"}, pace...)...)
			clean("a resume")
			killed()
			other := srv.NewDatabase(t, "canary_o")
			must(t, "copy", src, other)
			clean("another copy")
			if tables := tablesThere(t, other); strings.Contains(tables, "canary") {
				t.Errorf("it was copied: %s", tables)
			}
			// Its catalogue is its own: while it is stopped it may keep it locked.
			cmd, end := begin(append([]string{"copy", src, srv.NewDatabase(t, "canary_u"), "--state", filepath.Join(t.TempDir(), "c.db")}, pace...)...)
			if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil { // or it might end meanwhile
				t.Fatal(err)
			}
			must(t, "copy", src, srv.NewDatabase(t, "canary_v"))
			if tablesThere(t, src) == before {
				t.Error("a copy has dropped the table of one that works")
			}
			end()
			must(t, append([]string{"copy", src, srv.NewDatabase(t, "canary_w")}, pace...)...)
			clean("a copy with a canary")
		})
	}
}
