package preflight

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/change"
	"github.com/tidemarkdb/tidemark/mysql/schema"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// largeTable is the size in bytes from which a table is split into ranges.
const largeTable = 64 << 20

// Checks check a server before any data moves, and change nothing.
type Checks struct {
	*server.Server

	Streams func(context.Context) (map[string]change.Progress, error) // the streams of which the server is the target
}

// Preflight reports what would fail or be slow with this server as the source or the target (role)
// of a copy of db, and changes nothing. db describes the source; it may be nil, and of any engine.
func (e *Checks) Preflight(ctx context.Context, role string, db *tidemark.Database) ([]tidemark.Finding, error) {
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	p := &preflight{e: e, s: s, db: db, set: map[string]string{}}
	if db == nil {
		p.db = &tidemark.Database{}
	}
	steps := []func(context.Context) error{p.readSettings, p.readGrants, p.login, p.sourceRights, p.sourceSettings}
	if role == "target" {
		steps = []func(context.Context) error{p.readSettings, p.readGrants, p.login, p.targetRights, p.targetSettings, p.targetNames, p.targetTables}
	}
	err = p.run(ctx, steps...)
	return p.found, err
}

// Access reports, as blockers of Kind Forbidden, missing privileges for what a copy does with
// tables: create some, fill existing ones. Tables that the user may not read are invisible, or
// Describe reports them.
func (e *Checks) Access(ctx context.Context, _, create, fill []tidemark.TableID) ([]tidemark.Finding, error) {
	elsewhere := func(t tidemark.TableID) bool { return t.Schema != e.DB }
	if len(create)+len(fill) == 0 || slices.ContainsFunc(create, elsewhere) || slices.ContainsFunc(fill, elsewhere) {
		return nil, nil // only grants on the URL's database are checked
	}
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, err
	}
	defer back()
	p := &preflight{e: e, s: s, db: &tidemark.Database{}, set: map[string]string{}}
	rights := p.targetRights
	if len(create) == 0 {
		rights = p.fillRights
	}
	err = p.run(ctx, p.readSettings, p.readGrants, rights)
	return p.found, err
}

func (p *preflight) run(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return p.e.Fail("check", p.e.Masked, err)
		}
	}
	return nil
}

type preflight struct {
	e      *Checks
	s      *server.Session
	db     *tidemark.Database
	set    map[string]string // global variables
	global []string          // privileges on *.*, in capitals; "ALL PRIVILEGES"
	local  []string          // on the URL's database
	some   bool              // there are grants not checked here: on tables, or by roles
	found  []tidemark.Finding
}

func (p *preflight) add(severity tidemark.Severity, kind tidemark.Kind, object, text, hint string) {
	p.found = append(p.found, tidemark.Finding{Severity: severity, Kind: kind, Object: object, Text: text, Hint: hint})
}

func (p *preflight) readSettings(ctx context.Context) error {
	r, err := p.s.Query(ctx, "SHOW GLOBAL VARIABLES")
	if err != nil {
		return err
	}
	for i := range r.RowNumber() {
		p.set[strings.ToLower(server.Cell(r, i, 0))] = server.Cell(r, i, 1)
	}
	return nil
}

func (p *preflight) on(name string) bool {
	v := strings.ToUpper(p.set[name])
	return v == "ON" || v == "1"
}

func (p *preflight) number(name string) int64 {
	n, _ := strconv.ParseInt(p.set[name], 10, 64)
	return n
}

var grantLine = regexp.MustCompile("^GRANT (.+?) ON (?:TABLE )?(\\S+|`.*`)\\.(\\S+|`.*`) TO ")

// readGrants reads SHOW GRANTS: "GRANT SELECT, RELOAD ON *.* TO ...".
func (p *preflight) readGrants(ctx context.Context) error {
	r, err := p.s.Query(ctx, "SHOW GRANTS")
	if err != nil {
		return err
	}
	for i := range r.RowNumber() {
		m := grantLine.FindStringSubmatch(server.Cell(r, i, 0))
		if m == nil {
			p.some = true // GRANT role TO, GRANT PROXY ...
			continue
		}
		rights := strings.Split(strings.ToUpper(m[1]), ", ")
		schema := strings.NewReplacer("`", "", `\_`, "_", `\%`, "%").Replace(m[2])
		switch {
		case m[2] == "*":
			p.global = append(p.global, rights...)
		case m[3] == "*" && (schema == p.e.DB || schema == "%" || strings.HasSuffix(schema, "%") && strings.HasPrefix(p.e.DB, schema[:len(schema)-1])):
			p.local = append(p.local, rights...)
		default:
			p.some = true
		}
	}
	return nil
}

