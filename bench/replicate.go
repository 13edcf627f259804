package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A follow is one way for tidemark to bring the target up to date.
type follow struct {
	name    string
	stream  string // "": main, which has the durable queue
	seed    string // of the target; "": the first
	extra   fact   // what that state has on the table account in addition
	near    bool   // not through the link
	options []string
}

func (f *follow) begin() string {
	if f.seed == "" {
		return seed
	}
	return f.seed
}

// streamRate is the rows/s in tidemark's own report, counted from when it is connected.
const streamRate = "rows/s of the stream"

// followTool brings the target up to date with tidemark.
func (b *bench) followTool(a *arena, f follow) tool {
	if f.stream == "" {
		f.stream = streams[0]
	}
	return tool{name: f.name, into: a.target, extra: map[string]fact{"account": f.extra}, before: a.rewind(f.begin()), figures: streamFigures, steps: func(scratch string) ([][]step, error) {
		state := filepath.Join(scratch, "streams")
		if err := os.CopyFS(state, os.DirFS(a.backlog.streams)); err != nil {
			return nil, err
		}
		target := a.target.reach(database)
		if f.near {
			target = a.target.url(database)
		}
		args := append([]string{b.tidemark, "replicate", a.source.url(database), target, "--name", f.stream, "--until", "now", "--json"}, f.options...)
		if f.near {
			args = append(args, "--target-moved")
		}
		args = append(args, strings.Fields(b.tidemarkArgs)...)
		return [][]step{{{args: args, env: []string{"TIDEMARK_STATE=" + filepath.Join(state, "catalog.db")}}}}, nil
	}}
}

// streamFigures parses tidemark's report.
func streamFigures(log string) (map[string]float64, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	var out struct {
		Event  string
		Report struct {
			Stream struct {
				Rate float64 `json:"rows_per_second"`
			}
		}
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, `{"event":"report"`) {
			if err := json.Unmarshal([]byte(line), &out); err != nil {
				return nil, err
			}
		}
	}
	if out.Event == "" {
		return nil, fmt.Errorf("no report in %s", log)
	}
	return map[string]float64{streamRate: out.Report.Stream.Rate}, nil
}

// reading is rows/s between the first and the last row: it excludes a program's startup.
const reading = "rows/s while reading"

// printedFigures parses the line in which our own programs print their figures.
func printedFigures(log string) (map[string]float64, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if figures, ok := strings.CutPrefix(line, "figures: "); ok {
			out := map[string]float64{}
			return out, json.Unmarshal([]byte(figures), &out)
		}
	}
	return nil, fmt.Errorf("no figures in %s", log)
}

// subscription brings the target up to date with PostgreSQL's own replication, with its defaults.
func subscription(a *arena, f follow) tool {
	return tool{name: f.name, rival: true, into: a.target, extra: map[string]fact{"account": f.extra}, before: a.rewind(f.begin()), steps: func(string) ([][]step, error) {
		source := fmt.Sprintf("host=127.0.0.1 port=%d user=%s password=%s dbname=%s", a.source.port, account, password, database)
		return [][]step{one(postgresBin+"/psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-d", a.target.url(database),
			"-c", "CREATE SUBSCRIPTION native CONNECTION '"+source+"' PUBLICATION "+publication+" WITH (create_slot = false, slot_name = 'tidemark_main', copy_data = false)",
			"-c", "DO $$BEGIN LOOP EXIT WHEN EXISTS (SELECT FROM finish); PERFORM pg_sleep(0.01); END LOOP; END$$")}, nil
	}}
}

// captureTool captures into nothing.
func captureTool(a *arena) tool {
	return tool{name: "tidemark", before: a.rewind(seed), figures: printedFigures, steps: func(string) ([][]step, error) {
		log := a.backlog
		where := publication
		if a.source.engine != "postgres" {
			where = log.file + ":" + strconv.Itoa(log.pos)
		}
		return [][]step{one(log.program, "capture", a.source.url(database), "tidemark_main", where, strconv.Itoa(log.transactions))}, nil
	}}
}

// recvlogical captures into nothing with PostgreSQL's own streaming client.
func recvlogical(a *arena) tool {
	return tool{name: "pg_recvlogical", rival: true, before: a.rewind(seed), steps: func(string) ([][]step, error) {
		return [][]step{one(postgresBin+"/pg_recvlogical", "-d", a.source.url(database), "--slot", "tidemark_main", "--start", "--no-loop", "--endpos", a.backlog.end,
			"-o", "proto_version=1", "-o", "publication_names="+publication, "-f", os.DevNull)}, nil
	}}
}

