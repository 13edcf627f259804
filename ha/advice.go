package ha

import (
	"fmt"
	"strconv"
	"strings"
)

// warnings returns sentences about what the figures do not show.
func warnings(f *Forecast) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	s, waits, applies := f.Sites, false, false
	for _, p := range f.Predictions {
		m, _ := modeOf(s.Engine, p.Mode)
		waits, applies = waits || m.rule != nobodyWaits, applies || m.applies
		if p.Capped {
			say("%s does not carry this load: it needs %.0f commits/s, and the limit is %.0f/s (%s).", p.Mode, f.Load.Rate, p.Sustainable/f.Load.Bytes, p.Limit)
		}
	}
	if f.Load.From != nil {
		for _, two := range f.Load.From.Overlaps {
			say("%s overlap in time: gaps count the overlap twice.", two)
		}
	}
	if waits && s.Unlisted {
		if s.Engine == "postgres" {
			say("synchronous_standby_names is empty: every mode is local now, regardless of synchronous_commit.")
		} else {
			say("Semi-synchronous replication is off: commits do not wait now, regardless of the wait point.")
		}
	}
	if waits {
		if only := len(s.Standbys) <= s.Wait; only && s.Engine == "postgres" {
			say("If a standby that commits wait for goes down, they wait forever: cancelling one only makes it \"committed locally\". One more standby and ANY %d would let them continue.", s.Wait)
		} else if only {
			say("If no replica answers, commits wait %s once (the timeout), then replication is asynchronous until the replica has caught up. Only the error log says so.", TimeText(s.Timeout))
		}
	}
	if applies {
		say("remote_apply waits for replay, and conflicting queries on the standby delay replay by up to max_standby_streaming_delay (30 s by default).")
	}
	if s.Engine == "mariadb" && s.Wait > 1 {
		say("MariaDB waits for the first replica that answers: it has no setting to wait for %d.", s.Wait)
	}
	return append(out, daily(f)...)
}

// mean returns the log's mean rate: of the scan, or what the strongest mode commits.
func (l Load) mean(f *Forecast) float64 {
	if len(l.LogRates) > 0 {
		var sum float64
		for _, r := range l.LogRates {
			sum += r
		}
		return sum / float64(len(l.LogRates))
	}
	return f.Predictions[len(f.Predictions)-1].LogRate
}

// daily warns of links that are fast enough for the mean and too slow for the peak.
func daily(f *Forecast) (out []string) {
	rates := f.Load.LogRates
	if len(rates) == 0 {
		return nil
	}
	for _, s := range f.Sites.Standbys {
		send := sendRate(s)
		var most, behind float64
		for _, gap := range Gaps(rates, f.Load.Step, send, 0) {
			most = max(most, gap)
			if gap > 0 {
				behind += f.Load.Step
			}
		}
		switch {
		case f.Load.mean(f) >= send:
			out = append(out, fmt.Sprintf("%s takes %s, but the log grows by %s on average: it falls behind forever.", s.Name, RateText(send), RateText(f.Load.mean(f))))
		case most > 0:
			out = append(out, fmt.Sprintf("%s takes %s, less than the log's peaks: it is behind for %s of the scanned %s, by at most %s. In a synchronous mode commits slow down instead.",
				s.Name, RateText(send), TimeText(behind), TimeText(float64(len(rates))*f.Load.Step), SizeText(most)))
		}
	}
	return out
}

// Settings holds lines to paste.
type Settings struct {
	Mode  string `json:"mode"`
	Where string `json:"where"` // file, and server
	Text  string `json:"text"`
}

func settings(f *Forecast) (out []Settings) {
	if len(f.Sites.Standbys) == 0 {
		return nil
	}
	for _, p := range f.Predictions {
		m, _ := modeOf(f.Sites.Engine, p.Mode)
		if m.rule == nobodyWaits {
			continue
		}
		if f.Sites.Engine == "postgres" {
			out = append(out, postgresSettings(f, m)...)
		} else {
			out = append(out, semisyncSettings(f, m)...)
		}
	}
	if rooms := sysctl(f.Buffer); rooms != "" {
		out = append(out, Settings{Where: "/etc/sysctl.d/replication.conf, both sides", Text: rooms})
	}
	return out
}

