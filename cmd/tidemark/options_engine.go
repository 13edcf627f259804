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

// engineOptions tell how to connect to databases, read and write them.
type engineOptions struct {
	engine         engines.Options // the options of both tables below; each line has its default
	zeroDates      string          // --zero-dates error, for comparisons: how a copy has written such dates; "" is error
	passwordFile   string          // --password-file; none: passwords come from where the engines' own programs look for them
	noNumberIsNull bool            // --unrepresentable error, for comparisons: a copy has written NULL for NaN and the like
}

// warnBy sets the function that receives warnings of connections.
func (o *engineOptions) warnBy(warn func(tidemark.Finding)) {
	o.engine.MySQL.Warn, o.engine.Postgres.Warn = warn, warn
}

// decided are the options of the command that say what becomes of values without a place.
func (o *engineOptions) decided() (out []string) {
	if o.engine.MySQL.ZeroDates != server.Refuse {
		out = append(out, "zero-dates")
	}
	if o.engine.MySQL.Unrepresentable != server.Refuse {
		out = append(out, "unrepresentable")
	}
	return out
}

// valueTable has the options of values, rights and owners.
func (o *engineOptions) valueTable() option.Table {
	// Invalid dates, for readers of MySQL, targets and comparisons.
	zeroDates := func(p server.Policy, name string) func() {
		return func() { o.engine.MySQL.ZeroDates, o.zeroDates, o.engine.Postgres.NullDates = p, name, p == server.Null }
	}
	return option.Table{
		option.New("zero-dates", "error|null|epoch", "error", "Invalid MySQL dates (0000-00-00, 2024-02-31) when the target is another engine: stop, write NULL, or write 1970-01-01.", option.Choose(map[string]func(){
			"error": zeroDates(server.Refuse, ""), "null": zeroDates(server.Null, "null"), "epoch": zeroDates(server.Epoch, "epoch")})).For("copy forecast diff repair check replicate capture apply cutover restore"),
		option.New("unrepresentable", "error|null", "error", "Values that MySQL cannot store (infinity, NaN, dates before year 0): stop, or write NULL.", option.Choose(map[string]func(){
			"error": func() { o.engine.MySQL.Unrepresentable, o.noNumberIsNull = server.Refuse, false },
			"null":  func() { o.engine.MySQL.Unrepresentable, o.noNumberIsNull = server.Null, true }})).For("copy forecast diff repair check replicate capture apply cutover restore"),
		option.New("tinyint1-bool", "on/off", "off", "Treat MySQL's tinyint(1) as boolean; any value other than 0 becomes true.", func(v string) error {
			on, err := option.ParseOnOff(v)
			o.engine.MySQL.TinyInt1Bool, o.engine.Postgres.TinyInt1Bool = on, on
			return err
		}).For("copy forecast diff repair check replicate capture apply cutover restore"),
		option.New("run-as-me", "on/off", "off", "Write to PostgreSQL as a superuser even if functions of other roles (in triggers, constraints, defaults, indexes) would then run with superuser rights.", option.OnOff(&o.engine.Postgres.RunAsMe)).For("copy forecast diff repair check replicate capture apply cutover restore"),
		option.New("owners", "on/off", "off", "Copy owners, PostgreSQL to PostgreSQL; the roles must exist.", option.OnOff(&o.engine.Postgres.Owners)).For("copy forecast replicate apply restore backup diff cutover"),
		option.New("grants", "on/off", "off", "Copy privileges, PostgreSQL to PostgreSQL; the roles must exist.", option.OnOff(&o.engine.Postgres.Grants)).For("copy forecast replicate apply restore backup diff cutover"),
	}.In(option.Values)
}

// sessionTable has the options of sessions and of what they create.
func (o *engineOptions) sessionTable() option.Table {
	return option.Table{
		option.New("lock", "auto|global|backup|tables|none", "auto", "How to hold a MySQL source still while all lanes open their snapshots.", option.Word(&o.engine.MySQL.Lock, map[string]server.Lock{"auto": server.LockAuto, "global": server.LockGlobal, "backup": server.LockBackup, "tables": server.LockTables, "none": server.LockNone})).For("copy forecast diff repair replicate cutover capture apply backup"),
		option.New("lock-wait", "duration", "60s", "How long to wait for that lock (DMS's TransactionConsistencyTimeout).", func(v string) error {
			d, err := time.ParseDuration(v)
			o.engine.MySQL.LockWait = d
			return err
		}).For("copy forecast diff repair replicate cutover capture apply backup"),
		option.New("definer", "keep|current", "keep", "MySQL views, triggers and routines: keep their DEFINER, whose account must exist, or create them as the current user.", option.Word(&o.engine.MySQL.Definer, map[string]server.Definer{"keep": server.KeepDefiner, "current": server.CurrentDefiner})).For("copy forecast replicate apply restore"),
		option.New("no-binlog", "on/off", "off", "Do not write changes to a MySQL target's binlog (needs the privilege; replicas will not receive them).", option.OnOff(&o.engine.MySQL.NoBinlog)).For("copy forecast replicate apply restore"),
		option.New("index-memory", "size", "256MB", "maintenance_work_mem of each session that builds indexes on PostgreSQL.", option.Size(&o.engine.Postgres.MaintenanceMem)).For("copy forecast replicate apply restore"),
		option.New("index-workers", "number", "0", "max_parallel_maintenance_workers of these sessions; 0 keeps the server's setting, -1 means none.", option.Number(-1, 64, &o.engine.Postgres.IndexWorkers)).For("copy forecast replicate apply restore"),
	}.In(option.Sessions)
}

// loginTable has the option of passwords.
func (o *engineOptions) loginTable() option.Table {
	return option.Table{
		option.New("password-file", "file", "", "Read passwords that are not in a URL from this file. Its lines are as in ~/.pgpass, host:port:database:user:password with * for any, for both engines; or it holds a password alone.", option.Text(&o.passwordFile)).For("copy forecast diff repair check replicate capture apply cutover restore backup archive exceptions load ha-scan ha-plan ha-check"),
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

// login adds the password that a URL lacks.
func (o *engineOptions) login(url string) (string, error) {
	return address.WithPassword(url, o.passwordFile)
}
