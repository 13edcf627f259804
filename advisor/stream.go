package advisor

import (
	"fmt"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
	"github.com/tidemarkdb/tidemark/sample"
)

// StreamFacts are what the rules about streams look at: figures of a recent time, by default the
// last minute.
type StreamFacts struct {
	Source, Target string  // engines; "" if another process has that end
	Seconds        float64 // that the figures cover
	Agents         int
	Busy           float64       // how many agents were busy
	RoundTrip      float64       // to the target, in milliseconds
	InTransit      float64       // how many agents waited for one
	Batches        bool          // transactions are applied in batches
	Durable        bool          // there is a durable queue
	Interval       time.Duration // --commit-interval
	ChangedOnly    bool          // --changed-columns
	Behind         float64       // seconds
	EndToEnd       float64       // mean latency, in milliseconds
	Capture        float64       // the part of it until the queue
	Transactions   int64         // captured or, where that is another process's, applied
	Rows, Bytes    int64
	Waits          StreamWaits
	Queue          StreamQueue
	Hot            StreamHot
	Open           time.Duration // age of the oldest transaction on the source that is not committed
	OpenBy         string
	LogKept        int64
	Servers        *sample.Account
	Volumes        []Volume // the user's
}

// StreamWaits are transactions that had to wait, or needed special care.
type StreamWaits struct {
	Key, Unique, Reference, Table int64
	Retried                       int64 // after deadlocks and similar errors
	Spilled                       int64 // to files, before their commit
	Alone                         int64 // too large to be applied beside others
}

// StreamQueue is what was put into a durable queue.
type StreamQueue struct {
	Messages, Bytes int64
	Putting         time.Duration
}

// StreamHot is the table that changes most, and the row.
type StreamHot struct {
	Table      string
	Changes    float64 // its share of all rows that change, 0 to 1
	Updates    float64 // the share of updates in its changes
	Row        string  // "public.account id=1"
	RowChanges float64 // its share of all updates and deletes: at least
	Columns    int     // of the table
	Unique     int     // its unique indexes, the primary key included
}

// loaded reports whether a stream is behind, or about to be.
func (f *StreamFacts) loaded() bool {
	return f.Behind >= 1 || f.Busy > 0.85*float64(f.Agents)
}

// part is the share of transactions that waited for something.
func (f *StreamFacts) part(n int64) float64 {
	return float64(n) / float64(max(f.Transactions, 1))
}

// agents is the case of the agents' I/O, and the engine's name there.
func (f *StreamFacts) agents() *serverCase {
	s, c := sideOf(f.Servers, "Agent")
	x := &serverCase{split: s, server: c, engine: f.Target, workers: f.Agents, busy: max(1, f.Busy), facts: Facts{Volumes: f.Volumes}}
	if f.Servers != nil {
		x.machine = f.Servers.Machine
	}
	return x
}

// faster words what a stream would gain if a share of the agents' work disappeared.
func faster(share float64) string {
	return fmt.Sprintf("at most 1 / (1 - %.2f) = %.1f times the rate, while the agents limit", share, 1/max(0.05, 1-share))
}

// A streamRule looks at a stream; nil if it does not apply.
type streamRule struct {
	name string
	look func(f *StreamFacts) *reason
}

// streamRules, one for each cause: those of the stream's own shape, and those that servers show.
// What they conclude is printed in this order: a cause before what follows from it.
var streamRules = []streamRule{
	{"hot-row", hotRow},
	{"unique-values", uniqueValues},
	{"foreign-keys", foreignKeys},
	{"whole-tables", wholeTables},
	{"stream-locks", streamLocks},
	{"deadlocks", deadlocks},
	{"stream-processors", streamProcessors},
	{"stream-log-syncs", streamLogSyncs},
	{"stream-checkpoints", streamCheckpoints},
	{"stream-disk", streamDisk},
	{"batches", batches},
	{"agents-few", agentsFew},
	{"agents-idle", agentsIdle},
	{"small-messages", smallMessages},
	{"commit-interval", commitInterval},
	{"source-decodes", sourceDecodes},
	{"source-reads", sourceReads},
	{"spilled", spilled},
	{"old-transaction", oldTransaction},
	{"changed-columns", changedColumns},
	{"unique-indexes", uniqueIndexes},
}

// waiting is the share of waiting transactions from which on their reason is worth a rule.
const waiting = 0.2

