package mysql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

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
func (e *Engine) Freeze(ctx context.Context, lanes int) (tidemark.Position, error) {
	e.mu.Lock()
	again := e.frozen
	e.mu.Unlock()
	if again {
		return tidemark.Position{}, tidemark.Errorf(tidemark.Bug, "freeze", e.to.masked, "the source is frozen already", "")
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
		err = f.each(func(i int) error { return f.all[i].setMark(ctx) })
	}
	if err != nil {
		f.close()
		return tidemark.Position{}, e.fail("freeze", e.to.masked, err)
	}
	base, err := e.base()
	if pos.Place = placeOf(pos.Text); pos.Place > 0 {
		pos.Place += base
	}
	if err == nil {
		err = e.beginJournal(ctx, pos)
	}
	if err != nil {
		f.close()
		return tidemark.Position{}, e.fail("freeze", e.to.masked, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.reads {
		if s != nil {
			s.close()
		}
	}
	e.holders, e.reads, e.frozen = f.all[:1:1], f.all[1:], true
	return pos, nil
}

// freezing is a Freeze under way.
type freezing struct {
	e    *Engine
	all  []*session // that will be on the view
	lock *session   // holds the lock, if there is one
	once bool       // the view is of rows alone: nothing is held while it is read
}

func (f *freezing) close() {
	for _, s := range f.all {
		if s != nil {
			s.close()
		}
	}
	if f.lock != nil {
		f.lock.close()
	}
}

func (f *freezing) open(ctx context.Context, n int) error {
	f.all = make([]*session, n)
	return f.each(func(i int) (err error) {
		if f.all[i], err = f.e.session(ctx); err != nil {
			return err
		}
		return f.all[i].toRead(ctx)
	})
}

// shrink goes on with the sessions that could be opened, and leaves one of them to whoever else needs one. One holds the view
// and one reads.
func (f *freezing) shrink(err error) error {
	f.all = slices.DeleteFunc(f.all, func(s *session) bool { return s == nil })
	if len(f.all) < 2 {
		return err
	}
	if n := len(f.all) - 1; n >= 2 {
		f.all[n].close()
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
	return f.each(func(i int) error { return f.all[i].exec(ctx, startSnapshot) })
}

func (f *freezing) snapshot(ctx context.Context) (tidemark.Position, error) {
	e := f.e
	if e.opt.Lock == LockAuto {
		pos, ok, err := f.withoutLock(ctx)
		if ok || err != nil {
			return pos, err
		}
	}
	if e.opt.Lock == LockNone {
		return f.hoping(ctx)
	}
	return f.locked(ctx)
}

// withoutLock takes snapshots until they are of one moment, for two seconds. A
// commit that is not written to the binlog would go unnoticed: with filters on the
// binlog it is not tried.
func (f *freezing) withoutLock(ctx context.Context) (pos tidemark.Position, ok bool, err error) {
	e := f.e
	show := e.showPosition()
	r, err := f.all[0].query(ctx, show)
	if err != nil || r.RowNumber() == 0 {
		return pos, false, ctx.Err() // no binlog, or not allowed to see
	}
	for _, col := range []int{2, 3} { // Binlog_Do_DB, Binlog_Ignore_DB
		if cell(r, 0, col) != "" {
			return pos, false, nil
		}
	}
	try := f.tryMySQL
	if e.mariadb {
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
	r, err := s.query(ctx, "SELECT @@GLOBAL.gtid_executed, @@GLOBAL.gtid_mode")
	if err != nil || cell(r, 0, 1) != "ON" {
		return pos, false, err
	}
	before := cell(r, 0, 0)
	if err := f.start(ctx); err != nil {
		return pos, false, err
	}
	if r, err = s.query(ctx, f.e.showPosition()); err != nil {
		return pos, false, err
	}
	text := cell(r, 0, 0) + ":" + cell(r, 0, 1)
	if r, err = s.query(ctx, "SELECT @@GLOBAL.gtid_owned"); err != nil || cell(r, 0, 0) != "" {
		return pos, true, err
	}
	if r, err = s.query(ctx, "SELECT @@GLOBAL.gtid_executed"); err != nil || cell(r, 0, 0) != before {
		return pos, true, err
	}
	gtid := strings.ReplaceAll(before, "\n", "")
	pos = tidemark.Position{Engine: f.e.name, Text: text, GTID: gtid, Stamp: gtid}
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
func snapshotPosition(ctx context.Context, s *session) (at string, err error) {
	for same := 0; same < 5; {
		r, err := s.query(ctx, "SHOW SESSION STATUS LIKE 'binlog_snapshot_%'")
		if err != nil {
			return "", err
		}
		var file, offset string
		for i := range r.RowNumber() {
			switch value := cell(r, i, 1); strings.ToLower(cell(r, i, 0)) {
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
func (e *Engine) describePosition(ctx context.Context, s *session, at string) (tidemark.Position, error) {
	pos := tidemark.Position{Engine: e.name, Text: at, Stamp: at}
	file, offset, _ := strings.Cut(at, ":")
	r, err := s.query(ctx, "SELECT BINLOG_GTID_POS("+literal(file)+","+offset+")")
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
		return after, tidemark.Errorf(tidemark.Invalid, "freeze", f.e.to.masked, "the source was written to while the lanes opened, and no lock was wanted",
			"Stop the writers, or let the source be locked for a moment.")
	}
	return after, err
}

// locked keeps commits out while the snapshots are opened.
func (f *freezing) locked(ctx context.Context) (tidemark.Position, error) {
	e := f.e
	s, err := e.session(ctx)
	if err != nil {
		return tidemark.Position{}, err
	}
	f.lock = s
	asked := time.Now()
	unlock, err := f.insist(ctx, s, asked.Add(e.opt.LockWait))
	if err != nil {
		return tidemark.Position{}, f.lockError(ctx, err)
	}
	err = f.start(ctx)
	var pos tidemark.Position
	if err == nil {
		pos, err = e.position(ctx, s)
	}
	if uerr := s.exec(ctx, unlock); err == nil {
		err = uerr
	}
	if err == nil && e.opt.Lock == LockBackup && !e.mariadb && !f.once {
		e.mu.Lock()
		e.guard = s // that lock lasts until Close
		e.mu.Unlock()
	} else {
		s.close()
	}
	f.lock = nil
	return pos, err
}

// insist asks for the lock again and again, a second or a few at a time. While it
// is asked for, new writers wait; and a transaction that waits in that way may
// hold the row for which a running statement waits, which the lock waits for:
// only giving up lets them go on.
func (f *freezing) insist(ctx context.Context, s *session, until time.Time) (unlock string, err error) {
	for seconds := 1; ; seconds = min(seconds+1, 5) {
		if err := s.exec(ctx, "SET SESSION lock_wait_timeout="+strconv.Itoa(seconds)); err != nil {
			return "", err
		}
		unlock, err = f.takeLock(ctx, s)
		var my *gomysql.MyError
		if !errors.As(err, &my) || my.Code != 1205 || time.Now().After(until) {
			return unlock, err
		}
		if f.e.mariadb && f.e.opt.Lock == LockBackup {
			_ = s.exec(ctx, "BACKUP STAGE END") // the stages before the one that was not to be had
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
func (f *freezing) takeLock(ctx context.Context, s *session) (unlock string, err error) {
	e := f.e
	switch e.opt.Lock {
	case LockTables:
		return "UNLOCK TABLES", f.lockTables(ctx, s)
	case LockBackup:
		if e.mariadb {
			for _, stage := range []string{"START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"} {
				if err := s.exec(ctx, "BACKUP STAGE "+stage); err != nil {
					return "", err
				}
			}
			return "BACKUP STAGE END", nil
		}
		if err := s.exec(ctx, "LOCK INSTANCE FOR BACKUP"); err != nil {
			return "", err
		}
	}
	err = s.exec(ctx, "FLUSH TABLES WITH READ LOCK")
	var my *gomysql.MyError
	if errors.As(err, &my) && kinds[my.Code] == tidemark.Forbidden && e.opt.Lock == LockAuto {
		if f.lockTables(ctx, s) == nil {
			return "UNLOCK TABLES", nil
		}
	}
	return "UNLOCK TABLES", err
}

// lockTables locks all tables of the database, or of all user databases.
func (f *freezing) lockTables(ctx context.Context, s *session) error {
	r, err := s.query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE='BASE TABLE' AND "+f.e.inScope("TABLE_SCHEMA"))
	if err != nil {
		return err
	}
	names := make([]string, r.RowNumber())
	for i := range names {
		schema, _ := r.GetString(i, 0)
		name, _ := r.GetString(i, 1)
		names[i] = table(tidemark.TableID{Schema: schema, Name: name}) + " READ"
	}
	if len(names) == 0 {
		return nil
	}
	return s.exec(ctx, "LOCK TABLES "+strings.Join(names, ","))
}

// inScope is the condition that a schema is the URL's database, or any user
// database where it has none.
func (e *Engine) inScope(column string) string {
	if e.db != "" {
		return column + "=" + literal(e.db)
	}
	return column + " NOT IN ('mysql','sys','information_schema','performance_schema')"
}

// lockError explains why there is no lock: which privilege is missing, or which
// statement was in the way.
func (f *freezing) lockError(ctx context.Context, err error) error {
	e := f.e
	var my *gomysql.MyError
	if !errors.As(err, &my) {
		return err
	}
	out := &tidemark.Error{Op: "freeze", Object: e.to.masked, Err: &serverError{my}}
	out.Kind, out.Hint = e.kindOf(my)
	switch {
	case out.Kind == tidemark.Forbidden && strings.Contains(my.Message, "BACKUP_ADMIN"):
		out.Hint = "GRANT BACKUP_ADMIN, RELOAD ON *.* TO " + e.grantee() + ", or choose another way to lock."
	case out.Kind == tidemark.Forbidden:
		out.Hint = "GRANT RELOAD, REPLICATION CLIENT ON *.* TO " + e.grantee() + " (or LOCK TABLES on the database), or let Tidemark freeze without a lock while nobody writes."
	case my.Code == 1205:
		out.Kind = tidemark.Transient
		out.Err = fmt.Errorf("the global read lock was not to be had within %s%s", e.opt.LockWait, f.inTheWay(ctx))
		out.Hint = "Wait until that statement is over or end it, then try again."
	}
	return out
}

// inTheWay names the statement that has run longest.
func (f *freezing) inTheWay(ctx context.Context) string {
	r, err := f.all[0].query(ctx, "SELECT ID, USER, TIME, LEFT(INFO, 80) FROM information_schema.PROCESSLIST WHERE COMMAND NOT IN ('Sleep','Daemon','Binlog Dump','Binlog Dump GTID') "+
		"AND USER NOT IN ('system user','event_scheduler') AND ID NOT IN (CONNECTION_ID(),"+strconv.FormatUint(uint64(f.lock.id), 10)+") ORDER BY TIME DESC LIMIT 1")
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
func (e *Engine) position(ctx context.Context, s *session) (tidemark.Position, error) {
	pos := tidemark.Position{Engine: e.name}
	r, err := s.query(ctx, e.showPosition())
	var my *gomysql.MyError
	switch {
	case errors.As(err, &my):
		_, hint := e.kindOf(my)
		e.opt.Warn(tidemark.Finding{Severity: tidemark.Note, Object: "source", Text: "its position in the binlog is not known: " + my.Message, Hint: hint})
	case err != nil:
		return pos, err
	case r.RowNumber() > 0:
		file, _ := r.GetString(0, 0)
		offset, _ := r.GetString(0, 1)
		pos.Text = file + ":" + offset
		pos.Stamp = pos.Text
		if e.mariadb {
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

func (e *Engine) showPosition() string {
	if !e.mariadb && e.atLeast(8, 2, 0) {
		return "SHOW BINARY LOG STATUS"
	}
	return "SHOW MASTER STATUS"
}

// counters stands in for a position: InnoDB counts the rows that it writes from
// its start on.
func (e *Engine) counters(ctx context.Context, s *session) (string, error) {
	r, err := s.query(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_rows_inserted','Innodb_rows_updated','Innodb_rows_deleted')")
	if err != nil {
		return "", err
	}
	stamp := "rows"
	for i := range r.RowNumber() {
		v, _ := r.GetString(i, 1)
		stamp += ":" + v
	}
	if r, err = s.query(ctx, "SELECT UNIX_TIMESTAMP() - VARIABLE_VALUE DIV 1 FROM "+e.statusTable()+" WHERE VARIABLE_NAME='Uptime'"); err != nil {
		return stamp, nil // the table may be closed to us, and the counters do without
	}
	if r.RowNumber() > 0 {
		// The start of the server, to the minute: the two clocks are read one after the other.
		start, _ := r.GetInt(0, 0)
		stamp += ":" + strconv.FormatInt((start+30)/60, 10)
	}
	return stamp, nil
}

func (e *Engine) statusTable() string {
	if e.mariadb {
		return "information_schema.GLOBAL_STATUS"
	}
	return "performance_schema.global_status"
}