// may reports whether the user has a privilege, on everything or on the database.
func (p *preflight) may(right string) bool {
	all := func(list []string) bool {
		return slices.Contains(list, right) || slices.Contains(list, "ALL PRIVILEGES")
	}
	return all(p.global) || p.e.DB != "" && all(p.local)
}

// require reports a finding that lists missing privileges on the database.
func (p *preflight) require(severity tidemark.Severity, what string, rights ...string) {
	var missing []string
	for _, r := range rights {
		if !p.may(r) {
			missing = append(missing, r)
		}
	}
	if len(missing) == 0 {
		return
	}
	if p.some && severity == tidemark.Blocker {
		severity = tidemark.Warning // a role, or grants on single tables, may do
	}
	scope := "*.*"
	if p.e.DB != "" {
		scope = server.Quote(p.e.DB) + ".*"
	}
	p.add(severity, tidemark.Forbidden, "user "+p.e.Grantee(), what+" needs "+strings.Join(missing, ", "),
		"GRANT "+strings.Join(missing, ", ")+" ON "+scope+" TO "+p.e.Grantee()+".")
}

// login warns of an account that the server may not let in again.
func (p *preflight) login(context.Context) error {
	if p.s.Asks != "" {
		p.add(tidemark.Warning, tidemark.Denied, "user "+p.e.Grantee(), "after a restart the server asks for the password itself ("+p.s.Asks+"), which is not sent to a server whose identity is not verified: a stream or copy then waits until this user has logged in elsewhere, and a new command is refused",
			"Verify the server (?tls=verify-ca&tls-ca=FILE, with its ca.pem), or connect through its Unix socket (?socket=PATH).")
	}
	return nil
}

func (p *preflight) sourceRights(context.Context) error {
	e := p.e
	p.require(tidemark.Blocker, "reading rows", "SELECT")
	p.require(tidemark.Warning, "reading views, triggers and events", "SHOW VIEW", "TRIGGER", "EVENT")
	logs := p.may("REPLICATION CLIENT") || p.may("BINLOG MONITOR") || p.may("SUPER")
	free := logs && p.on("log_bin") && (e.MariaDB || p.set["gtid_mode"] == "ON")
	if !free && !p.may("RELOAD") && !p.may("LOCK TABLES") && (e.Options.Lock == server.LockAuto || e.Options.Lock == server.LockGlobal) {
		severity := tidemark.Blocker
		if p.some {
			severity = tidemark.Warning
		}
		p.add(severity, tidemark.Forbidden, "user "+e.Grantee(), "a consistent snapshot of the source needs RELOAD, or LOCK TABLES, or with a binlog that has GTIDs REPLICATION CLIENT",
			"GRANT RELOAD, REPLICATION CLIENT ON *.* TO "+e.Grantee()+".")
	}
	if !logs && p.on("log_bin") {
		p.add(tidemark.Note, 0, "user "+e.Grantee(), "the position in the binlog cannot be recorded without REPLICATION CLIENT, and replication could not start from this copy",
			"GRANT REPLICATION CLIENT ON *.* TO "+e.Grantee()+".")
	}
	return nil
}