// hotRow: transactions change the same row, and follow each other.
func hotRow(f *StreamFacts) *reason {
	if !f.loaded() || f.Batches || f.part(f.Waits.Key) < waiting {
		return nil
	}
	r := &reason{evidence: fmt.Sprintf("%.0f%% of the transactions waited for another one that changes the same row; %.1f of %d agents are busy", 100*f.part(f.Waits.Key), f.Busy, f.Agents),
		conclusion: "Transactions change the same rows, and can only be applied one after the other: more agents do not help.",
		setting:    "--apply-mode", owner: "tidemark", now: "transactional", try: "batch", sure: Likely, gains: "many changes of a row become one",
		cost: "transactions become visible in groups, some seconds late"}
	if f.Hot.RowChanges >= 0.05 {
		r.evidence += fmt.Sprintf("; at least %.0f%% of all updates and deletes are of the row %s", 100*f.Hot.RowChanges, f.Hot.Row)
		r.conclusion = fmt.Sprintf("One row (%s) is changed all the time, and its transactions can only be applied one after the other: more agents do not help.", f.Hot.Row)
	}
	return r
}

// uniqueValues: transactions give and take the same unique values.
func uniqueValues(f *StreamFacts) *reason {
	if !f.loaded() || f.Batches || f.part(f.Waits.Unique) < waiting {
		return nil
	}
	return &reason{evidence: fmt.Sprintf("%.0f%% of the transactions waited for another one with the same value of a unique key", 100*f.part(f.Waits.Unique)),
		conclusion: "Unique values that move between rows serialise transactions.", setting: "Make these indexes non-unique", owner: "target",
		sure: Possible, gains: "these transactions run side by side", cost: "the target no longer checks what the source has checked"}
}

// foreignKeys: transactions wait for the other end of a foreign key.
func foreignKeys(f *StreamFacts) *reason {
	if !f.loaded() || f.Batches || f.part(f.Waits.Reference) < waiting {
		return nil
	}
	return &reason{evidence: fmt.Sprintf("%.0f%% of the transactions waited for the other end of a foreign key", 100*f.part(f.Waits.Reference)),
		conclusion: "Foreign keys of the target serialise transactions.", setting: "Drop these foreign keys", owner: "target",
		sure: Possible, gains: "these transactions run side by side", cost: "until they are created again, the target does not check what others write to it"}
}

// wholeTables: rows without a key make transactions wait for their table.
func wholeTables(f *StreamFacts) *reason {
	if f.part(f.Waits.Table) < waiting {
		return nil
	}
	return &reason{evidence: fmt.Sprintf("%.0f%% of the transactions waited for a whole table", 100*f.part(f.Waits.Table)),
		conclusion: "Rows that nothing identifies serialise the transactions of their table.", setting: "Add a primary key to its tables without one", owner: "source",
		sure: Likely, gains: "these transactions run side by side", cost: "an index"}
}

// streamLocks: somebody else holds what the agents need.
func streamLocks(f *StreamFacts) *reason {
	c := f.agents()
	if c.split.Share(tidemark.WaitLock) < 0.2 {
		return nil
	}
	return &reason{evidence: c.evidence(tidemark.WaitLock), conclusion: "The agents wait for locks on the target.", setting: "End or move the transactions that hold them", owner: "target",
		gains: faster(c.split.Share(tidemark.WaitLock)), sure: Likely, cost: "those transactions"}
}

// deadlocks: retries cost what they were to gain.
func deadlocks(f *StreamFacts) *reason {
	if f.Waits.Retried < 10 || f.part(f.Waits.Retried) < 0.01 {
		return nil
	}
	_, c := sideOf(f.Servers, "Agent")
	r := &reason{evidence: fmt.Sprintf("%s of %s transactions were retried after deadlocks and similar errors (%.1f%%)", grouped(f.Waits.Retried), grouped(f.Transactions), 100*f.part(f.Waits.Retried)),
		conclusion: "Deadlocks on the target cost retries: the agents, or others, lock rows or index gaps in different orders.",
		setting:    "--agents", owner: "tidemark", now: fmt.Sprint(f.Agents), try: fmt.Sprint(max(1, f.Agents/2)), sure: Possible, gains: "fewer retries", cost: "less at the same time"}
	if n, ok := c.Counters[tidemark.Deadlocks]; ok {
		r.evidence += fmt.Sprintf("; the server counted %.0f deadlocks in %s", n, secs(c.Took))
	}
	return r
}

