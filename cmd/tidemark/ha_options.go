package main

import (
	"time"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/notation"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
)

// sitesOptions describe a primary, its standbys and the networks between them.
type sitesOptions struct {
	disk         ha.Disk                 // --disk; none: it is measured, or not needed
	networks     []notation.NamedNetwork // --network; none, as --disk
	standbyDisks []ha.Disk               // --standby-disk; none: as the primary's
	replays      []notation.Replay       // --replay; none: the standby keeps up
	local        []ha.Local              // --local; none: calculated from --disk
	paused       []ha.Pause              // --paused; none
	near         []ha.Near               // --near; none
	quorum       notation.Quorum         // --quorum FIRST 1: the most common setting
	timeout      time.Duration           // --semisync-timeout 10s: the default of MySQL and MariaDB
	backlog      int64                   // --backlog 0: the most that the standby would lack according to the scan
	whatIfs      []notation.WhatIf       // --what-if; none
	sweeps       []notation.Sweep        // --sweep; none
	clients      int                     // --clients 0: commits come at the scan's rate
	free         int64                   // --free 0: not known
	outage       time.Duration           // --outage 1h: until somebody has fixed it
	modes        string                  // --syncmode; none: all of the engine
	engine       string                  // --engine; none: that of the scanned log
	syncRelay    bool                    // --sync-relay off: the servers' default
}