func (p *preflight) sourceSettings(ctx context.Context) error {
	switch {
	case !p.on("log_bin"):
		p.add(tidemark.Note, 0, "log_bin", "the source writes no binlog: replication cannot start from this copy", "Start the server with log_bin if changes are to be replicated.")
	case !strings.EqualFold(p.set["binlog_format"], "ROW"):
		p.add(tidemark.Note, 0, "binlog_format", "the binlog is not row-based: replication could not follow it", "SET GLOBAL binlog_format = ROW before the copy, if changes are to be replicated.")
	}
	r, err := p.s.Query(ctx, "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_TYPE='BASE TABLE' AND "+p.e.InScope("TABLE_SCHEMA"))
	if err != nil {
		return err
	}
	var names []string
	wanted := map[tidemark.TableID]bool{}
	for _, t := range p.db.Tables {
		wanted[t.TableID] = true
	}
	for i := range r.RowNumber() {
		if t := (tidemark.TableID{Schema: server.Cell(r, i, 0), Name: server.Cell(r, i, 1)}); len(wanted) > 0 && !wanted[t] {
			continue
		}
		if !schema.Transactional(server.Cell(r, i, 2)) {
			names = append(names, server.Cell(r, i, 0)+"."+server.Cell(r, i, 1)+" ("+server.Cell(r, i, 2)+")")
		}
	}
	if len(names) > 0 {
		p.add(tidemark.Warning, 0, "storage engine", "non-transactional tables are not part of the snapshot; they are read as they are at that moment: "+tidemark.Some(names, 10),
			"Keep writers away from them during the copy, or ALTER TABLE ... ENGINE=InnoDB.")
	}
	return nil
}

// fillRights checks the privileges for filling existing tables; most are for the tables of the
// copy itself.
func (p *preflight) fillRights(context.Context) error {
	p.require(tidemark.Blocker, "filling tables", "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP")
	return nil
}