// streamProcessors: nothing is gained by more agents.
func streamProcessors(f *StreamFacts) *reason {
	c := f.agents()
	evidence := c.processors()
	if !f.loaded() || evidence == "" {
		return nil
	}
	return &reason{evidence: evidence, conclusion: fmt.Sprintf("Nothing to gain here from more agents: the target's %d processors are full.", c.machine.Processors),
		setting: "Use more or faster processors", owner: "hardware", gains: faster(c.split.Share(tidemark.WaitProcessor)), sure: Likely, cost: "another machine"}
}

// streamLogSyncs: commits wait for the log's disk.
func streamLogSyncs(f *StreamFacts) *reason {
	c := f.agents()
	kinds := []tidemark.WaitKind{tidemark.WaitLogSync, tidemark.WaitLogWrite}
	share := c.split.Share(kinds...)
	if share < 0.2 {
		return nil
	}
	r := &reason{evidence: c.evidence(kinds...), conclusion: "The target's log limits: commits wait until it is on disk.", owner: "target", gains: faster(share), sure: Likely}
	switch {
	case !f.Batches && f.part(f.Rows) < 20:
		r.setting, r.owner, r.now, r.try = "--commit-count", "tidemark", "0", "10"
		r.evidence += fmt.Sprintf("; a transaction has %.1f rows", f.part(f.Rows))
		r.gains = "ten transactions share a commit: " + faster(share*0.9)
		r.cost = "they become visible together"
	case c.fewerSyncs(r, "a crash of the target's machine may lose its last second of transactions, also those of others"):
	default:
		r.setting, r.owner, r.cost = "Put the log on a faster disk", "hardware", "a disk"
	}
	return r
}

// streamCheckpoints: the target's log is too small for what is applied.
func streamCheckpoints(f *StreamFacts) *reason {
	c := f.agents()
	r := forcedCheckpoints(c)
	if r == nil {
		return nil
	}
	r.sure, r.gains, r.try = Likely, "up to that many full pages of 8 kB less to write", ""
	timeout := 5 * time.Minute // the default of checkpoint_timeout
	if rate, ok := c.server.Rate(tidemark.LogBytes); ok {
		r.try = fmt.Sprintf("%d GB", max(2, int(rate*timeout.Seconds()*2/(1<<30))+1)) // a checkpoint begins at about half
	}
	return r
}

// streamDisk: the disk under the target's tables limits.
func streamDisk(f *StreamFacts) *reason {
	c := f.agents()
	reads, writes := c.split.Share(tidemark.WaitDataRead), c.split.Share(tidemark.WaitDataWrite, tidemark.WaitDisk)
	switch {
	case reads >= 0.3 && reads >= writes:
		return &reason{evidence: c.evidence(tidemark.WaitDataRead) + c.rates(tidemark.Reads, tidemark.ReadBytes),
			conclusion: "The agents read rows and indexes from the target's disk: they do not fit into its memory.", setting: "--agents", owner: "tidemark",
			now: fmt.Sprint(f.Agents), try: fmt.Sprint(2 * f.Agents), gains: "twice as many requests side by side: " + faster(reads/2), sure: Possible, cost: "more load on that disk"}
	case writes >= 0.3:
		return &reason{evidence: c.evidence(tidemark.WaitDataWrite, tidemark.WaitDisk) + c.rates(tidemark.Writes, tidemark.WriteBytes), conclusion: "Writing to the target's disk limits.",
			setting: "Use a disk with more requests or bytes a second", owner: "hardware", gains: faster(writes), sure: Likely, cost: "a faster volume"}
	}
	return nil
}

// batches: small transactions cost more than their rows.
func batches(f *StreamFacts) *reason {
	if !f.loaded() || f.Batches || f.Behind < 5 || f.Transactions == 0 || f.part(f.Rows) >= 20 {
		return nil
	}
	return &reason{evidence: fmt.Sprintf("a transaction has %.1f rows; %.0f a second are captured, and the target is %.0f s behind", f.part(f.Rows), float64(f.Transactions)/max(f.Seconds, 1), f.Behind),
		conclusion: "The source's transactions are small: what each costs beside its rows limits.", setting: "--apply-mode", owner: "tidemark", now: "transactional", try: "batch",
		gains: "one commit and one statement for many transactions", sure: Likely, cost: "transactions become visible in groups"}
}

