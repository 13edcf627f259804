package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A stream whose server was replaced by one of its replicas continues by GTID: the journal knows
// the GTIDs of all transactions before the stream's place. Transactions that had a place on the
// previous server and are sent again keep it: the target may have applied some of them. All others
// get places after every existing one.

// A gtidSet is the GTIDs of the transactions up to some point of a log: for MariaDB, the last one
// of each domain.
type gtidSet struct {
	mysql   *gomysql.MysqlGTIDSet
	domains map[string]string
}

func newGTIDSet(text string, mariadb bool) (*gtidSet, error) {
	s := &gtidSet{domains: map[string]string{}}
	if !mariadb {
		set, err := gomysql.ParseMysqlGTIDSet(text)
		if err == nil {
			s.mysql = set.(*gomysql.MysqlGTIDSet)
		}
		return s, err
	}
	for one := range strings.SplitSeq(text, ",") {
		if one == "" {
			continue
		}
		if err := s.add(one); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *gtidSet) add(gtid string) error {
	if s.mysql != nil {
		return s.mysql.Update(gtid)
	}
	domain, _, ok := strings.Cut(gtid, "-")
	if !ok || strings.ContainsAny(gtid, "'\\") {
		return fmt.Errorf("%q is no GTID of MariaDB", gtid)
	}
	s.domains[domain] = gtid
	return nil
}

func (s *gtidSet) String() string {
	if s.mysql != nil {
		return s.mysql.String()
	}
	return strings.Join(slices.Sorted(maps.Values(s.domains)), ",")
}

// allGTIDs reports whether each transaction of the log has a GTID.
func (e *Source) allGTIDs(ctx context.Context) (bool, error) {
	if e.MariaDB {
		return true, nil
	}
	rows, err := e.Ask(ctx, "SELECT @@GLOBAL.gtid_mode")
	return err == nil && len(rows) > 0 && rows[0][0] == "ON", err
}

// A moving is the state of a stream that continues on another server.
type moving struct {
	set   *gtidSet
	again map[string]namedTx // transactions that will be sent again, by GTID
}

// isOther reports whether the server is not the one that wrote the file at the stream's place. A
// server whose server_id was changed still has its files.
func (s *cursor) isOther(ctx context.Context, h logHead, files []server.LogFile) (bool, error) {
	rows, err := s.e.Ask(ctx, "SELECT @@GLOBAL.server_id")
	if err != nil || len(rows) == 0 || rows[0][0] == strconv.FormatUint(uint64(h.server), 10) {
		return false, err
	}
	for _, f := range files {
		if f.Number == h.number {
			now, err := s.e.headOf(ctx, f.Name)
			return now != h, err
		}
	}
	return true, nil
}

// find returns the server's file in which the stream continues, and sets the position in it; ""
// means by GTID.
func (s *cursor) find(ctx context.Context, after uint64, files []server.LogFile) (string, error) {
	j := s.journal
	key := uint32(after >> 32)
	h, known := j.head[key]
	if !known {
		h.number = key - j.base
	}
	if known {
		if other, err := s.isOther(ctx, h, files); err != nil {
			return "", err
		} else if other || key-h.number != j.base { // or the server was another one in between
			return "", s.move(ctx, after, files)
		}
	} else if err := s.follows(ctx, after, files); err != nil {
		return "", err
	}
	s.base, s.file, s.pos = key-h.number, h.number, after&math.MaxUint32
	at := slices.IndexFunc(files, func(f server.LogFile) bool { return f.Number == h.number })
	switch {
	case at < 0:
		return "", &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: s.name, Err: fmt.Errorf("the server no longer has file %d of its log; the oldest is %s", h.number, files[0].Name), Hint: "Copy again, and let the source keep its log longer (binlog_expire_logs_seconds)."}
	case files[at].Size < s.pos:
		return "", &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: s.name, Err: fmt.Errorf("%s of the server's log ends before position %d", files[at].Name, s.pos), Hint: "The source's binlogs were reset, or this is another server: copy again."}
	}
	return files[at].Name, nil
}