func (o *sitesOptions) diskTable() option.Table {
	return option.Table{
		option.New("disk", "text", "", "The disk of the log: RATE,OVERHEAD of one write, such as 200MiB/s,1ms, or a file from ha measure disk --json. Bare numbers are MiB/s and seconds, as in IBM's calculator. ha simulate then writes nothing, and waits that long instead.", option.Parsed(&o.disk, notation.ParseDisk)).For("ha-scan ha-calculate ha-simulate").CommonTo("ha-calculate"),
		option.New("network", "list", "", "The network to the standby: RATE,RTT, such as 1Gbit/s,0.2ms, or a file from ha measure network --json. The time that both ends add to a round trip by waking up may follow (1Gbit/s,5ms,0.2ms). Once for each standby, optionally with its name in front (london=1Gbit/s,5ms); Db2's formulas take one.", option.Each(&o.networks, notation.ParseNetwork)).For("ha-calculate ha-plan").CommonTo("ha-calculate"),
		option.New("standby-disk", "list", "", "The disk of the standby's log, in the form of --disk; once for all standbys, or once for each in the order of --network; default: same as the primary's. Not for Db2.", option.Each(&o.standbyDisks, notation.ParseDisk)).For("ha-calculate"),
		option.New("replay", "list", "", "How the standby applies the log: RATE, such as 50MiB/s, or any, optionally followed by the time to apply a commit once it is on disk (any,1ms); once for all standbys or once for each. Not for Db2.", option.Each(&o.replays, notation.ParseReplay)).For("ha-calculate ha-plan"),
		option.New("local", "list", "", "Measured commits per second without a standby, for clients without think time, as CLIENTS=RATE (8=3400), optionally with percentiles (8=3400,2ms,9ms: p50, p99), once for each number of clients; or a JSON file of them. Without it, the rate is calculated from --disk. Not for Db2.", func(v string) error {
			l, err := notation.ParseLocal(v)
			o.local = append(o.local, l...)
			return err
		}).For("ha-calculate ha-plan"),
		option.New("paused", "list", "", "Measured time of one client's commit without a standby after the client was idle, as PAUSE=TIME (10ms=1.2ms); once for each pause. Clients that wait for a standby pause for about one round trip. Not for Db2.", option.Each(&o.paused, notation.ParsePaused)).For("ha-calculate ha-plan"),
		option.New("near", "list", "", "Measured commits per second in a mode with a standby nearby, as MODE:CLIENTS=RATE,RTT (on:32=7200,0.4ms): the cost of waiting apart from the network. Once for each mode and number of clients. Not for Db2.", option.Each(&o.near, notation.ParseNear)).For("ha-calculate ha-plan"),
		option.New("quorum", "text", "FIRST 1", "How many standbys a commit waits for: FIRST n, in their order, or ANY n. Not for Db2.", option.Parsed(&o.quorum, notation.ParseQuorum)).For("ha-calculate"),
		option.New("semisync-timeout", "duration", "10s", "How long MySQL and MariaDB wait for a replica before they stop waiting.", option.Duration(&o.timeout)).For("ha-calculate ha-plan"),
		option.New("backlog", "size", "0", "How much log the standby lacks when a mode that waits for it is switched on; 0: the most that it would lack according to the scan. Not for Db2.", option.Size(&o.backlog)).For("ha-calculate ha-plan"),
		option.New("what-if", "list", "", "Also calculate with a changed value: WORD=VALUE. Several are separated by ;, such as 'rtt=5ms; disk=200MiB/s,1ms'. Words: rtt, hop, network, standby-disk, replay, sync-relay (of one standby: rtt@NAME), disk, clients, rate (commits a second), quorum; for Db2 rtt, network and disk. May be repeated.", option.Each(&o.whatIfs, notation.ParseWhatIf)).For("ha-calculate").CommonTo("ha-calculate"),
		option.New("sweep", "list", "", "Also print a table over rtt, network, clients, rate, disk or standby-disk. rate is in commits a second, disks are the time of a write; with values (rtt=1ms,5ms,20ms) or without; for Db2 rtt, network and disk. May be repeated.", option.Each(&o.sweeps, notation.ParseSweep)).For("ha-calculate").CommonTo("ha-calculate"),
		option.New("clients", "number", "0", "Sessions that commit, as in a connection pool. Each waits for one commit before its next; 0: commits arrive at the scan's rate, whatever they wait for. Not for Db2.", option.Number(0, 100_000, &o.clients)).For("ha-calculate").CommonTo("ha-calculate"),
		option.New("free", "size", "0", "Free space on the disk of the primary's log, to tell when it would be full while a standby is away; 0: not known. Not for Db2.", option.Size(&o.free)).For("ha-calculate ha-plan"),
		option.New("outage", "duration", "1h", "How long a standby is assumed to be away. Not for Db2.", option.Duration(&o.outage)).For("ha-calculate ha-plan"),
		option.New("syncmode", "text", "", "Only these modes, separated by commas. Default: all of the engine; for Db2 SYNC, NEARSYNC and ASYNC.", func(v string) error {
			o.modes = v
			return nil
		}).For("ha-calculate ha-plan ha-check").CommonTo("ha-calculate"),
		option.New("engine", "db2|postgres|mysql|mariadb", "", "Engine whose modes, or way of writing a log, to use. Default: the scanned log's (ha calculate), postgres (ha measure disk), the mode's (ha simulate).", option.Word(&o.engine, map[string]string{"db2": "db2", "postgres": "postgres", "mysql": "mysql", "mariadb": "mariadb"})).For("ha-calculate ha-measure-disk ha-simulate").CommonTo("ha-measure-disk"),
	}.In(option.Inputs)
}

func (o *sitesOptions) relayTable() option.Table {
	return option.Table{
		option.New("sync-relay", "on/off", "off", "MySQL and MariaDB: the replica's relay log is on disk before it acknowledges (sync_relay_log=1).", option.OnOff(&o.syncRelay)).For("ha-simulate ha-calculate ha-plan"),
	}.In(option.Inputs)
}

func (o *sitesOptions) table() option.Table { return option.Join(o.diskTable(), o.relayTable()) }