// agentsFew: all of them are busy, and the target is not.
func agentsFew(f *StreamFacts) *reason {
	c := f.agents()
	if f.Batches || f.Agents == 0 || f.Busy <= 0.85*float64(f.Agents) || c.machine != nil && c.split.Here && c.machine.Busy >= full || c.split.Share(tidemark.WaitLock, tidemark.WaitDataWrite, tidemark.WaitDisk) >= 0.2 {
		return nil
	}
	r := &reason{evidence: fmt.Sprintf("%.1f of %d agents are always busy", f.Busy, f.Agents), conclusion: "There are too few agents.", setting: "--agents", owner: "tidemark",
		now: fmt.Sprint(f.Agents), try: fmt.Sprint(min(128, 2*f.Agents)), sure: Possible, gains: "at most twice the rate, if the target has processor and disk to spare", cost: "a session of the target for each"}
	if f.RoundTrip >= 1 && f.InTransit >= f.Busy/2 {
		r.evidence += fmt.Sprintf("; %.1f of them wait for a round trip of %.1f ms", f.InTransit, f.RoundTrip)
		r.sure = Likely
	}
	return r
}

// agentsIdle: most of them have nothing to do.
func agentsIdle(f *StreamFacts) *reason {
	if f.Batches || f.Agents < 8 || f.Transactions < 1000 || f.Behind >= 1 || f.Busy > float64(f.Agents)/4 {
		return nil
	}
	want := max(4, int(2*f.Busy)+1)
	return &reason{evidence: fmt.Sprintf("%.1f of %d agents are busy, and the target is %.1f s behind", f.Busy, f.Agents, f.Behind), conclusion: "Fewer agents would do.", setting: "--agents",
		owner: "tidemark", now: fmt.Sprint(f.Agents), try: fmt.Sprint(want), gains: fmt.Sprintf("%d sessions of the target", f.Agents-want), sure: Likely, cost: "less reserve for peaks"}
}

// smallMessages: the queue is busy with syncs, not with bytes.
func smallMessages(f *StreamFacts) *reason {
	q := f.Queue
	took := time.Duration(f.Seconds * float64(time.Second))
	if !f.Durable || q.Messages < 100 || took <= 0 || float64(q.Putting) < 0.7*float64(took) || q.Bytes/q.Messages >= 32<<10 {
		return nil
	}
	size := q.Bytes / q.Messages
	try := max(10*time.Millisecond, (took / time.Duration(q.Messages) * 4).Round(time.Millisecond))
	return &reason{evidence: fmt.Sprintf("%s messages of %s bytes; writing and syncing each took %.1f ms, %.0f%% of the time", grouped(q.Messages), grouped(size), q.Putting.Seconds()*1000/float64(q.Messages), 100*float64(q.Putting)/float64(took)),
		conclusion: "Messages of the queue are small: its syncs limit, not its bytes.", setting: "--commit-interval", owner: "tidemark", now: f.Interval.String(), try: try.String(),
		gains: "a quarter of the messages, and of their syncs", sure: Likely, cost: fmt.Sprintf("up to %s of latency", try)}
}

// commitInterval: latency that was asked for.
func commitInterval(f *StreamFacts) *reason {
	ms := float64(f.Interval.Milliseconds())
	if ms == 0 || f.EndToEnd <= 0 || f.Capture < ms/3 || f.Capture < f.EndToEnd/3 || f.Behind >= 5 {
		return nil
	}
	return &reason{evidence: fmt.Sprintf("%.0f of %.0f ms from commit to commit pass before the queue has a transaction; --commit-interval is %s", f.Capture, f.EndToEnd, f.Interval),
		conclusion: "Most of the latency is the wait for the next message of the queue.", setting: "--commit-interval", owner: "tidemark", now: f.Interval.String(), try: (f.Interval / 4).String(),
		gains: fmt.Sprintf("about %.0f ms of latency", ms/2*3/4), sure: Certain, cost: "four times as many messages and syncs"}
}

// sourceDecodes: the server's sender is one process, and full.
func sourceDecodes(f *StreamFacts) *reason {
	s, _ := sideOf(f.Servers, "Capture")
	work := s.Share(tidemark.WaitCPU, tidemark.WaitProcessor)
	if work < 0.7 || f.Behind < 1 {
		return nil
	}
	return &reason{evidence: fmt.Sprintf("the source's sender worked %.0f%% of the time", 100*work), conclusion: "The source limits: one of its processes decodes the log, and is busy with that.",
		setting: "Leave tables with many changes out of the stream, where they are not needed", owner: "tidemark", gains: "their share of the changes", sure: Possible, cost: "they are not replicated"}
}

