package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// A tool is one way of doing a job.
type tool struct {
	name  string
	into  *server // emptied before each run, and verified after it; nil: nothing is written
	rival bool
	// extra is what the target's tables have in addition to the source's: indexes, foreign keys.
	extra map[string]fact
	// figures parses further figures of a run from the log; nil: none.
	figures func(log string) (map[string]float64, error)
	// before creates the initial state; nil: empty into instead.
	before func(context.Context) error
	// steps returns the commands, step after step; those of one step run concurrently. scratch is
	// an empty folder for the run.
	steps func(scratch string) ([][]step, error)
}

// A step is a command of a tool.
type step struct {
	args  []string
	env   []string // in addition to ours
	stdin string   // a file; "": none
}

func one(args ...string) []step { return []step{{args: args}} }

// tidemarkTool runs tidemark with a user's defaults.
func (b *bench) tidemarkTool(verb, source, target string, into *server) tool {
	state := func(scratch string) []string {
		return []string{"TIDEMARK_STATE=" + filepath.Join(scratch, "catalog.db")}
	}
	t := tool{name: "tidemark", into: into, steps: func(scratch string) ([][]step, error) {
		args := append([]string{b.tidemark, verb, source, target, "--progress", "none"}, strings.Fields(b.tidemarkArgs)...)
		return [][]step{{{args: args, env: state(scratch)}}}, nil
	}}
	if verb == "copy" && into != nil {
		t.figures = func(string) (map[string]float64, error) {
			report := exec.Command(b.tidemark, "report", "last", "--json")
			report.Env = append(os.Environ(), state(b.scratch())...)
			text, err := report.Output()
			if err != nil {
				return nil, fmt.Errorf("tidemark report: %w", err)
			}
			return proofFigures(text)
		}
	}
	return t
}

// proofShare is the part of a copy's time in which the target's definitions are compared with what
// was planned, in percent.
const proofShare = "% of the time for the proof"

// proofFigures parses a report as JSON.
func proofFigures(text []byte) (map[string]float64, error) {
	var said struct {
		Run struct {
			Report struct {
				Seconds float64
				Objects []struct {
					ID      string
					Seconds float64
				}
			}
		}
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return nil, err
	}
	for _, o := range said.Run.Report.Objects {
		if strings.HasPrefix(o.ID, "comparison of ") {
			return map[string]float64{proofShare: 100 * o.Seconds / said.Run.Report.Seconds}, nil
		}
	}
	return nil, errors.New("no time of the proof in tidemark's report")
}

// pgcopydb clones with that many jobs; it splits tables larger than split bytes, if split is above
// 0.
func pgcopydb(a *arena, jobs int, split int64) tool {
	name := fmt.Sprintf("pgcopydb -j%d", jobs)
	if split > 0 {
		name += " split"
	}
	return tool{name: name, rival: true, into: a.target, steps: func(scratch string) ([][]step, error) {
		n := strconv.Itoa(jobs)
		args := []string{"pgcopydb", "clone", "--source", a.source.reach(database), "--target", a.target.reach(database),
			"--table-jobs", n, "--index-jobs", n, "--dir", filepath.Join(scratch, "pgcopydb")}
		if split > 0 {
			args = append(args, "--split-tables-larger-than", strconv.FormatInt(split, 10))
		}
		// It runs pg_dump and pg_restore, which must have the servers' version.
		return [][]step{{{args: args, env: []string{"PATH=" + postgresBin + ":" + os.Getenv("PATH")}}}}, nil
	}}
}

// pgDump dumps into a folder and restores it; extra are options of pg_dump.
func pgDump(a *arena, extra ...string) tool {
	return tool{name: strings.Join(append([]string{"pg_dump -j2"}, extra...), " "), rival: true, into: a.target, steps: func(scratch string) ([][]step, error) {
		dir := filepath.Join(scratch, "dump")
		dump := append([]string{postgresBin + "/pg_dump", "-Fd", "-j2", "-f", dir, "-d", a.source.reach(database)}, extra...)
		return [][]step{one(dump...), one(postgresBin+"/pg_restore", "-j2", "-d", a.target.reach(database), dir)}, nil
	}}
}

// pgloader loads with the settings beyond which it exhausts its heap on this data.
func pgloader(a *arena) tool {
	return tool{name: "pgloader", rival: true, into: a.target, steps: func(scratch string) ([][]step, error) {
		file := filepath.Join(scratch, "shop.load")
		text := fmt.Sprintf("LOAD DATABASE\n FROM %s\n INTO %s\n WITH workers = 2, concurrency = 1, prefetch rows = 2000\n;\n",
			a.source.reach(database), strings.Replace(a.target.reach(database), "postgres:", "postgresql:", 1))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		return [][]step{one("pgloader", "--root-dir", scratch, file)}, nil
	}}
}

// mydumper dumps and loads with four threads; it splits tables into chunks of that many rows, if
// rows is above 0.
func mydumper(a *arena, rows int) tool {
	name := "mydumper -t4"
	if rows > 0 {
		name += " -r"
	}
	return tool{name: name, rival: true, into: a.target, steps: func(scratch string) ([][]step, error) {
		dir := filepath.Join(scratch, "dump")
		dump := append([]string{"mydumper", "-o", dir}, mydumperLogin(a.source)...)
		if rows > 0 {
			dump = append(dump, "-r", strconv.Itoa(rows))
		}
		return [][]step{one(dump...), one(append([]string{"myloader", "-d", dir}, mydumperLogin(a.target)...)...)}, nil
	}}
}

func mydumperLogin(s *server) []string {
	return []string{"-h", "127.0.0.1", "-P", strconv.Itoa(cmp.Or(s.far, s.port)), "-u", account, "-p", password, "-B", database, "-t", "4"}
}

// mariadbImport feeds the dump to MariaDB's own client.
func mariadbImport(a *arena, into *server) tool {
	return tool{name: "mariadb < file", rival: true, into: into, steps: func(string) ([][]step, error) {
		return [][]step{{{args: []string{"mariadb", "--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--port=" + strconv.Itoa(cmp.Or(into.far, into.port)),
			"--user=" + account, "--password=" + password, database}, stdin: a.file}}}, nil
	}}
}

// copyToNowhere reads everything on both sides concurrently: on the server, or through the client.
func copyToNowhere(a *arena, to string) tool {
	name := map[string]string{"'/dev/null'": "COPY TO file", "STDOUT": "COPY TO client"}[to]
	return tool{name: name, rival: true, steps: func(string) ([][]step, error) {
		var both []step
		for _, s := range []*server{a.source, a.target} {
			args := []string{postgresBin + "/psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-o", os.DevNull, "-d", s.url(database)}
			for _, t := range a.tables {
				args = append(args, "-c", "COPY "+t.name+" TO "+to)
			}
			both = append(both, step{args: args})
		}
		return [][]step{both}, nil
	}}
}
