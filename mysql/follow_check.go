package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// logRights looks whether the log may be read.
func (p *preflight) logRights(context.Context) error {
	var missing []string
	if !p.may("REPLICATION SLAVE") {
		missing = append(missing, "REPLICATION SLAVE")
	}
	state := "REPLICATION CLIENT"
	if p.e.mariadb {
		state = "BINLOG MONITOR"
	}
	if !p.may(state) && !p.may("SUPER") {
		missing = append(missing, state)
	}
	if len(missing) == 0 {
		return nil
	}
	severity := tidemark.Blocker
	if p.some {
		severity = tidemark.Warning // a role may do
	}
	rights := strings.Join(missing, ", ")
	p.say(severity, tidemark.Forbidden, "user "+p.e.grantee(), "following the log needs "+rights, "GRANT "+rights+" ON *.* TO "+p.e.grantee()+".")
	return nil
}

// logSettings looks whether the log holds what a stream needs.
func (p *preflight) logSettings(ctx context.Context) error {
	block := func(object, text, hint string) { p.say(tidemark.Blocker, tidemark.Unsupported, object, text, hint) }
	if !p.on("log_bin") {
		block("log_bin", "the server keeps no binlog", "Start the server with log_bin=binlog and a server_id of its own: that cannot be changed while it runs.")
		return nil
	}
	if f := p.set["binlog_format"]; !strings.EqualFold(f, "ROW") {
		block("binlog_format", "the server logs statements in place of rows ("+f+")", "SET GLOBAL binlog_format = 'ROW', write it into the server's configuration, and let programs that are connected connect again.")
	}
	image := p.set["binlog_row_image"]
	switch {
	case strings.EqualFold(image, "FULL"), strings.EqualFold(image, "FULL_NODUP"):
	case strings.EqualFold(image, "MINIMAL") && strings.Contains(strings.ToUpper(p.set["binlog_row_value_options"]), "PARTIAL_JSON"):
		block("binlog_row_value_options", "the server logs only the changed parts of JSON documents, and with binlog_row_image = MINIMAL not what they were before",
			"SET GLOBAL binlog_row_image = 'FULL' (or binlog_row_value_options = ''), and let programs that are connected connect again.")
	default:
		p.say(tidemark.Warning, 0, "binlog_row_image", "the log has only some columns of changed rows ("+image+"): conflicts are found by keys alone, and a column that is not in the key of the target's table may be missing",
			"SET GLOBAL binlog_row_image = 'FULL'.")
	}
	if meta := p.set["binlog_row_metadata"]; !strings.EqualFold(meta, "FULL") {
		p.say(tidemark.Note, 0, "binlog_row_metadata", "the log has no names of columns ("+meta+"): what tables were is worked out of its DDL, and one that is altered in a way that is not understood may stop",
			"SET GLOBAL binlog_row_metadata = 'FULL'.")
	}
	return p.logFilters(ctx)
}

// logFilters looks whether all changes get into the log.
func (p *preflight) logFilters(ctx context.Context) error {
	r, err := p.s.query(ctx, p.e.showPosition())
	if err != nil || r.RowNumber() == 0 {
		return ctx.Err() // not allowed, which was said
	}
	listed := func(list string) bool {
		for _, db := range strings.Split(list, ",") {
			if db == p.e.db {
				return true
			}
		}
		return false
	}
	do, ignore := cell(r, 0, 2), cell(r, 0, 3)
	switch {
	case do == "" && ignore == "":
	case p.e.db == "":
		p.say(tidemark.Warning, 0, "binlog_do_db", "the server logs some databases only", "Start the server without binlog_do_db and binlog_ignore_db.")
	case do != "" && !listed(do) || listed(ignore):
		p.say(tidemark.Blocker, tidemark.Unsupported, "binlog_do_db", "the server does not log changes of this database", "Start the server without binlog_do_db and binlog_ignore_db.")
	}
	if p.on("log_slave_updates") || p.on("log_replica_updates") {
		return nil
	}
	show := "SHOW REPLICA STATUS"
	if p.e.mariadb {
		show = "SHOW ALL SLAVES STATUS"
	}
	if r, err := p.s.query(ctx, show); err == nil && r.RowNumber() > 0 {
		p.say(tidemark.Blocker, tidemark.Unsupported, "log_slave_updates", "the server is a replica, and does not log what it replicates", "Start the server with log_slave_updates, or follow its source.")
	}
	return ctx.Err()
}

// logKept looks how long the server keeps its log.
func (p *preflight) logKept(context.Context) error {
	seconds := p.number("binlog_expire_logs_seconds")
	if seconds == 0 {
		seconds = p.number("expire_logs_days") * 86400
	}
	if v, ok := p.set["binlog_expire_logs_auto_purge"]; ok && strings.EqualFold(v, "OFF") {
		seconds = 0
	}
	if seconds > 0 && seconds < 86400 {
		p.say(tidemark.Warning, 0, "binlog_expire_logs_seconds", fmt.Sprintf("the server keeps its log for %d minutes, whether a stream has read it or not: one that stands still for longer has lost its source", seconds/60),
			"SET GLOBAL binlog_expire_logs_seconds = 604800, if the disk has room for a week.")
	}
	return nil
}

// logTables looks for tables whose changes are not in the log, or not as they happen.
func (p *preflight) logTables(context.Context) error {
	var acted, plain []string
	for _, t := range p.db.Tables {
		for _, f := range t.ForeignKeys {
			if acts(f.OnDelete) || acts(f.OnUpdate) {
				acted = append(acted, t.String())
				break
			}
		}
		if t.Storage != "" && !transactional(t.Storage) {
			plain = append(plain, t.String()+" ("+t.Storage+")")
		}
	}
	if len(acted) > 0 && (p.e.mariadb || !p.on("innodb_native_foreign_keys")) {
		p.say(tidemark.Warning, 0, "foreign keys", "what foreign keys do to rows (CASCADE, SET NULL) is not in the log: the target's keys have to do the same, in "+some(acted), "Keep these foreign keys on the target.")
	}
	if len(plain) > 0 {
		p.say(tidemark.Warning, 0, "storage engine", "these tables have no transactions, so that half a statement may be in the log: "+some(plain), "ALTER TABLE ... ENGINE = InnoDB.")
	}
	return nil
}

func acts(action string) bool {
	switch strings.ToUpper(action) {
	case "", "RESTRICT", "NO ACTION":
		return false
	}
	return true
}
