package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// A Bulk reads tables as they were at one moment, on many lanes, and fills tables.
type Bulk struct {
	*schema.Schema
	*Ledger

	// whenFrozen is called with the position of a view before Freeze gives it away; nil: nobody wants to know.
	WhenFrozen func(context.Context, tidemark.Position) error

	mu      sync.Mutex
	frozen  bool
	reads   []*server.Session               // reading lanes
	writes  []*server.Session               // writing lanes
	holders []*server.Session               // after Freeze: they keep tables from being altered
	guard   *server.Session                 // after Freeze with LockBackup on MySQL: holds that lock
	shapes  map[tidemark.TableID]tableShape // of target tables, as Write found them
	holdMu  sync.Mutex                      // held while tables are given to holders
}

// New makes the lanes of a server, none of which is open.
func New(s *schema.Schema) *Bulk {
	b := &Bulk{Schema: s, Ledger: &Ledger{server: s.Server}, shapes: map[tidemark.TableID]tableShape{}}
	s.KeepTables = b.hold
	return b
}

// Close ends the lanes; a Write or Read that is under way fails.
func (e *Bulk) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.frozen = false
	for _, list := range [][]*server.Session{e.reads, e.writes, e.holders, {e.guard}} {
		server.CloseAll(list)
	}
	e.reads, e.writes, e.holders, e.guard = nil, nil, nil, nil
}

