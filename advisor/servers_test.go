package advisor

import (
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/sample"
)

// account is one in which the I/O of a role consists of parts, in seconds.
func account(role, on string, parts map[tidemark.WaitKind]float64, server sample.Counted, m *sample.Machine) *sample.Account {
	s := sample.Split{Role: role, On: on, Here: m != nil}
	for kind, seconds := range parts {
		p := sample.Part{Kind: kind, Time: time.Duration(seconds * float64(time.Second)), Event: "Some:Event", Of: 1}
		s.Parts = append(s.Parts, p)
		s.IO += p.Time
	}
	server.On = on
	return &sample.Account{Roles: []sample.Split{s}, Servers: []sample.Counted{server}, Machine: m}
}

type parts = map[tidemark.WaitKind]float64

// Each rule with an account in which it is the one that applies, and what it says.
func TestServerRules(t *testing.T) {
	writers := report(times(20, 2, 18, 0), times(20, 19, 0, 1), times(20, 1, 0, 19))
	readers := report(times(20, 19, 1, 0), times(20, 2, 0, 18), times(20, 1, 0, 19))
	finishers := report(times(5, 4, 1, 0), times(5, 4, 0, 1), times(20, 18, 0, 2))
	busy := &sample.Machine{Processors: 2, Busy: 0.97, Own: 0.05}
	idle := &sample.Machine{Processors: 2, Busy: 0.30, Own: 0.05}
	pg := sample.Counted{Took: 20 * time.Second, Settings: map[string]string{"wal_level": "replica", "max_wal_size": "1GB", "synchronous_standby_names": "s1"},
		Counters: map[tidemark.Gauge]float64{tidemark.LogBytes: 2e9, tidemark.Reads: 6000, tidemark.ReadBytes: 6000 * 16384, tidemark.Writes: 6000, tidemark.WriteBytes: 6000 * 16384}}
	minimal := sample.Counted{Took: 20 * time.Second, Settings: map[string]string{"wal_level": "minimal"}}
	forced := pg
	forced.Counters = map[tidemark.Gauge]float64{tidemark.LogBytes: 20 << 30, tidemark.ForcedCheckpoints: 9, tidemark.PageImages: 1000}
	durable := sample.Counted{Took: 20 * time.Second, Settings: map[string]string{"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1", "log_bin": "ON"}}
	relaxed := sample.Counted{Took: 20 * time.Second, Settings: map[string]string{"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "1", "log_bin": "ON"}}
	for _, c := range []struct {
		rule   string // "": none applies
		rep    flow.Report
		source string
		target string
		acc    *sample.Account
		says   string
	}{
		{"processors-full", writers, "postgres", "postgres", account("Writer", "target", parts{tidemark.WaitCPU: 20, tidemark.WaitProcessor: 18}, pg, busy),
			"Nothing to gain here from more lanes, index builders or memory: the target's 2 processors are full (97% busy). Use more or faster processors. It would gain at most 9.0 s."},
		{"", writers, "postgres", "postgres", account("Writer", "target", parts{tidemark.WaitCPU: 38}, pg, idle), ""},
		{"", writers, "postgres", "postgres", account("Writer", "target", parts{tidemark.WaitCPU: 38}, pg, nil), ""},
		{"log-syncs", writers, "mysql", "postgres", account("Writer", "target", parts{tidemark.WaitLogSync: 20, tidemark.WaitCPU: 18}, pg, idle),
			"The target's log limits: our sessions wait until it is written and synced. Change wal_level on the target from replica to minimal. It would gain at most 10.0 s."},
		{"log-syncs", writers, "mysql", "postgres", account("Writer", "target", parts{tidemark.WaitLogSync: 20, tidemark.WaitCPU: 18}, minimal, idle), "Put pg_wal on a faster disk of its own"},
		{"log-syncs", writers, "postgres", "mariadb", account("Writer", "target", parts{tidemark.WaitLogSync: 20, tidemark.WaitUnknown: 18}, durable, idle),
			"Change innodb_flush_log_at_trx_commit on the target from 1 to 2. It would gain at most 10.0 s."},
		{"log-syncs", writers, "postgres", "mysql", account("Writer", "target", parts{tidemark.WaitLogSync: 20, tidemark.WaitUnknown: 18}, relaxed, idle), "Change sync_binlog on the target from 1 to 0"},
		{"forced-checkpoints", writers, "postgres", "postgres", account("Writer", "target", parts{tidemark.WaitCPU: 38}, forced, idle),
			"Checkpoints come too often: after each, every page that changes is written to the log whole. Change max_wal_size on the target from 1GB to 25 GB."},
		{"data-reads", readers, "postgres", "mysql", account("Reader", "source", parts{tidemark.WaitDataRead: 30, tidemark.WaitCPU: 8}, pg, idle),
			"Reading from the source's disk limits. Change --lanes from 2 to 4. It would gain at most 7.5 s."},
		{"data-reads", finishers, "mysql", "postgres", account("Finisher", "target", parts{tidemark.WaitDataRead: 30, tidemark.WaitCPU: 6}, pg, idle), "Reading from the target's disk limits. Use a disk with more requests"},
		{"data-writes", writers, "mysql", "postgres", account("Writer", "target", parts{tidemark.WaitDataWrite: 30, tidemark.WaitCPU: 8}, pg, idle),
			"Writing to the target's disk limits. Use a disk with more requests or bytes a second. It would gain at most 15.0 s."},
		{"temporary-io", finishers, "mysql", "postgres", account("Finisher", "target", parts{tidemark.WaitTemp: 10, tidemark.WaitCPU: 26}, pg, idle), "Sorts of index builds do not fit into memory. Raise --index-memory."},
		{"temporary-io", finishers, "mysql", "mariadb", account("Finisher", "target", parts{tidemark.WaitTemp: 10, tidemark.WaitCPU: 26}, durable, idle), "innodb_sort_buffer_size on the target"},
		{"locks", writers, "mysql", "postgres", account("Writer", "target", parts{tidemark.WaitLock: 30, tidemark.WaitCPU: 8}, pg, idle), "Locks of others limit: sessions on the target wait for them."},
		{"one-table", writers, "mysql", "postgres", account("Writer", "target", parts{tidemark.WaitLatch: 20, tidemark.WaitCPU: 18}, pg, idle), "Change --lanes from 2 to 1."},
		{"network", writers, "mysql", "postgres", account("Writer", "target", parts{tidemark.WaitNetwork: 30, tidemark.WaitCPU: 8}, pg, nil), "The link to the target limits"},
		{"standby", writers, "mysql", "postgres", account("Writer", "target", parts{tidemark.WaitStandby: 30, tidemark.WaitCPU: 8}, pg, nil),
			"Commits on the target wait for a synchronous standby. Change synchronous_standby_names on the target from s1 to ''"},
	} {
		f := Facts{Source: c.source, Target: c.target, Lanes: 2, LanesFixed: true, Servers: c.acc}
		reasons := Reasons(c.rep, f)
		if c.rule == "" {
			if len(reasons) > 0 {
				t.Errorf("%s: no rule was to apply: %+v", c.acc.Roles[0].Role, reasons)
			}
			continue
		}
		if len(reasons) == 0 || reasons[0].Rule != c.rule || !strings.Contains(reasons[0].String(), c.says) {
			t.Errorf("%s: got %+v, want %q", c.rule, reasons, c.says)
			continue
		}
		if a := reasons[0]; len(a.Evidence) == 0 || a.Do != "" && (a.Cost == "" || a.Sure == "") || a.Seconds > 0 && a.Gain == "" {
			t.Errorf("%s lacks something: %+v", c.rule, a)
		}
		if _, advice := Explain(c.rep, f); len(advice) == 0 || advice[0] != reasons[0].String() {
			t.Errorf("%s: the report says %q", c.rule, advice)
		}
	}
}

// A volume's ceiling is seen in the evidence: requests a second, and their size.
func TestEvidenceNamesRequests(t *testing.T) {
	c := sample.Counted{Took: 20 * time.Second, Counters: map[tidemark.Gauge]float64{tidemark.Writes: 6000, tidemark.WriteBytes: 6000 * 16384}}
	if got, want := (&serverCase{server: c}).rates(tidemark.Writes, tidemark.WriteBytes), "; the server counted 300 requests and 4.9 MB/s, 16 kB each"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
