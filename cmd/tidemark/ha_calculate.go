package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/ha"
)

func haCalculateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "calculate FILE",
		Short: "Say what each way of synchronous replication would carry, and what commits would cost",
		Long: `Take a scan of a log, a disk and a network, and calculate for each mode of synchronous
replication whether it carries the log's rate, and with which flushes.

The modes are those of the engine whose log was scanned (--engine says another). Say a
network for each standby. FILE is what ha scan has written, as text or as JSON, or the text of Db2's db2logscan;
- is standard input. With Db2's formulas a text is copied, with lines added.`,
		Example: `  tidemark ha calculate daily.scan --disk 200MiB/s,1ms --network 10MiB/s,100ms
  tidemark ha calculate daily.scan --disk disk.json --network network.json --json
  tidemark ha calculate daily.scan --disk 200MiB/s,1ms --network 1Gbit/s,1ms --network 1Gbit/s,20ms --quorum 'ANY 1' --clients 50
  db2logscan S*.LOG | tidemark ha calculate - --disk 200,0.001 --network 10,0.1 --syncmode SYNC,NEARSYNC`,
		Args: args(1, 1, "ha calculate FILE --disk RATE,OVERHEAD --network RATE,RTT"),
	}
	read := flagsAs(cmd, "ha-calculate")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		s, err := read(nil)
		if err != nil {
			return err
		}
		return s.calculate(cmd, given[0])
	}
	return cmd
}

func (s *settings) calculate(cmd *cobra.Command, file string) error {
	for _, x := range []struct {
		name  string
		given bool
	}{{"disk", s.simulatedDisk() != nil}, {"network", len(s.ha.networks) > 0}} {
		if !x.given {
			return tidemark.Errorf(tidemark.Invalid, "calculate", "", "no --"+x.name, "tidemark ha measure "+x.name+" finds it out; tidemark ha calculate --help has examples")
		}
	}
	text, err := readAll(cmd.InOrStdin(), file)
	if err != nil {
		return err
	}
	p, err := ha.ReadProfile(text, file)
	if err != nil {
		return err
	}
	engine := s.ha.engine
	if engine == "" {
		engine = p.Engine
	}
	if engine == "db2" {
		return s.calculateDb2(cmd, p, string(text))
	}
	return s.calculateModels(cmd, p, engine)
}

// calculateModels calculates the modes of PostgreSQL, MySQL and MariaDB.
func (s *settings) calculateModels(cmd *cobra.Command, p *ha.Profile, engine string) error {
	sites := ha.Sites{Engine: engine, Primary: s.ha.disk, Wait: s.ha.waitFor, Any: s.ha.waitAny, Free: float64(s.ha.free), Outage: s.ha.outage.Seconds()}
	if engine == p.Engine {
		sites.Version = p.Version
	}
	for i, n := range s.ha.networks {
		sites.Standbys = append(sites.Standbys, ha.Standby{Name: fmt.Sprintf("standby%d", i+1), Network: n, Disk: s.ha.disk})
	}
	var names []string
	if s.ha.modes != "" {
		for name := range strings.SplitSeq(s.ha.modes, ",") {
			names = append(names, strings.TrimSpace(name))
		}
	}
	f, err := ha.Predict(p.Load(s.ha.clients, s.ha.disk), sites, names...)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if s.json {
		printJSON(w, f)
		return nil
	}
	busy := p.Busiest()
	fmt.Fprintf(w, "%s, the busiest of %s: %s\n", engineTitles[engine], count(len(p.Intervals), "interval"), busy.Line())
	if p.Flushes.Basis != "" {
		fmt.Fprintf(w, "Flushes of the scan: %s\n", p.Flushes)
	}
	fmt.Fprint(w, f.Text())
	return nil
}

func (s *settings) calculateDb2(cmd *cobra.Command, p *ha.Profile, text string) error {
	c := ha.Db2{Disk: s.ha.disk, Network: s.ha.networks[0]}
	if s.ha.modes != "" {
		modes, bad := ha.ParseDb2Modes(s.ha.modes)
		if bad != "" {
			return tidemark.Errorf(tidemark.Invalid, "calculate", bad, "is no mode of Db2", "its modes are SYNC, NEARSYNC, ASYNC and SUPERASYNC")
		}
		c.Modes = modes
	}
	note := ""
	if p.Engine != "db2" {
		note = "These are Db2's formulas, where the log waits for the network. " + engineTitles[p.Engine] + " does not wait so: take them for a comparison only."
	}
	if s.json {
		r := c.Report(p)
		if note != "" {
			r.Findings = []string{note}
		}
		printJSON(cmd.OutOrStdout(), r)
		return nil
	}
	if note != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		var b strings.Builder
		if err := p.WriteText(&b, 0); err != nil {
			return err
		}
		text = b.String()
	}
	return c.Annotate(cmd.OutOrStdout(), text)
}

