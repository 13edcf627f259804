package main

import (
	"time"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/notation"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/ha"
	"github.com/tidemarkdb/tidemark/ha/measure"
)

// sitesOptions describe a primary, its standbys and what lies between them.
type sitesOptions struct {
	disk         ha.Disk                 // --disk; none: it is measured, or not needed
	networks     []notation.NamedNetwork // --network; none, as --disk
	standbyDisks []ha.Disk               // --standby-disk; none: as the primary's
	replays      []notation.Replay       // --replay; none: the standby keeps up
	local        []ha.Local              // --local; none: calculated from --disk
	paused       []ha.Pause              // --paused; none
	near         []ha.Near               // --near; none
	quorum       notation.Quorum         // --quorum FIRST 1: as most have it
	timeout      time.Duration           // --semisync-timeout 10s: the default of MySQL and MariaDB
	backlog      int64                   // --backlog 0: the most that the standby would lack by the scan
	whatIfs      []notation.WhatIf       // --what-if; none
	sweeps       []notation.Sweep        // --sweep; none
	clients      int                     // --clients 0: commits come at the scan's rate
	free         int64                   // --free 0: not known
	outage       time.Duration           // --outage 1h: until somebody has come
	modes        string                  // --syncmode; none: all of the engine
	engine       string                  // --engine; none: of whose log it is
	syncRelay    bool                    // --sync-relay off: as servers have it unless they are told otherwise
}

func (o *sitesOptions) diskTable() option.Table {
	return option.Table{
		option.New("disk", "text", "", "The disk of the log: RATE,OVERHEAD of one write, such as 200MiB/s,1ms, or a file of ha measure disk --json. Numbers alone are MiB/s and seconds, as for IBM's calculator. ha simulate then writes nothing, and takes as long as it says.", option.Parsed(&o.disk, notation.ParseDisk)).For("ha-scan ha-calculate ha-simulate").CommonTo("ha-calculate"),
		option.New("network", "list", "", "The network to the standby: RATE,RTT, such as 1Gbit/s,0.2ms, or a file of ha measure network --json. What both ends add to a round trip by waking up may stand behind it (1Gbit/s,5ms,0.2ms). Once for each standby, whose name may stand before it (london=1Gbit/s,5ms); Db2's formulas take one.", option.Each(&o.networks, notation.ParseNetwork)).For("ha-calculate ha-plan").CommonTo("ha-calculate"),
		option.New("standby-disk", "list", "", "The disk of the standby's log, as --disk has it; once for all standbys or once for each, in the order of --network; default: as the primary's. Not of Db2.", option.Each(&o.standbyDisks, notation.ParseDisk)).For("ha-calculate"),
		option.New("replay", "list", "", "How the standby applies the log: RATE, such as 50MiB/s, or any, and behind it how long a commit takes to be applied once it is on disk (any,1ms); once for all standbys or once for each. Not of Db2.", option.Each(&o.replays, notation.ParseReplay)).For("ha-calculate ha-plan"),
		option.New("local", "list", "", "What so many clients, who do not think, were measured to commit a second without a standby, as CLIENTS=RATE (8=3400), with percentiles or not (8=3400,2ms,9ms: p50, p99), once for each number of clients; or a JSON file of them. Without it, it is calculated from --disk. Not of Db2.", func(v string) error {
			l, err := notation.ParseLocal(v)
			o.local = append(o.local, l...)
			return err
		}).For("ha-calculate ha-plan"),
		option.New("paused", "list", "", "What a commit of one client takes without a standby after the client has done nothing for so long, as PAUSE=TIME (10ms=1.2ms); once for each pause. Clients that wait for a standby pause for about a round trip. Not of Db2.", option.Each(&o.paused, notation.ParsePaused)).For("ha-calculate ha-plan"),
		option.New("near", "list", "", "What so many clients commit a second in a mode with a standby nearby, as MODE:CLIENTS=RATE,RTT (on:32=7200,0.4ms): what waiting costs besides the way. Once for each mode and number of clients. Not of Db2.", option.Each(&o.near, notation.ParseNear)).For("ha-calculate ha-plan"),
		option.New("quorum", "text", "FIRST 1", "How many standbys a commit waits for: FIRST n, in their order, or ANY n. Not of Db2.", option.Parsed(&o.quorum, notation.ParseQuorum)).For("ha-calculate"),
		option.New("semisync-timeout", "duration", "10s", "After how long MySQL and MariaDB stop waiting for a replica.", option.Duration(&o.timeout)).For("ha-calculate ha-plan"),
		option.New("backlog", "size", "0", "What the standby lacks of the log when a mode that waits for it is switched on; 0: the most that it would lack by the scan. Not of Db2.", option.Size(&o.backlog)).For("ha-calculate ha-plan"),
		option.New("what-if", "list", "", "Also calculate with something else: WORD=VALUE. Several are separated by ;, such as 'rtt=5ms; disk=200MiB/s,1ms'. Words: rtt, hop, network, standby-disk, replay, sync-relay (of one standby: rtt@NAME), disk, clients, rate (commits a second), quorum; of Db2 rtt, network and disk. May be repeated.", option.Each(&o.whatIfs, notation.ParseWhatIf)).For("ha-calculate").CommonTo("ha-calculate"),
		option.New("sweep", "list", "", "Also print a table over rtt, network, clients, rate, disk or standby-disk. rate is in commits a second, disks are the time of a write; with values (rtt=1ms,5ms,20ms) or without; of Db2 rtt, network and disk. May be repeated.", option.Each(&o.sweeps, notation.ParseSweep)).For("ha-calculate").CommonTo("ha-calculate"),
		option.New("clients", "number", "0", "Sessions that commit, as in a pool of connections. Each waits for one commit before its next; 0: commits come at the scan's rate, whatever they wait for. Not of Db2.", option.Number(0, 100_000, &o.clients)).For("ha-calculate").CommonTo("ha-calculate"),
		option.New("free", "size", "0", "What the disk of the primary's log has left, to say when it would be full while a standby is away; 0: not known. Not of Db2.", option.Size(&o.free)).For("ha-calculate ha-plan"),
		option.New("outage", "duration", "1h", "For how long a standby is taken to be away. Not of Db2.", option.Duration(&o.outage)).For("ha-calculate ha-plan"),
		option.New("syncmode", "text", "", "Only these modes, separated by commas. Default: all of the engine, of Db2 SYNC, NEARSYNC and ASYNC.", func(v string) error {
			o.modes = v
			return nil
		}).For("ha-calculate ha-plan ha-check").CommonTo("ha-calculate"),
		option.New("engine", "db2|postgres|mysql|mariadb", "", "Whose modes, or way of writing a log. Default: of whose log was scanned (ha calculate), postgres (ha measure disk), whose mode it is (ha simulate).", option.Word(&o.engine, map[string]string{"db2": "db2", "postgres": "postgres", "mysql": "mysql", "mariadb": "mariadb"})).For("ha-calculate ha-measure-disk ha-simulate").CommonTo("ha-measure-disk"),
	}.In(option.Inputs)
}