// mysqlbinlog runs MySQL's own client for its log: it decodes nothing, and writes the bytes to a
// file.
func mysqlbinlog(a *arena) tool {
	program := "mariadb-binlog"
	if a.source.engine == "mysql" {
		program = filepath.Join(mysqlDist(), "bin", "mysqlbinlog")
	}
	return tool{name: "mysqlbinlog --raw", rival: true, before: a.rewind(seed), steps: func(scratch string) ([][]step, error) {
		log := a.backlog
		return [][]step{one(program, "--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port="+strconv.Itoa(a.source.port), "--user="+account, "--password="+password,
			"--read-from-remote-server", "--to-last-log", "--raw", "--result-file="+scratch+"/", "--start-position="+strconv.Itoa(log.pos), log.file)}, nil
	}}
}

func captureTools(b *bench, a *arena) []tool {
	if a.source.engine == "postgres" {
		return []tool{captureTool(a), debezium(b, a), recvlogical(a)}
	}
	return []tool{captureTool(a), debezium(b, a), mysqlbinlog(a)}
}

func catchUpTools(b *bench, a *arena) []tool {
	return []tool{b.followTool(a, follow{name: "tidemark"}), b.followTool(a, follow{name: transactional, options: applyMode("transactional")}),
		b.followTool(a, follow{name: batch, options: applyMode("batch")}),
		b.followTool(a, follow{name: "tidemark, direct", stream: "direct", options: applyMode("transactional")}), subscription(a, follow{name: "subscription"})}
}

// Names of tools used in goals.
const (
	transactional = "tidemark, transactional"
	batch         = "tidemark, batch"
)

func applyMode(mode string) []string { return []string{"--apply-mode", mode} }

// acrossTools have no rival.
func acrossTools(b *bench, a *arena) []tool {
	return []tool{b.followTool(a, follow{name: "tidemark"}), b.followTool(a, follow{name: transactional, options: applyMode("transactional")}),
		b.followTool(a, follow{name: "tidemark, direct", stream: "direct"})}
}

// near is the same without a link.
const near = "near"

func farTools(b *bench, a *arena) (out []tool) {
	for _, f := range []follow{{name: "tidemark"}, {name: transactional, options: applyMode("transactional")}, {name: near, near: true}, {name: near + ", transactional", near: true, options: applyMode("transactional")}} {
		f.stream = "direct"
		out = append(out, b.followTool(a, f))
	}
	return out
}

// oneParent is the state of the target in which all accounts are children of one row.
const oneParent = "one_parent"

var oneParentSQL = map[string][]string{oneParent: {"ALTER TABLE account ADD FOREIGN KEY (country) REFERENCES country"}}

func agentTools(b *bench, a *arena) (out []tool) {
	for _, n := range []string{"16", "8", "4", "1"} {
		options := append([]string{"--agents", n, "--commit-count", "1"}, applyMode("transactional")...)
		out = append(out, b.followTool(a, follow{name: n + " agents", stream: "direct", options: options}))
		if n == "16" || n == "8" {
			out = append(out, b.followTool(a, follow{name: n + " agents, one parent", stream: "direct", seed: oneParent, extra: fact{ForeignKeys: 1}, options: options}))
		}
	}
	return out
}

var uniqueSQL = map[string][]string{
	"unique3": {"CREATE UNIQUE INDEX ON account (c4)", "CREATE UNIQUE INDEX ON account (mail)"},
	"unique5": {"CREATE UNIQUE INDEX ON account (c4)", "CREATE UNIQUE INDEX ON account (mail)", "CREATE UNIQUE INDEX ON account (c5)", "CREATE UNIQUE INDEX ON account (holder)"},
}

// uniqueTools run with one, three and five unique indexes on the target's table.
func uniqueTools(b *bench, a *arena) (out []tool) {
	all := []follow{{name: "1 index"}, {name: "3 indexes", seed: "unique3", extra: fact{Indexes: 2}}, {name: "5 indexes", seed: "unique5", extra: fact{Indexes: 4}}}
	for _, f := range all {
		f.options = applyMode("transactional")
		out = append(out, b.followTool(a, f))
	}
	for _, f := range all {
		f.name = "subscription, " + f.name
		out = append(out, subscription(a, f))
	}
	return out
}
