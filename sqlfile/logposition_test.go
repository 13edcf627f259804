package sqlfile

import "testing"

// What comments and statements say about the log, and what replicate --from uses of it.
func TestLogPosition(t *testing.T) {
	const id, other = "3E11FA47-71CA-11E1-9E33-C80AA9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562"
	for _, c := range []struct{ text, from string }{
		{"-- CHANGE MASTER TO MASTER_LOG_FILE='binlog.000003', MASTER_LOG_POS=157;", "binlog.000003:157"},
		{"CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='mysql-bin.000123', SOURCE_LOG_POS=4", "mysql-bin.000123:4"},
		{"CHANGE MASTER TO MASTER_USE_GTID=slave_pos", ""},
		{"SET GLOBAL gtid_slave_pos='0-1-5'", "0-1-5"},
		{"SET GLOBAL gtid_slave_pos='0-1-5,1-2-9'", ""},
		{"SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ '" + id + ":1-5'", "3e11fa47-71ca-11e1-9e33-c80aa9429562:5"},
		{"SET @@GLOBAL.GTID_PURGED='" + id + ":1'", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"},
		{"/* SET @@GLOBAL.GTID_PURGED='+" + id + ":1-5';*/", "3e11fa47-71ca-11e1-9e33-c80aa9429562:5"},
		{"SET @@GLOBAL.GTID_PURGED='" + id + ":1-5,\n" + other + ":1-3'", ""},
		{"SET @@GLOBAL.GTID_PURGED='" + id + ":1-5:7-9'", ""},
		{"SET @@SESSION.SQL_LOG_BIN= 0", ""},
	} {
		var p logPosition
		p.read(c.text)
		if got := p.from(); got != c.from {
			t.Errorf("%s: %q, want %q", c.text, got, c.from)
		}
	}
}