var engineTitles = map[string]string{"postgres": "PostgreSQL", "mysql": "MySQL", "mariadb": "MariaDB"}

// readAll reads a file, or standard input where its name is -.
func readAll(stdin io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, &tidemark.Error{Op: "read scan", Kind: tidemark.NotFound, Hint: "tidemark ha scan LOG > " + file + " makes one", Err: err}
	}
	return text, nil
}

// parseQuorum reads PostgreSQL's FIRST n or ANY n.
func parseQuorum(s *settings, v string) error {
	how, n, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(v)), " ")
	k, err := strconv.Atoi(strings.TrimSpace(n))
	if err != nil || k < 1 || how != "FIRST" && how != "ANY" {
		return fmt.Errorf("must be FIRST n or ANY n, such as ANY 1")
	}
	s.ha.waitFor, s.ha.waitAny = k, how == "ANY"
	return nil
}

// parseDisk reads RATE,OVERHEAD or a file.
func parseDisk(v string) (d ha.Disk, err error) {
	rate, overhead, ok := strings.Cut(v, ",")
	if !ok {
		if err := readMeasured(v, "RATE,OVERHEAD such as 200MiB/s,1ms", &d); err != nil {
			return d, err
		}
		if d.Rate == 0 && d.Overhead > 0 {
			return d, nil // no limit was seen
		}
		return d, positive(d.Rate, d.Overhead)
	}
	if d.Rate, err = parseRate(rate); err != nil {
		return d, err
	}
	d.Overhead, err = parseSeconds(overhead)
	return d, err
}

// parseNetwork reads RATE,RTT or a file.
func parseNetwork(v string) (n ha.Network, err error) {
	rate, rtt, ok := strings.Cut(v, ",")
	if !ok {
		if err := readMeasured(v, "RATE,RTT such as 10MiB/s,100ms", &n); err != nil {
			return n, err
		}
		return n, positive(n.Rate, n.RTT)
	}
	if n.Rate, err = parseRate(rate); err != nil {
		return n, err
	}
	n.RTT, err = parseSeconds(rtt)
	return n, err
}

// readMeasured reads what ha measure has found out.
func readMeasured(file, form string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("must be %s, or a file that tidemark ha measure has written with --json", form)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the file is not what tidemark ha measure writes with --json: %w", err)
	}
	return nil
}

func positive(rate, seconds float64) error {
	if rate <= 0 || seconds < 0 {
		return fmt.Errorf("the file has no rate (bytes_per_second) above 0")
	}
	return nil
}

// Units of rates, in bytes a second, and of times, in seconds.
var (
	rateUnits = map[string]float64{"": ha.MiB, "B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "KiB/s": 1 << 10, "MiB/s": ha.MiB, "GiB/s": 1 << 30,
		"kbit/s": 1e3 / 8, "Mbit/s": 1e6 / 8, "Gbit/s": 1e9 / 8}
	timeUnits = map[string]float64{"": 1, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
)

func parseRate(v string) (float64, error) {
	rate, err := withUnit(v, rateUnits)
	if err != nil || rate <= 0 {
		return 0, fmt.Errorf("%q must be a rate above 0, such as 200MiB/s, 10MB/s or 1Gbit/s", v)
	}
	return rate, nil
}

func parseSeconds(v string) (float64, error) {
	s, err := withUnit(v, timeUnits)
	if err != nil || s < 0 {
		return 0, fmt.Errorf("%q must be a time of 0 or more, such as 0.5ms, 100us or 0.001s", v)
	}
	return s, nil
}

func withUnit(v string, units map[string]float64) (float64, error) {
	v = strings.TrimSpace(v)
	end := strings.IndexFunc(v, func(r rune) bool { return !strings.ContainsRune("0123456789.eE+-", r) })
	if end < 0 {
		end = len(v)
	}
	n, err := strconv.ParseFloat(v[:end], 64)
	unit, ok := units[strings.TrimSpace(v[end:])]
	if err != nil || !ok || n > 1e15 {
		return 0, strconv.ErrSyntax
	}
	return n * unit, nil
}