func (o *sitesOptions) relayTable() option.Table {
	return option.Table{
		option.New("sync-relay", "on/off", "off", "MySQL and MariaDB: the replica's relay log is on disk before it acknowledges (sync_relay_log=1).", option.OnOff(&o.syncRelay)).For("ha-simulate ha-calculate ha-plan"),
	}.In(option.Inputs)
}

func (o *sitesOptions) table() option.Table { return option.Join(o.diskTable(), o.relayTable()) }

// measureOptions say how disks and links are measured, and how a log is shipped for a trial.
type measureOptions struct {
	time   time.Duration // --time 20s: until slow writes are seen too
	size   int64         // --size 64MB: as a segment or two of a log
	force  bool          // --force off: a database's disk is not written to by mistake
	listen bool          // --listen off: this end measures
	once   bool          // --once off: who listens goes on
	secret linkSecret    // --secret-file; none: TIDEMARK_HA_SECRET
	delay  time.Duration // --delay 0s: no proxy
	rate   float64       // --bandwidth 0, bytes a second: no limit
	flush  int64         // --flush-size 0: not known
	dir    string        // --dir; none: writes take no time
}

// line is what the proxy adds.
func (o *measureOptions) line() measure.Line { return measure.Line{Delay: o.delay, Rate: o.rate} }

func (o *measureOptions) wayTable() option.Table {
	return option.Table{
		option.New("time", "duration", "20s", "How long it takes, in all.", option.Duration(&o.time)).For("ha-measure-disk ha-measure-network ha-simulate").CommonTo("ha-measure-disk ha-measure-network ha-simulate"),
		option.New("size", "size", "64MB", "Size of each of the two files, at most. They take at most a tenth of what is free.", option.Size(&o.size)).For("ha-measure-disk").CommonTo("ha-measure-disk"),
		option.New("force", "on/off", "off", "Write also where a database's files are.", option.OnOff(&o.force)).For("ha-measure-disk ha-measure-network ha-simulate ha-plan").CommonTo("ha-measure-disk"),
		option.New("listen", "on/off", "off", "Be the other end, at this address. It is all, and port 7455, unless it says otherwise.", option.OnOff(&o.listen)).For("ha-measure-network").CommonTo("ha-measure-network"),
		option.New("once", "on/off", "off", "As the other end: end when the first peer has gone.", option.OnOff(&o.once)).For("ha-measure-network ha-simulate").CommonTo("ha-measure-network"),
		option.New("secret-file", "file", "", "File with the secret that both sides share. It has 16 bytes or more; default: TIDEMARK_HA_SECRET. Needed to listen where other machines reach it.", option.Text(&o.secret.file)).For("ha-measure-network ha-simulate ha-plan").CommonTo("ha-measure-network ha-simulate ha-plan"),
		option.New("delay", "duration", "0s", "Add so much to each round trip. It goes through a proxy in this process.", option.Duration(&o.delay)).For("ha-measure-network ha-simulate ha-plan").CommonTo("ha-simulate ha-plan"),
		option.New("bandwidth", "text", "0", "The same with a rate, such as 10MiB/s or 100Mbit/s; 0 does not limit it.", bytesPerSecond(&o.rate)).For("ha-measure-network ha-simulate ha-plan"),
		option.New("flush-size", "size", "0", "How large flushes are: for the buffer's size (ha measure network); of Db2's modes, where 0 is 64kB (ha simulate).", option.Size(&o.flush)).For("ha-measure-network ha-simulate"),
	}.In(option.Measuring)
}

func (o *measureOptions) dirTable() option.Table {
	return option.Table{
		option.New("dir", "file", "", "Write the log below this folder. Without it, writes take no time. Of who listens: the same, and its disk may be measured from the other side.", option.Text(&o.dir)).For("ha-simulate ha-measure-network").CommonTo("ha-simulate ha-measure-network"),
	}.In(option.Measuring)
}

func (o *measureOptions) table() option.Table { return option.Join(o.wayTable(), o.dirTable()) }

// trialOptions are those of measuring and shipping.
type trialOptions struct {
	sitesOptions
	measureOptions
	outputOptions
}

func (o *trialOptions) Table() option.Table {
	return option.Join(o.sitesOptions.table(), o.measureOptions.table(), o.outputOptions.table())
}

// bytesPerSecond is a rate; 0 is none.
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