// Freeze opens the lanes, and one session more, which is to hold the tables (see
// hold), each in a transaction with a consistent snapshot, all of the same moment, and says which
// position in the binlog that moment is. Only transactional tables (InnoDB) are
// part of it: Preflight names the others.
//
// That the snapshots are of one moment is reached in one of these ways:
//
//   - MariaDB with a binlog tells each session the position that its snapshot
//     belongs to. Snapshots are taken again until all say the same; nobody is
//     kept from writing.
//   - MySQL with GTIDs tells which transactions have been committed and which are
//     about to be. Snapshots are taken again until there was no commit meanwhile.
//     On a server too busy for that, of either kind, a lock follows.
//   - FLUSH TABLES WITH READ LOCK, or MariaDB's BACKUP STAGE, keeps commits out
//     for the milliseconds that it takes to open the snapshots. How long that was
//     is logged. To get the lock, running statements are waited for, and writers
//     have to wait too: so it is asked for a second at a time, for Options.LockWait
//     in all.
//   - LOCK TABLES on all tables, where the privilege RELOAD is missing.
//
// Where the server has no binlog Position.Text is empty, and Stamp is made of
// InnoDB's counters of rows written.
func (e *Bulk) Freeze(ctx context.Context, lanes int) (tidemark.Position, error) {
	e.mu.Lock()
	again := e.frozen
	e.mu.Unlock()
	if again {
		return tidemark.Position{}, &tidemark.Error{Kind: tidemark.Bug, Op: "freeze", Object: e.Masked, Err: errors.New("the source is frozen already")}
	}
	f := &freezing{e: e}
	err := f.open(ctx, lanes+1)
	if errors.Is(err, tidemark.ErrNoConnection) {
		err = f.shrink(err)
	}
	if err != nil {
		f.close()
		return tidemark.Position{}, err
	}
	pos, err := f.snapshot(ctx)
	if err == nil {
		err = f.each(func(i int) error { return setMark(ctx, f.all[i]) })
	}
	if err != nil {
		f.close()
		return tidemark.Position{}, e.Fail("freeze", e.Masked, err)
	}
	base, err := e.Base()
	if pos.Place = server.PlaceOf(pos.Text); pos.Place > 0 {
		pos.Place += base
	}
	if err == nil && e.WhenFrozen != nil {
		err = e.WhenFrozen(ctx, pos)
	}
	if err != nil {
		f.close()
		return tidemark.Position{}, e.Fail("freeze", e.Masked, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.reads {
		if s != nil {
			s.Close()
		}
	}
	e.holders, e.reads, e.frozen = f.all[:1:1], f.all[1:], true
	return pos, nil
}

// freezing is a Freeze under way.
type freezing struct {
	e    *Bulk
	all  []*server.Session // that will be on the view
	lock *server.Session   // holds the lock, if there is one
	once bool              // the view is of rows alone: nothing is held while it is read
}

func (f *freezing) close() {
	for _, s := range f.all {
		if s != nil {
			s.Close()
		}
	}
	if f.lock != nil {
		f.lock.Close()
	}
}

func (f *freezing) open(ctx context.Context, n int) error {
	f.all = make([]*server.Session, n)
	return f.each(func(i int) (err error) {
		if f.all[i], err = f.e.NewSession(ctx); err != nil {
			return err
		}
		return toRead(ctx, f.all[i])
	})
}

// shrink goes on with the sessions that could be opened, and leaves one of them to whoever else needs one. One holds the view
// and one reads.
func (f *freezing) shrink(err error) error {
	f.all = slices.DeleteFunc(f.all, func(s *server.Session) bool { return s == nil })
	if len(f.all) < 2 {
		return err
	}
	if n := len(f.all) - 1; n >= 2 {
		f.all[n].Close()
		f.all = f.all[:n]
	}
	return nil
}

// each runs do for all sessions at once.
func (f *freezing) each(do func(i int) error) error {
	errs := make([]error, len(f.all))
	var wg crash.Group
	for i := range f.all {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

const startSnapshot = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"

func (f *freezing) start(ctx context.Context) error {
	return f.each(func(i int) error { return f.all[i].Exec(ctx, startSnapshot) })
}

func (f *freezing) snapshot(ctx context.Context) (tidemark.Position, error) {
	e := f.e
	if e.Options.Lock == server.LockAuto {
		pos, ok, err := f.withoutLock(ctx)
		if ok || err != nil {
			return pos, err
		}
	}
	if e.Options.Lock == server.LockNone {
		return f.hoping(ctx)
	}
	return f.locked(ctx)
}

// withoutLock takes snapshots until they are of one moment, for two seconds. A
// commit that is not written to the binlog would go unnoticed: with filters on the
// binlog it is not tried.
func (f *freezing) withoutLock(ctx context.Context) (pos tidemark.Position, ok bool, err error) {
	e := f.e
	show := e.ShowPosition()
	r, err := f.all[0].Query(ctx, show)
	if err != nil || r.RowNumber() == 0 {
		return pos, false, ctx.Err() // no binlog, or not allowed to see
	}
	for _, col := range []int{2, 3} { // Binlog_Do_DB, Binlog_Ignore_DB
		if server.Cell(r, 0, col) != "" {
			return pos, false, nil
		}
	}
	try := f.tryMySQL
	if e.MariaDB {
		try = f.tryMariaDB
	}
	for start := time.Now(); time.Since(start) < 2*time.Second; {
		pos, again, err := try(ctx)
		if err != nil || !again {
			return pos, pos.Text != "", err
		}
	}
	return pos, false, nil
}

// tryMariaDB takes a snapshot on each session; again means that they differ.
func (f *freezing) tryMariaDB(ctx context.Context) (pos tidemark.Position, again bool, err error) {
	if err := f.start(ctx); err != nil {
		return pos, false, err
	}
	var first string
	for _, s := range f.all {
		at, err := snapshotPosition(ctx, s)
		if err != nil || at == "" {
			return pos, false, err
		}
		if first == "" {
			first = at
		}
		if at != first {
			return pos, true, nil
		}
	}
	pos, err = f.e.describePosition(ctx, f.all[0], first)
	return pos, false, err
}

// tryMySQL takes a snapshot on each session; again means that there may have been
// a commit meanwhile.
//
// A transaction owns its GTID from before it is written to the binlog until after
// it is committed in InnoDB, when the GTID passes from gtid_owned to gtid_executed
// at once. So if one had become visible between two of the snapshots, it would
// afterwards be in gtid_owned still, or else be new in gtid_executed, which is
// therefore read last. And where the position is read before gtid_owned is empty,
// all that the binlog has before it is in gtid_executed too.
func (f *freezing) tryMySQL(ctx context.Context) (pos tidemark.Position, again bool, err error) {
	s := f.all[0]
	r, err := s.Query(ctx, "SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_mode")
	if err != nil || server.Cell(r, 0, 1) != "ON" {
		return pos, false, err
	}
	before := server.Cell(r, 0, 0)
	if err := f.start(ctx); err != nil {
		return pos, false, err
	}
	if r, err = s.Query(ctx, f.e.ShowPosition()); err != nil {
		return pos, false, err
	}
	text := server.Cell(r, 0, 0) + ":" + server.Cell(r, 0, 1)
	if r, err = s.Query(ctx, "SELECT @@GLOBAL.gtid_owned"); err != nil || server.Cell(r, 0, 0) != "" {
		return pos, true, err
	}
	if r, err = s.Query(ctx, "SELECT @@GLOBAL.gtid_executed"); err != nil || server.Cell(r, 0, 0) != before {
		return pos, true, err
	}
	gtid := strings.ReplaceAll(before, "\n", "")
	pos = tidemark.Position{Engine: f.e.Name(), Text: text, GTID: gtid, Stamp: gtid}
	if gtid == "" {
		pos.Stamp = text
	}
	return pos, false, nil
}

// snapshotPosition is where in the binlog a MariaDB session's snapshot is.
//
// The server copies the answer through one variable for all sessions, without a
// lock: SHOW STATUS in another session at the same microsecond, of a monitor or of
// another lane, puts its own position there (10.11: one reading of 40 where four
// sessions do nothing else). So it counts once it has been read five times running.
func snapshotPosition(ctx context.Context, s *server.Session) (at string, err error) {
	for same := 0; same < 5; {
		r, err := s.Query(ctx, "SHOW SESSION STATUS LIKE 'binlog_snapshot_%'")
		if err != nil {
			return "", err
		}
		var file, offset string
		for i := range r.RowNumber() {
			switch value := server.Cell(r, i, 1); strings.ToLower(server.Cell(r, i, 0)) {
			case "binlog_snapshot_file":
				file = value
			case "binlog_snapshot_position":
				offset = value
			}
		}
		if file == "" {
			return "", nil
		}
		if now := file + ":" + offset; now != at {
			at, same = now, 0
		}
		same++
	}
	return at, nil
}

// describePosition completes a MariaDB binlog position with its GTID.
func (e *Bulk) describePosition(ctx context.Context, s *server.Session, at string) (tidemark.Position, error) {
	pos := tidemark.Position{Engine: e.Name(), Text: at, Stamp: at}
	file, offset, _ := strings.Cut(at, ":")
	r, err := s.Query(ctx, "SELECT BINLOG_GTID_POS("+server.Literal(file)+","+offset+")")
	if err != nil {
		return pos, err
	}
	if pos.GTID, _ = r.GetString(0, 0); pos.GTID != "" {
		pos.Stamp = pos.GTID
	}
	return pos, nil
}

// hoping is LockNone: it works where nobody writes, and says so where somebody does.
func (f *freezing) hoping(ctx context.Context) (tidemark.Position, error) {
	before, err := f.e.position(ctx, f.all[0])
	if err != nil {
		return before, err
	}
	if err := f.start(ctx); err != nil {
		return before, err
	}
	after, err := f.e.position(ctx, f.all[0])
	if err == nil && before.Stamp != after.Stamp {
		return after, &tidemark.Error{Kind: tidemark.Invalid, Op: "freeze", Object: f.e.Masked, Err: errors.New("the source was written to while the lanes opened, and no lock was wanted"), Hint: "Stop the writers, or let the source be locked for a moment."}
	}
	return after, err
}

// locked keeps commits out while the snapshots are opened.
func (f *freezing) locked(ctx context.Context) (tidemark.Position, error) {
	e := f.e
	s, err := e.NewSession(ctx)
	if err != nil {
		return tidemark.Position{}, err
	}
	f.lock = s
	asked := time.Now()
	unlock, err := f.insist(ctx, s, asked.Add(e.Options.LockWait))
	if err != nil {
		return tidemark.Position{}, f.lockError(ctx, err)
	}
	err = f.start(ctx)
	var pos tidemark.Position
	if err == nil {
		pos, err = e.position(ctx, s)
	}
	if uerr := s.Exec(ctx, unlock); err == nil {
		err = uerr
	}
	if err == nil && e.Options.Lock == server.LockBackup && !e.MariaDB && !f.once {
		e.mu.Lock()
		e.guard = s // that lock lasts until Close
		e.mu.Unlock()
	} else {
		s.Close()
	}
	f.lock = nil
	return pos, err
}

// insist asks for the lock again and again, a second or a few at a time. While it
// is asked for, new writers wait; and a transaction that waits in that way may
// hold the row for which a running statement waits, which the lock waits for:
// only giving up lets them go on.
func (f *freezing) insist(ctx context.Context, s *server.Session, until time.Time) (unlock string, err error) {
	for seconds := 1; ; seconds = min(seconds+1, 5) {
		if err := s.Exec(ctx, "SET SESSION lock_wait_timeout="+strconv.Itoa(seconds)); err != nil {
			return "", err
		}
		unlock, err = f.takeLock(ctx, s)
		var my *gomysql.MyError
		if !errors.As(err, &my) || my.Code != 1205 || time.Now().After(until) {
			return unlock, err
		}
		if f.e.MariaDB && f.e.Options.Lock == server.LockBackup {
			_ = s.Exec(ctx, "BACKUP STAGE END") // the stages before the one that was not to be had
		}
		select {
		case <-time.After(time.Duration(seconds) * time.Second / 2):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// takeLock takes the strongest lock that is wanted and allowed; unlock is the
// statement that gives it back.
func (f *freezing) takeLock(ctx context.Context, s *server.Session) (unlock string, err error) {
	e := f.e
	switch e.Options.Lock {
	case server.LockTables:
		return "UNLOCK TABLES", f.lockTables(ctx, s)
	case server.LockBackup:
		if e.MariaDB {
			for _, stage := range []string{"START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"} {
				if err := s.Exec(ctx, "BACKUP STAGE "+stage); err != nil {
					return "", err
				}
			}
			return "BACKUP STAGE END", nil
		}
		if err := s.Exec(ctx, "LOCK INSTANCE FOR BACKUP"); err != nil {
			return "", err
		}
	}
	err = s.Exec(ctx, "FLUSH TABLES WITH READ LOCK")
	var my *gomysql.MyError
	if errors.As(err, &my) && server.Kinds[my.Code] == tidemark.Forbidden && e.Options.Lock == server.LockAuto {
		if f.lockTables(ctx, s) == nil {
			return "UNLOCK TABLES", nil
		}
	}
	return "UNLOCK TABLES", err
}

// lockTables locks all tables of the database, or of all user databases.
func (f *freezing) lockTables(ctx context.Context, s *server.Session) error {
	r, err := s.Query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE='BASE TABLE' AND "+f.e.InScope("TABLE_SCHEMA"))
	if err != nil {
		return err
	}
	names := make([]string, r.RowNumber())
	for i := range names {
		schema, _ := r.GetString(i, 0)
		name, _ := r.GetString(i, 1)
		names[i] = server.QuoteTable(tidemark.TableID{Schema: schema, Name: name}) + " READ"
	}
	if len(names) == 0 {
		return nil
	}
	return s.Exec(ctx, "LOCK TABLES "+strings.Join(names, ","))
}

// lockError explains why there is no lock: which privilege is missing, or which
// statement was in the way.
func (f *freezing) lockError(ctx context.Context, err error) error {
	e := f.e
	var my *gomysql.MyError
	if !errors.As(err, &my) {
		return err
	}
	out := &tidemark.Error{Op: "freeze", Object: e.Masked, Err: server.Said(my)}
	out.Kind, out.Hint = e.KindOf(my)
	switch {
	case out.Kind == tidemark.Forbidden && strings.Contains(my.Message, "BACKUP_ADMIN"):
		out.Hint = "GRANT BACKUP_ADMIN, RELOAD ON *.* TO " + e.Grantee() + ", or choose another way to lock."
	case out.Kind == tidemark.Forbidden:
		out.Hint = "GRANT RELOAD, REPLICATION CLIENT ON *.* TO " + e.Grantee() + " (or LOCK TABLES on the database), or let Tidemark freeze without a lock while nobody writes."
	case my.Code == 1205:
		out.Kind = tidemark.Transient
		out.Err = fmt.Errorf("the global read lock was not to be had within %s%s", e.Options.LockWait, f.inTheWay(ctx))
		out.Hint = "Wait until that statement is over or end it, then try again."
	}
	return out
}

// inTheWay names the statement that has run longest.
func (f *freezing) inTheWay(ctx context.Context) string {
	r, err := f.all[0].Query(ctx, "SELECT ID, USER, TIME, LEFT(INFO, 80) FROM information_schema.PROCESSLIST WHERE COMMAND NOT IN ('Sleep','Daemon','Binlog Dump','Binlog Dump GTID') "+
		"AND USER NOT IN ('system user','event_scheduler') AND ID NOT IN (CONNECTION_ID(),"+strconv.FormatUint(uint64(f.lock.ID), 10)+") ORDER BY TIME DESC LIMIT 1")
	if err != nil || r.RowNumber() == 0 {
		return ""
	}
	id, _ := r.GetString(0, 0)
	user, _ := r.GetString(0, 1)
	secs, _ := r.GetString(0, 2)
	info, _ := r.GetString(0, 3)
	return fmt.Sprintf(": connection %s of %s has run for %s s: %s", id, user, secs, info)
}

// position asks where the server's log stands.
func (e *Bulk) position(ctx context.Context, s *server.Session) (tidemark.Position, error) {
	pos := tidemark.Position{Engine: e.Name()}
	r, err := s.Query(ctx, e.ShowPosition())
	var my *gomysql.MyError
	switch {
	case errors.As(err, &my):
		_, hint := e.KindOf(my)
		e.Options.Warn(tidemark.Finding{Severity: tidemark.Note, Object: "source", Text: "its position in the binlog is not known: " + my.Message, Hint: hint})
	case err != nil:
		return pos, err
	case r.RowNumber() > 0:
		file, _ := r.GetString(0, 0)
		offset, _ := r.GetString(0, 1)
		pos.Text = file + ":" + offset
		pos.Stamp = pos.Text
		if e.MariaDB {
			return e.describePosition(ctx, s, pos.Text)
		}
		if pos.GTID, _ = r.GetStringByName(0, "Executed_Gtid_Set"); pos.GTID != "" {
			pos.GTID = strings.ReplaceAll(pos.GTID, "\n", "")
			pos.Stamp = pos.GTID
		}
		return pos, nil
	}
	pos.Stamp, err = e.counters(ctx, s)
	return pos, err
}

// counters stands in for a position: InnoDB counts the rows that it writes from
// its start on.
func (e *Bulk) counters(ctx context.Context, s *server.Session) (string, error) {
	r, err := s.Query(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_rows_inserted','Innodb_rows_updated','Innodb_rows_deleted')")
	if err != nil {
		return "", err
	}
	stamp := "rows"
	for i := range r.RowNumber() {
		v, _ := r.GetString(i, 1)
		stamp += ":" + v
	}
	if r, err = s.Query(ctx, "SELECT UNIX_TIMESTAMP() - VARIABLE_VALUE DIV 1 FROM "+e.StatusTable()+" WHERE VARIABLE_NAME='Uptime'"); err != nil {
		return stamp, nil // the table may be closed to us, and the counters do without
	}
	if r.RowNumber() > 0 {
		// The start of the server, to the minute: the two clocks are read one after the other.
		start, _ := r.GetInt(0, 0)
		stamp += ":" + strconv.FormatInt((start+30)/60, 10)
	}
	return stamp, nil
}
