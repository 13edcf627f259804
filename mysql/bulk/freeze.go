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

// A Bulk reads tables in one consistent snapshot on many lanes, and fills tables.
type Bulk struct {
	*schema.Schema
	*Ledger

	// WhenFrozen is called with the position of a view before Freeze returns it; nil: no callback.
	WhenFrozen func(context.Context, tidemark.Position) error
	// Others are the sides whose sessions are not lanes: each returns whose they are, by their ID.
	// For Doing.
	Others map[tidemark.Side]func() map[uint32]int

	mu      sync.Mutex
	frozen  bool
	reads   []*server.Session // reading lanes
	writes  []*server.Session // writing lanes
	holders []*server.Session // after Freeze: hold metadata locks, so that tables are not altered
	guard   *server.Session   // after Freeze with LockBackup on MySQL: holds that lock
	shapes  shapes            // of target tables, as Write found them
	timed   timed             // what the performance schema has measured
	holdMu  sync.Mutex        // held while tables are assigned to holders
}

// New creates the lanes of a server without opening them.
func New(s *schema.Schema) *Bulk {
	b := &Bulk{Schema: s, Ledger: &Ledger{server: s.Server}, shapes: shapes{map[string]tableShape{}, map[tidemark.TableID]struct{}{}}, Others: map[tidemark.Side]func() map[uint32]int{}}
	s.KeepTables = b.hold
	return b
}

// Close closes the lanes; a running Write or Read fails.
func (e *Bulk) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.frozen = false
	for _, list := range [][]*server.Session{e.reads, e.writes, e.holders, {e.guard}} {
		server.CloseAll(list)
	}
	e.reads, e.writes, e.holders, e.guard = nil, nil, nil, nil
}

// Freeze opens the lanes, and one extra session that will hold the tables (see hold), each in a
// transaction with a consistent snapshot of the same moment, and returns the binlog position of
// that moment. It covers only transactional tables (InnoDB): Preflight names the others.
//
// The snapshots are made consistent with each other in one of these ways:
//
//   - MariaDB with a binlog reports the position of each session's snapshot.
//     Snapshots are retaken until all positions agree; no writer is blocked.
//   - MySQL with GTIDs reports which transactions are committed and which are
//     about to be. Snapshots are retaken until no commit happened meanwhile.
//     On a server too busy for either method, a lock follows.
//   - FLUSH TABLES WITH READ LOCK, or MariaDB's BACKUP STAGE, keeps commits out
//     for the milliseconds that opening the snapshots takes; that time is logged.
//     To get the lock, the server waits for running statements, and writers
//     have to wait too: so the lock is requested for a second at a time, for
//     Options.LockWait in all.
//   - LOCK TABLES on all tables, if the privilege RELOAD is missing.
//
// If the server has no binlog, Position.Text is empty, and Stamp is made of InnoDB's counters of
// rows written.
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
		return tidemark.Position{}, e.Fail("freeze", e.Masked, err)
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

// A freezing is a Freeze under way.
type freezing struct {
	e    *Bulk
	all  []*server.Session // that will share the view
	lock *server.Session   // holds the lock, if any
	once bool              // the view is of rows only: nothing is held while it is read
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

// shrink continues with the sessions that could be opened, and frees one of them for other users.
// One holds the view and one reads.
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

// withoutLock takes snapshots for two seconds until they agree. It does not try if the binlog has
// filters: a commit that is not written to the binlog would go unnoticed.
func (f *freezing) withoutLock(ctx context.Context) (pos tidemark.Position, ok bool, err error) {
	e := f.e
	show := e.ShowPosition()
	r, err := f.all[0].Query(ctx, show)
	if err != nil || r.RowNumber() == 0 {
		return pos, false, ctx.Err() // no binlog, or missing privilege
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

// tryMySQL takes a snapshot on each session; again means that there may have been a commit
// meanwhile.
//
// A transaction owns its GTID from before it is written to the binlog until after InnoDB has
// committed it; then the GTID moves atomically from gtid_owned to gtid_executed. So if one became
// visible between two of the snapshots, its GTID is either still in gtid_owned afterwards or new in
// gtid_executed, which is therefore read last. And if the position is read before gtid_owned is
// empty, everything that precedes it in the binlog is in gtid_executed too.
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

// snapshotPosition returns the binlog position of a MariaDB session's snapshot.
//
// The server copies the answer through one variable shared by all sessions, without a lock: SHOW
// STATUS in another session at the same microsecond, from a monitor or another lane, puts its own
// position there (10.11: one reading in 40 with four sessions that do nothing else). So a position
// counts once it has been read five times in a row.
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

// hoping implements LockNone: it works if nobody writes, and fails with an error if somebody does.
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
		return after, &tidemark.Error{Kind: tidemark.Invalid, Op: "freeze", Object: f.e.Masked, Err: errors.New("the source was written to while the lanes opened, and --lock none forbids a lock"), Hint: "Stop the writers, or allow a brief lock (--lock)."}
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
		e.guard = s // its lock lasts until Close
		e.mu.Unlock()
	} else {
		s.Close()
	}
	f.lock = nil
	return pos, err
}

// insist requests the lock again and again, for a second or a few at a time. During a request new
// writers wait; such a waiting transaction may hold the row that a running statement waits for,
// while the lock waits for that statement: only giving up lets them continue.
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
			_ = s.Exec(ctx, "BACKUP STAGE END") // leaves the stages before the one that failed
		}
		select {
		case <-time.After(time.Duration(seconds) * time.Second / 2):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// takeLock takes the strongest lock that is wanted and allowed; unlock is the statement that
// releases it.
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

// lockError explains why the lock failed: which privilege is missing, or which statement was in the
// way.
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
		out.Err = fmt.Errorf("the global read lock was not granted within %s%s", e.Options.LockWait, f.inTheWay(ctx))
		out.Hint = "Wait until that statement is over or end it, then try again."
	}
	return out
}

// inTheWay names the longest-running statement.
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

// position returns the server's current log position.
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

// counters is the substitute for a position: InnoDB's counts of rows written since its start.
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
		return stamp, nil // the user may not read the table; the counters are enough without it
	}
	if r.RowNumber() > 0 {
		// The start of the server, to the minute: the two clocks are read one after the other.
		start, _ := r.GetInt(0, 0)
		stamp += ":" + strconv.FormatInt((start+30)/60, 10)
	}
	return stamp, nil
}