// measureOptions tell how disks and links are measured, and how a log is shipped for a trial.
type measureOptions struct {
	time   time.Duration        // --time 20s: until slow writes are seen too
	size   int64                // --size 64MB: a segment or two of a log
	force  bool                 // --force off: a database's disk is not written to by mistake
	listen bool                 // --listen off: this end measures
	once   bool                 // --once off: a listener keeps running
	secret address.SharedSecret // --secret-file; none: TIDEMARK_HA_SECRET
	delay  time.Duration        // --delay 0s: no proxy
	rate   float64              // --bandwidth 0, bytes a second: no limit
	flush  int64                // --flush-size 0: not known
	dir    string               // --dir; none: writes take no time
}

// line is what the proxy adds.
func (o *measureOptions) line() measure.Line { return measure.Line{Delay: o.delay, Rate: o.rate} }

func (o *measureOptions) wayTable() option.Table {
	return option.Table{
		option.New("time", "duration", "20s", "Total time to run.", option.Duration(&o.time)).For("ha-measure-disk ha-measure-network ha-simulate").CommonTo("ha-measure-disk ha-measure-network ha-simulate"),
		option.New("size", "size", "64MB", "Maximum size of each of the two files. They use at most a tenth of the free space.", option.Size(&o.size)).For("ha-measure-disk").CommonTo("ha-measure-disk"),
		option.New("force", "on/off", "off", "Write even where a database's files are.", option.OnOff(&o.force)).For("ha-measure-disk ha-measure-network ha-simulate ha-plan").CommonTo("ha-measure-disk"),
		option.New("listen", "on/off", "off", "Be the other end, at this address. The default is all addresses, port 7455.", option.OnOff(&o.listen)).For("ha-measure-network").CommonTo("ha-measure-network"),
		option.New("once", "on/off", "off", "As the other end: exit when the first peer disconnects.", option.OnOff(&o.once)).For("ha-measure-network ha-simulate").CommonTo("ha-measure-network"),
		option.New("secret-file", "file", "", "File with the secret that both sides share. At least 16 bytes; default: TIDEMARK_HA_SECRET. Needed to listen where other machines can connect.", option.Text(&o.secret.File)).For("ha-measure-network ha-simulate ha-plan").CommonTo("ha-measure-network ha-simulate ha-plan"),
		option.New("delay", "duration", "0s", "Add this much to each round trip. Traffic goes through a proxy in this process.", option.Duration(&o.delay)).For("ha-measure-network ha-simulate ha-plan").CommonTo("ha-simulate ha-plan"),
		option.New("bandwidth", "text", "0", "Limit the rate in the same proxy, such as 10MiB/s or 100Mbit/s; 0: no limit.", bytesPerSecond(&o.rate)).For("ha-measure-network ha-simulate ha-plan"),
		option.New("flush-size", "size", "0", "Size of flushes: for the buffer's size (ha measure network); in Db2's modes, where 0 is 64kB (ha simulate).", option.Size(&o.flush)).For("ha-measure-network ha-simulate"),
	}.In(option.Measuring)
}

func (o *measureOptions) dirTable() option.Table {
	return option.Table{
		option.New("dir", "file", "", "Write the log below this folder. Without it, writes take no time. On the listening side: the same, and the other side may measure its disk.", option.Text(&o.dir)).For("ha-simulate ha-measure-network").CommonTo("ha-simulate ha-measure-network"),
	}.In(option.Measuring)
}

func (o *measureOptions) table() option.Table { return option.Join(o.wayTable(), o.dirTable()) }

// trialOptions are the options for measuring and shipping.
type trialOptions struct {
	sitesOptions
	measureOptions
	outputOptions
}

func (o *trialOptions) Table() option.Table {
	return option.Join(o.sitesOptions.table(), o.measureOptions.table(), o.outputOptions.table())
}

// bytesPerSecond reads a rate; 0 is no limit.
func bytesPerSecond(at *float64) func(string) error {
	return func(v string) (err error) {
		if v == "0" {
			*at = 0
			return nil
		}
		*at, err = notation.ParseRate(v)
		return err
	}
}
