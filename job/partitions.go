package job

import (
	"context"
	"regexp"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ddl"
)

const nameInSQL = "(?:`(?:[^`]|``)+`|[^\\s`.(]+)"

// newPartitions finds what ALTER TABLE of MySQL or MariaDB does that makes room for rows.
var newPartitions = regexp.MustCompile(`(?is)^\s*ALTER\s+(?:ONLINE\s+|IGNORE\s+)*TABLE\s+(?:IF\s+EXISTS\s+)?` + nameInSQL + `(?:\s*\.\s*` + nameInSQL + `)?\s+((?:ADD|REORGANIZE)\s+PARTITION\b.*)$`)

// A partitioner is a target that takes over such a change.
type partitioner interface {
	ChangePartitions(ctx context.Context, id tidemark.TableID, words string) error
}

// partitioned gives the target's tables the partitions that a statement has made on the source. One that does not take
// them stops.
func (b *binder) partitioned(d *tidemark.DDL) error {
	words := newPartitions.FindStringSubmatch(d.SQL)
	to, ok := b.r.tgt.(partitioner)
	if words == nil || !ok || b.decide(ddl.NewPartition).Verdict != ddl.Goes {
		return nil
	}
	for _, id := range d.Tables {
		m := b.moves[id]
		if m == nil || !b.subs.wants(id) {
			continue
		}
		err := to.ChangePartitions(b.ctx, clipID(b.r.tgt, m.To.TableID), words[1])
		if k := tidemark.KindOf(err); err != nil && (k == tidemark.Transient || k == tidemark.Cancelled) {
			return err
		}
		if err != nil {
			if err := b.subs.stop(b.ctx, id, b.stops(id, ddl.FillPartition, "", "has new partitions, which the target does not take: "+reasonOf(err))); err != nil {
				return err
			}
			b.again()
			continue
		}
		b.r.env.Watch.Event(Event{Time: b.r.env.now(), Kind: "ddl", Object: m.To.String(), Text: firstLine(words[1])})
	}
	return nil
}