// sourceReads: the log is no longer in the source's memory.
func sourceReads(f *StreamFacts) *reason {
	s, _ := sideOf(f.Servers, "Capture")
	if share := s.Share(tidemark.WaitDataRead); share >= 0.3 {
		return &reason{evidence: fmt.Sprintf("%.0f%% of the capture's waiting was for the source to read its log from disk", 100*share), conclusion: "The source's log is read from its disk, since it is old: the stream is behind.",
			setting: "Put the source's log on a faster disk", owner: "hardware", gains: fmt.Sprintf("at most 1 / (1 - %.2f) = %.1f times the rate", share, 1/max(0.05, 1-share)), sure: Likely, cost: "a disk; nothing once the stream has caught up"}
	}
	return nil
}

// spilled: transactions do not fit into memory.
func spilled(f *StreamFacts) *reason {
	s, _ := sideOf(f.Servers, "Capture")
	if share := s.Share(tidemark.WaitTemp); share >= 0.15 {
		return &reason{evidence: fmt.Sprintf("%.0f%% of the capture's waiting was for files to which the source spills transactions", 100*share), conclusion: "Transactions do not fit into the memory in which the source decodes them.",
			setting: "Raise logical_decoding_work_mem", owner: "source", gains: "these files", sure: Likely, cost: "that much memory for each stream"}
	}
	if f.Waits.Spilled+f.Waits.Alone < 2 {
		return nil
	}
	r := &reason{evidence: fmt.Sprintf("%s transactions went to files before their commit, and %s were too large to be applied beside others", grouped(f.Waits.Spilled), grouped(f.Waits.Alone)),
		conclusion: "Transactions do not fit into memory.", setting: "--apply-memory", owner: "tidemark", sure: Possible, gains: "others are applied beside them", cost: "that much memory here"}
	if f.Waits.Spilled > f.Waits.Alone {
		r.setting, r.gains = "--capture-memory", "these files"
	}
	return r
}

// oldTransaction: it keeps the source's log.
func oldTransaction(f *StreamFacts) *reason {
	if !engine.Of(f.Source).KeepsLog || f.Open < 10*time.Minute || f.LogKept < 64<<20 {
		return nil
	}
	return &reason{evidence: fmt.Sprintf("a transaction of %s has been open for %s; the source keeps %s of its log", f.OpenBy, f.Open.Round(time.Minute), size(f.LogKept)),
		conclusion: "An old transaction makes the source keep its log: a stream that starts again reads all of that.", setting: "End that transaction", owner: "source", gains: "that log", sure: Certain, cost: "the transaction"}
}

// changedColumns: unchanged columns are carried along.
func changedColumns(f *StreamFacts) *reason {
	h := f.Hot
	row := f.Bytes / max(f.Rows, 1)
	if f.ChangedOnly || f.Source == "" || h.Columns < 20 || h.Updates < 0.5 || h.Changes < 0.3 || row < 300 || !f.Durable && f.RoundTrip < 1 {
		return nil
	}
	return &reason{evidence: fmt.Sprintf("%.0f%% of the changes of %s, which has %d columns, are updates; a change takes %s bytes", 100*h.Updates, h.Table, h.Columns, grouped(row)),
		conclusion: "Updates carry all columns of a wide table.", setting: "--changed-columns", owner: "tidemark", now: "off", try: "on", gains: "most of the bytes of the queue, if updates change few columns", sure: Possible,
		cost: "processor time of the capture; conflicts cannot be judged by columns that did not change"}
}

// uniqueIndexes: each is looked at for each row.
func uniqueIndexes(f *StreamFacts) *reason {
	if h := f.Hot; f.loaded() && h.Unique >= 4 && h.Changes >= 0.3 {
		return &reason{evidence: fmt.Sprintf("%s, which has %.0f%% of the changes, has %d unique indexes", h.Table, 100*h.Changes, h.Unique), conclusion: "Each unique index of a table is one more reason for transactions to wait, and one more page to read.",
			setting: "Make those non-unique that only the source has to check", owner: "target", gains: "their part of the waiting", sure: Possible, cost: "the target no longer checks what the source has checked"}
	}
	return nil
}

// ExplainStream returns what can be done for a stream, and why.
func ExplainStream(f StreamFacts) []Advice {
	var out []Advice
	changed := map[string]bool{} // settings that have a new value already
	for _, rule := range streamRules {
		r := rule.look(&f)
		if r == nil || changed[r.setting] {
			continue
		}
		changed[r.setting] = true
		a := r.advice(rule.name)
		a.Gain = r.gains
		out = append(out, a)
	}
	return out
}