func postgresSettings(f *Forecast, m commitMode) []Settings {
	s := f.Sites
	var names []string
	for _, standby := range s.Standbys {
		names = append(names, `"`+strings.ReplaceAll(standby.Name, `"`, `""`)+`"`)
	}
	how := "FIRST"
	if s.Any {
		how = "ANY"
	}
	list := quoted(fmt.Sprintf("%s %d (%s)", how, s.Wait, strings.Join(names, ", ")))
	first := []string{
		"# these two need a restart",
		"wal_level = replica",
		fmt.Sprintf("max_wal_senders = %d", max(10, len(s.Standbys)+5)),
		"# fewer bytes to send after each checkpoint",
		"wal_compression = on",
	}
	if s.Free > 0 {
		first = append(first, "# 80% of the free space: the server invalidates the slot before the disk is full", "max_slot_wal_keep_size = "+megabytes(s.Free*0.8))
	} else {
		first = append(first, "# Set it to less than the free space on the disk of pg_wal, which is not known here (--free):", "# by default a slot keeps all log, until the disk is full.", "#max_slot_wal_keep_size = ...")
	}
	slots := []string{"-- Do this now: until the standby connects, its slot keeps the log that it needs."}
	var theirs []string
	for _, standby := range s.Standbys {
		slot := slotName(standby.Name)
		slots = append(slots, fmt.Sprintf("SELECT pg_create_physical_replication_slot('%s', true);", slot))
		theirs = append(theirs, "# "+standby.Name,
			fmt.Sprintf("primary_conninfo = 'host=... user=... application_name=%s'", quoted(conninfoValue(standby.Name))),
			fmt.Sprintf("primary_slot_name = '%s'", slot))
	}
	theirs = append(theirs, "wal_receiver_status_interval = 10s", "hot_standby = on")
	return []Settings{
		{m.name, "postgresql.conf, primary", joined(first)},
		{m.name, "SQL, primary, before the base backup of the standby", joined(slots)},
		{m.name, "postgresql.conf, standby", joined(theirs)},
		{m.name, "postgresql.conf, primary, last: once the standby is connected", joined([]string{
			"# Wait until this shows the names below as streaming:",
			"#   SELECT application_name, state FROM pg_stat_replication;",
			"# Naming a standby that is not connected stops every commit, until the setting is",
			"# emptied again and reloaded.",
			fmt.Sprintf("synchronous_standby_names = '%s'", list),
			"synchronous_commit = " + m.name,
			"# then SELECT pg_reload_conf();",
		})},
	}
}

// quoted escapes text for quotes of postgresql.conf.
func quoted(text string) string { return strings.ReplaceAll(text, "'", "''") }

// conninfoValue escapes a value for a connection string, where only single quotes quote.
func conninfoValue(v string) string {
	plain := func(r rune) bool {
		return r == '_' || r == '-' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	if v != "" && !strings.ContainsFunc(v, func(r rune) bool { return !plain(r) }) {
		return v
	}
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(v) + "'"
}

// slotName returns the name reduced to what slots allow: lower-case letters, digits and
// underscores.
func slotName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, name)
}

// semisyncSettings uses each version's names: MySQL says source and replica from 8.0.26 on, and
// needs plugins; MariaDB has it built in since 10.3, under the older names.
func semisyncSettings(f *Forecast, m commitMode) []Settings {
	s := f.Sites
	source, replica, plugin := "source", "replica", true
	if s.Engine == "mariadb" {
		source, replica, plugin = "master", "slave", false
	} else if s.Version != "" && before(s.Version, 8, 0, 26) {
		source, replica = "master", "slave"
	}
	ours, theirs := []string{"[mysqld]"}, []string{"[mysqld]"}
	if plugin {
		ours = append(ours, "plugin_load_add = semisync_"+source+".so")
		theirs = append(theirs, "plugin_load_add = semisync_"+replica+".so")
	}
	name := "rpl_semi_sync_" + source + "_"
	ours = append(ours, name+"enabled = ON", name+"wait_point = "+m.name,
		"# ms. Then commits stop waiting, and only the error log says so. Without a connected replica",
		"# the first commit waits this long.",
		fmt.Sprintf("%stimeout = %.0f", name, s.Timeout*1000))
	if plugin {
		wait := name + "wait_for_replica_count"
		if source == "master" {
			wait = name + "wait_for_slave_count"
		}
		ours = append(ours, fmt.Sprintf("%s = %d", wait, s.Wait))
	}
	ours = append(ours, name+"wait_no_"+replica+" = ON", "sync_binlog = 1", "innodb_flush_log_at_trx_commit = 1", "binlog_format = ROW")
	theirs = append(theirs, "rpl_semi_sync_"+replica+"_enabled = ON")
	sync := 0
	for _, standby := range s.Standbys {
		if standby.SyncRelay {
			sync = 1
		}
	}
	if sync == 1 {
		theirs = append(theirs, "# commits wait for the replica's disk too", "sync_relay_log = 1")
	}
	theirs = append(theirs, "relay_log_recovery = ON")
	return []Settings{{m.name, "my.cnf, replica, first", joined(theirs)}, {m.name, "my.cnf, primary, once the replica is connected", joined(ours)}}
}

// before compares the numbers at the beginning of a version.
func before(version string, than ...int) bool {
	parts := strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	for i, t := range than {
		if i >= len(parts) {
			return false
		}
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return false
		}
		if n != t {
			return n < t
		}
	}
	return false
}

// sysctl returns the kernel settings needed. Neither server sets buffers of its own, so TCP tunes
// them up to these.
func sysctl(buffers []Buffer) string {
	var most float64
	for _, b := range buffers {
		most = max(most, b.Bytes)
	}
	if most == 0 {
		return ""
	}
	n := int64(most)
	return joined([]string{
		fmt.Sprintf("net.core.wmem_max = %d", n), fmt.Sprintf("net.core.rmem_max = %d", n),
		fmt.Sprintf("net.ipv4.tcp_wmem = 4096 65536 %d", max(n, 4<<20)), fmt.Sprintf("net.ipv4.tcp_rmem = 4096 131072 %d", max(n, 6<<20)),
		"net.ipv4.tcp_window_scaling = 1",
	})
}

func joined(lines []string) string { return strings.Join(lines, "\n") + "\n" }

// megabytes formats a size for PostgreSQL's settings.
func megabytes(bytes float64) string { return fmt.Sprintf("%.0fMB", bytes/(1<<20)) }