// follows checks whether files of the server are those of the journal if the journal does not know
// the file at a place: after a file of more than 4 GB.
func (s *cursor) follows(ctx context.Context, after uint64, files []server.LogFile) error {
	heads := s.journal.head
	if len(heads) == 0 {
		return nil
	}
	was := heads[uint32(after>>32)-1]
	for _, f := range files {
		if f.Number != was.number || after&math.MaxUint32 != 4 {
			continue
		}
		if h, err := s.e.headOf(ctx, f.Name); err != nil || h == was {
			return err
		}
	}
	return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: s.name, Err: fmt.Errorf("it is not known whether the server's log is the one that the stream read at %s", server.PlaceText(after)), Hint: "Copy again."}
}

// move prepares to continue by GTID on another server.
func (s *cursor) move(ctx context.Context, after uint64, files []server.LogFile) error {
	lost := func(why, hint string) error {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: s.name, Err: errors.New("this is not the server that the stream comes from, and " + why), Hint: hint}
	}
	j := s.journal
	all, err := s.e.allGTIDs(ctx)
	if err != nil {
		return err
	}
	if !all || !j.gtids {
		return lost("transactions have no GTIDs to continue from", "Copy again. For the next time: gtid_mode=ON on both servers before the stream is set up.")
	}
	needs, err := s.e.needs(ctx)
	if err == nil {
		err = tidemark.FirstUnmet("follow", needs)
	}
	if err != nil {
		return err
	}
	if after > j.read {
		return lost("the GTIDs of the last transactions that the target, or the queue, has are not known: this machine went down when they were written", "Copy again.")
	}
	m := &moving{again: map[string]namedTx{}}
	if m.set, err = j.before(after, s.e.MariaDB); err != nil {
		return lost("its GTIDs are of another kind: "+err.Error(), "Copy again.")
	}
	has, err := s.e.executed(ctx)
	if err != nil {
		return err
	}
	if !has(m.set.String()) {
		return lost("lacks transactions that the target, or the queue, has: up to "+m.set.String(), "Copy again: the replica was behind when its source was lost.")
	}
	base, lines := j.base, []byte(nil)
	if other, err := s.isOther(ctx, j.head[j.last], files); err != nil {
		return err
	} else if other { // and it was not tried before
		base = j.last + 2
		lines = fmt.Appendf(lines, "B %d\n", base)
	}
	for _, tx := range j.txs {
		switch {
		case tx.place < after:
		case has(tx.gtid):
			m.again[tx.gtid] = tx
		case slices.Contains(s.e.appliedPlaces(), tx.place):
			return lost("lacks the transaction "+tx.gtid+", which the target has", "Copy again: the replica was behind when its source was lost.")
		default:
			lines = fmt.Appendf(lines, "U %d\n", tx.place)
		}
	}
	j.base, s.base, s.moving = base, base, m
	j.history.Revoke(after + 1)
	j.columns.Revoke(after + 1)
	lines = fmt.Appendf(lines, "V %d\n", after+1)
	s.file, s.pos = 0, 4 // the server chooses where to begin
	s.e.Options.Warn(tidemark.Finding{Severity: tidemark.Note, Object: s.name, Text: "resumes by GTID on another server, after " + m.set.String()})
	return j.sync(lines)
}

// executed returns a function that reports whether the server's log has, or had, transactions: a
// GTID or a set of them.
func (e *Source) executed(ctx context.Context) (func(string) bool, error) {
	if e.MariaDB {
		return e.executedMariaDB(ctx)
	}
	rows, err := e.Ask(ctx, "SELECT @@GLOBAL.gtid_executed")
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return among(rows[0][0])
}