// Counters sets AUTO_INCREMENT of tables that exist to the source's: TRUNCATE resets it, and
// deleted rows do not advance it. A user who may only fill tables gets a warning instead.
func (e *Checks) Counters(ctx context.Context, moves []tidemark.Move) ([]tidemark.Object, []tidemark.Finding, error) {
	out := schema.Counters(moves)
	if len(out) == 0 {
		return nil, nil, nil
	}
	s, back, err := e.Lend(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer back()
	p := &preflight{e: e, s: s}
	if err := p.run(ctx, p.readGrants); err != nil || p.may("ALTER") || p.some {
		return out, nil, err
	}
	p.add(tidemark.Warning, 0, "AUTO_INCREMENT", "tables that exist continue after their largest number, not after the source's last one: setting it needs ALTER", "GRANT ALTER ON the database TO "+e.Grantee()+".")
	return nil, p.found, nil
}

func (p *preflight) targetRights(context.Context) error {
	p.require(tidemark.Blocker, "making and filling tables", "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "INDEX", "REFERENCES")
	if p.on("read_only") || p.on("super_read_only") {
		p.add(tidemark.Blocker, tidemark.Forbidden, "read_only", "the server is read-only", "SET GLOBAL read_only = 0, after making sure that it is the right server.")
	}
	if p.e.Options.NoBinlog && !p.may("SUPER") && !p.may("BINLOG ADMIN") && !p.may("SYSTEM_VARIABLES_ADMIN") && !p.may("SESSION_VARIABLES_ADMIN") {
		right := "SESSION_VARIABLES_ADMIN"
		if p.e.MariaDB {
			right = "BINLOG ADMIN"
		}
		p.add(tidemark.Warning, tidemark.Forbidden, "user "+p.e.Grantee(), "keeping the copy out of the binlog needs "+right, "GRANT "+right+" ON *.* TO "+p.e.Grantee()+".")
	}
	return nil
}

func (p *preflight) targetSettings(context.Context) error {
	if !p.on("local_infile") {
		p.add(tidemark.Warning, 0, "local_infile", "the server refuses LOAD DATA LOCAL: rows go in by INSERT, several times slower", "SET GLOBAL local_infile = 1 for the time of the copy.")
		if n := p.number("max_allowed_packet"); n < 64<<20 {
			p.add(tidemark.Note, 0, "max_allowed_packet", fmt.Sprintf("INSERT takes no row larger than %d MB", n>>20), "SET GLOBAL max_allowed_packet = 1073741824, or local_infile = 1.")
		}
	}
	bytes := int64(0)
	numbered := false
	for _, t := range p.db.Tables {
		bytes += t.Bytes
		for _, c := range t.Columns {
			numbered = numbered || c.Identity != nil && t.Bytes > largeTable
		}
	}
	if pool := p.number("innodb_buffer_pool_size"); pool > 0 && pool < min(bytes, 1<<30) {
		p.add(tidemark.Note, 0, "innodb_buffer_pool_size", fmt.Sprintf("the buffer pool has %d MB for %d MB of rows: indexes are built from disk", pool>>20, bytes>>20), "SET GLOBAL innodb_buffer_pool_size to about half of the machine's memory for the time of the copy.")
	}
	redo := p.number("innodb_redo_log_capacity")
	if redo == 0 || p.e.MariaDB {
		redo = p.number("innodb_log_file_size") * max(p.number("innodb_log_files_in_group"), 1)
	}
	if redo > 0 && redo < min(bytes/2, 1<<30) {
		p.add(tidemark.Note, 0, "redo log", fmt.Sprintf("the redo log of %d MB fills up again and again while %d MB are loaded, and writers wait for pages to be flushed", redo>>20, bytes>>20), p.redoHint())
	}
	if p.set["innodb_flush_log_at_trx_commit"] == "1" && p.set["sync_binlog"] == "1" {
		p.add(tidemark.Note, 0, "innodb_flush_log_at_trx_commit", "every commit waits for the disk, twice with the binlog; ranges are large, so it matters for many small tables only", "SET GLOBAL innodb_flush_log_at_trx_commit = 2 and sync_binlog = 0 for the time of the copy.")
	}
	if p.on("log_bin") && !p.e.Options.NoBinlog {
		p.add(tidemark.Note, 0, "log_bin", "all rows are written to the target's binlog too", "Keep the copy out of it, if no replica follows this server.")
	}
	if p.set["innodb_autoinc_lock_mode"] == "1" && numbered {
		p.add(tidemark.Note, 0, "innodb_autoinc_lock_mode", "with the value 1 LOAD DATA locks the counter of a table with AUTO_INCREMENT, and lanes that load one such table wait for each other", "Start the server with innodb_autoinc_lock_mode = 2 (right with row-based binlogs); it cannot be changed while it runs.")
	}
	return nil
}

func (p *preflight) redoHint() string {
	if !p.e.MariaDB && p.e.AtLeast(8, 0, 30) {
		return "SET GLOBAL innodb_redo_log_capacity = 2147483648."
	}
	if p.e.MariaDB && p.e.AtLeast(10, 9, 0) {
		return "SET GLOBAL innodb_log_file_size = 2147483648."
	}
	return "Start the server with a larger innodb_log_file_size."
}

// targetNames finds names that the target does not distinguish.
func (p *preflight) targetNames(context.Context) error {
	if p.set["lower_case_table_names"] == "0" {
		return nil
	}
	seen := map[string]string{}
	var changed []string
	for _, t := range p.db.Tables {
		name := t.String()
		low := strings.ToLower(name)
		if other, twice := seen[low]; twice {
			p.add(tidemark.Blocker, tidemark.Collision, "table "+name, "the target does not distinguish it from "+other+" (lower_case_table_names="+p.set["lower_case_table_names"]+")", "Rename one of them by a mapping rule.")
		}
		seen[low] = name
		if low != name && p.set["lower_case_table_names"] == "1" {
			changed = append(changed, name)
		}
	}
	if len(changed) > 0 {
		p.add(tidemark.Warning, 0, "lower_case_table_names", "the target stores names in lower case: "+tidemark.Some(changed, 10), "")
	}
	return nil
}

func (p *preflight) targetTables(context.Context) error {
	var keyless, plain []string
	for _, t := range p.db.Tables {
		if t.Form == tidemark.View || t.Form == tidemark.Foreign {
			continue
		}
		if t.Key == nil {
			keyless = append(keyless, t.String())
		}
		if !schema.Transactional(t.Storage) {
			plain = append(plain, t.String()+" ("+t.Storage+")")
		}
	}
	if len(keyless) > 0 && p.on("sql_require_primary_key") {
		p.add(tidemark.Blocker, tidemark.Invalid, "sql_require_primary_key", "the target takes no tables without a primary key: "+tidemark.Some(keyless, 10), "SET GLOBAL sql_require_primary_key = 0 for the time of the copy.")
	}
	if len(plain) > 0 && (p.db.Engine == "mysql" || p.db.Engine == "mariadb") {
		p.add(tidemark.Warning, 0, "storage engine", "these tables have no transactions: each is copied in one piece, and emptied and copied anew if that fails: "+tidemark.Some(plain, 10), "Copy them into InnoDB.")
	}
	return nil
}
