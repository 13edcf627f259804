package main

import (
	"context"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/mysql/server"
)

// engineOptions say how databases are connected to, read and written.
type engineOptions struct {
	engine         engines.Options // what the options of both tables below say; each line has its default
	zeroDates      string          // --zero-dates error, for comparisons: as a copy has written such dates; "" is error
	passwordFile   string          // --password-file; none: passwords are where the engines' own programs look for them
	noNumberIsNull bool            // --unrepresentable error, for comparisons: a copy has written NULL for what is no number
}

// warnBy has warnings of connections said by warn.
func (o *engineOptions) warnBy(warn func(tidemark.Finding)) { o.engine.MySQL.Warn = warn }

// valueTable has the options of values, rights and owners.
func (o *engineOptions) valueTable() option.Table {
	// Dates that are none, for readers of MySQL, targets and comparisons.
	zeroDates := func(p server.Policy, name string) func() {
		return func() { o.engine.MySQL.ZeroDates, o.zeroDates, o.engine.Postgres.NullDates = p, name, p == server.Null }
	}
	return option.Table{
		option.New("zero-dates", "error|null|epoch", "error", "MySQL dates that are none (0000-00-00, 2024-02-31), towards another engine: stop, NULL, or 1970-01-01.", option.Choose(map[string]func(){
			"error": zeroDates(server.Refuse, ""), "null": zeroDates(server.Null, "null"), "epoch": zeroDates(server.Epoch, "epoch")})).For("copy diff repair check replicate capture apply cutover restore"),
		option.New("unrepresentable", "error|null", "error", "Values that MySQL has no form for (infinity, NaN, dates before year 0): stop, or NULL.", option.Choose(map[string]func(){
			"error": func() { o.engine.MySQL.Unrepresentable, o.noNumberIsNull = server.Refuse, false },
			"null":  func() { o.engine.MySQL.Unrepresentable, o.noNumberIsNull = server.Null, true }})).For("copy diff repair check replicate capture apply cutover restore"),
		option.New("tinyint1-bool", "on/off", "off", "Take MySQL's tinyint(1) as boolean; a value other than 0 and 1 is then true.", func(v string) error {
			on, err := option.ParseOnOff(v)
			o.engine.MySQL.TinyInt1Bool, o.engine.Postgres.TinyInt1Bool = on, on
			return err
		}).For("copy diff repair check replicate capture apply cutover restore"),
		option.New("run-as-me", "on/off", "off", "Write to PostgreSQL as a superuser also where functions of other roles (of triggers, constraints, defaults, indexes) would run with its rights.", option.OnOff(&o.engine.Postgres.RunAsMe)).For("copy diff repair check replicate capture apply cutover restore"),
		option.New("owners", "on/off", "off", "Carry owners over, PostgreSQL to PostgreSQL; the roles must exist.", option.OnOff(&o.engine.Postgres.Owners)).For("copy replicate apply restore backup diff cutover"),
		option.New("grants", "on/off", "off", "Carry privileges over, PostgreSQL to PostgreSQL; the roles must exist.", option.OnOff(&o.engine.Postgres.Grants)).For("copy replicate apply restore backup diff cutover"),
	}.In(option.Values)
}

// sessionTable has the options of sessions and of what they make.
func (o *engineOptions) sessionTable() option.Table {
	return option.Table{
		option.New("lock", "auto|global|backup|tables|none", "auto", "How a MySQL source is held still for the moment in which all lanes take their view.", option.Word(&o.engine.MySQL.Lock, map[string]server.Lock{"auto": server.LockAuto, "global": server.LockGlobal, "backup": server.LockBackup, "tables": server.LockTables, "none": server.LockNone})).For("copy diff repair replicate cutover capture apply backup"),
		option.New("lock-wait", "duration", "60s", "How long to wait for that lock (DMS's TransactionConsistencyTimeout).", func(v string) error {
			d, err := time.ParseDuration(v)
			o.engine.MySQL.LockWait = d
			return err
		}).For("copy diff repair replicate cutover capture apply backup"),
		option.New("definer", "keep|current", "keep", "Views, triggers and routines of MySQL: keep their DEFINER, whose account must exist, or make them under one's own.", option.Word(&o.engine.MySQL.Definer, map[string]server.Definer{"keep": server.KeepDefiner, "current": server.CurrentDefiner})).For("copy replicate apply restore"),
		option.New("no-binlog", "on/off", "off", "Keep what is written out of a MySQL target's binlog (needs the privilege; replicas will not get it).", option.OnOff(&o.engine.MySQL.NoBinlog)).For("copy replicate apply restore"),
		option.New("index-memory", "size", "256MB", "maintenance_work_mem of each session that builds indexes on PostgreSQL.", option.Size(&o.engine.Postgres.MaintenanceMem)).For("copy replicate apply restore"),
		option.New("index-workers", "number", "0", "max_parallel_maintenance_workers of these sessions; 0 keeps the server's, -1 means none.", option.Number(-1, 64, &o.engine.Postgres.IndexWorkers)).For("copy replicate apply restore"),
	}.In(option.Sessions)
}

// loginTable has the option of passwords.
func (o *engineOptions) loginTable() option.Table {
	return option.Table{
		option.New("password-file", "file", "", "Take passwords that no URL has from this file. It has lines as ~/.pgpass, host:port:database:user:password with * for any, for both engines, or a password alone.", option.Text(&o.passwordFile)).For("copy diff repair check replicate capture apply cutover restore backup archive exceptions ha-scan ha-plan ha-check"),
	}.In(option.Sessions)
}

func (o *engineOptions) table() option.Table {
	return option.Join(o.valueTable(), o.loginTable(), o.sessionTable())
}

// opener connects with these options.
func (o *engineOptions) opener() job.Opener {
	opt := o.engine
	return func(ctx context.Context, url string) (job.Database, error) {
		url, err := o.login(url)
		if err != nil {
			return nil, err
		}
		return engines.Open(ctx, url, opt)
	}
}

// login gives a URL the password that it lacks.
func (o *engineOptions) login(url string) (string, error) {
	return address.WithPassword(url, o.passwordFile)
}

// openDump opens a dump file with these options.
func (o *engineOptions) openDump(path string) (job.Dump, error) {
	return engines.OpenDump(path, o.engine)
}