// among returns a function that reports whether a set of MySQL's GTIDs, as the server writes it,
// has transactions: a GTID or a set of them.
func among(text string) (func(string) bool, error) {
	all, err := gomysql.ParseMysqlGTIDSet(strings.ReplaceAll(text, "\n", ""))
	if err != nil {
		return nil, err
	}
	return func(gtid string) bool {
		one, err := gomysql.ParseMysqlGTIDSet(gtid)
		return err == nil && all.Contain(one)
	}, nil
}

// executedMariaDB knows the last transaction of each server in the log. The log lacks those that a
// replica was set up with: for servers that the log does not name, the server itself reports
// whether it knows them when the stream requests what follows.
func (e *Source) executedMariaDB(ctx context.Context) (func(string) bool, error) {
	rows, err := e.Ask(ctx, "SELECT @@GLOBAL.gtid_binlog_state")
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	last := lastOfEach(rows[0][0])
	return func(set string) bool {
		for one := range strings.SplitSeq(set, ",") {
			origin, n := splitGTID(one)
			if most, known := last[origin]; known && n > most {
				return false
			}
		}
		return true
	}, nil
}

// lastOfEach gives the number of the last transaction of each server in a list of MariaDB's GTIDs,
// by domain and server as in "0-1".
func lastOfEach(list string) map[string]uint64 {
	last := map[string]uint64{}
	for one := range strings.SplitSeq(list, ",") {
		origin, n := splitGTID(one)
		last[origin] = n
	}
	return last
}

// splitGTID gives domain and server of a GTID of MariaDB, and its number.
func splitGTID(gtid string) (origin string, n uint64) {
	at := strings.LastIndexByte(gtid, '-')
	n, _ = strconv.ParseUint(gtid[at+1:], 10, 64)
	return gtid[:max(at, 0)], n
}

// HasApplied sets which transactions after the stream's start position the target has. Call it
// before Follow.
func (e *Source) HasApplied(places []uint64) {
	e.mu.Lock()
	e.applied = places
	e.mu.Unlock()
}

func (e *Source) appliedPlaces() []uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.applied
}

// beginByGTID requests the log after a set of GTIDs.
func (s *Stream) beginByGTID() error {
	if s.e.MariaDB {
		if _, err := s.s0.Client.Execute("SET @slave_connect_state='" + s.moving.set.String() + "'"); err != nil {
			return err
		}
		return s.dumpFrom("", 4)
	}
	const throughGTID = 4
	set := s.moving.set.mysql.Encode()
	p := binary.LittleEndian.AppendUint16(nil, throughGTID)
	p = binary.LittleEndian.AppendUint32(p, server.ReplicaNumber())
	p = binary.LittleEndian.AppendUint32(p, 0)
	p = binary.LittleEndian.AppendUint64(p, 4)
	p = append(binary.LittleEndian.AppendUint32(p, uint32(len(set))), set...)
	return s.wire.Command(gomysql.COM_BINLOG_DUMP_GTID, string(p))
}

// rename sets a group's place in the stream: the one that it had on the previous server, or the
// current server's own.
func (s *assembly) rename(g *group) error {
	g.place += uint64(s.base) << 32
	if s.moving == nil {
		return nil
	}
	if tx, ok := s.moving.again[g.gtid]; ok {
		delete(s.moving.again, g.gtid)
		g.place, g.end = tx.place, tx.end
		return nil
	}
	if n := len(s.moving.again); n > 0 {
		return &tidemark.Error{Kind: tidemark.Lost, Op: "follow", Object: g.name(), Err: fmt.Errorf("the server has this transaction before %d that came before it on the server that it has replaced", n), Hint: "Copy again, and let replicas keep the order of their source (replica_preserve_commit_order)."}
	}
	return nil
}

// note adds the group that ends here to the journal, and returns its end.
func (s *assembly) note() uint64 {
	g := &s.group
	if g.end == 0 {
		g.end = uint64(s.base)<<32 + s.place()
	}
	s.journal.putTx(namedTx{g.place, g.end, g.gtid})
	return g.end
}
