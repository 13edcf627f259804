package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/tidemarkdb/tidemark/ha/measure"
)

// tidemark ha measure is compared with fio, iperf3 and sockperf: each figure must be within a
// twentieth of theirs.
const (
	tcpRate   = "TCP, MiB/s"
	roundTrip = "round trip of 48 bytes, p50 us"
)

// syncSizes are in kB.
var syncSizes = []int{8, 64, 1024}

func syncFigure(kB int, direct bool) string {
	if direct {
		return fmt.Sprintf("O_DSYNC, O_DIRECT, %d kB, p50 us", kB)
	}
	return fmt.Sprintf("O_DSYNC, %d kB, p50 us", kB)
}

func measureGoals() (out []goal) {
	within := func(tool, figure, of string) {
		out = append(out, goal{tool: tool, figure: figure, of: of, least: 0.95}, goal{tool: tool, figure: figure, of: of, most: 1.05})
	}
	for _, kB := range syncSizes {
		within("tidemark disk", syncFigure(kB, false), "fio")
		within("tidemark disk", syncFigure(kB, true), "fio")
	}
	within("tidemark network", tcpRate, "iperf3")
	within("tidemark network", roundTrip, "sockperf")
	return out
}

// setUpMeasure fills nothing: the tools create their own files.
func setUpMeasure(context.Context, *bench, *arena) error { return nil }

func measureTools(b *bench, _ *arena) []tool {
	sh := func(script string, args ...string) [][]step {
		return [][]step{one(append([]string{"sh", "-c", script, "sh"}, args...)...)}
	}
	return []tool{
		{name: "tidemark disk", figures: diskFigures, steps: func(scratch string) ([][]step, error) {
			return [][]step{one(b.tidemark, "ha", "measure", "disk", scratch, "--engine", "db2", "--time", "20s", "--json")}, nil
		}},
		{name: "fio", rival: true, figures: fioFigures, steps: func(scratch string) ([][]step, error) {
			args := []string{"fio", "--output-format=json", "--directory=" + scratch, "--filename=log", "--rw=write", "--ioengine=psync", "--sync=dsync",
				"--overwrite=1", "--size=64m", "--time_based", "--runtime=3", "--lat_percentiles=1", "--percentile_list=50"}
			for _, kB := range syncSizes {
				for direct := range 2 {
					args = append(args, "--name="+syncFigure(kB, direct == 1), fmt.Sprintf("--bs=%dk", kB), fmt.Sprintf("--direct=%d", direct), "--stonewall")
				}
			}
			return [][]step{one(args...)}, nil
		}},
		{name: "tidemark network", figures: linkFigures, steps: func(string) ([][]step, error) {
			port, err := freePort()
			return sh(`"$1" ha measure network --listen --once 127.0.0.1:$2 2>/dev/null & sleep 0.5; "$1" ha measure network 127.0.0.1:$2 --time 20s --json; wait`, b.tidemark, strconv.Itoa(port)), err
		}},
		{name: "iperf3", rival: true, figures: iperfFigures, steps: func(string) ([][]step, error) {
			port, err := freePort()
			return sh(`iperf3 -s -1 -B 127.0.0.1 -p $1 >/dev/null & sleep 0.5; iperf3 -c 127.0.0.1 -p $1 -O 1 -t 5 -J; wait`, strconv.Itoa(port)), err
		}},
		{name: "sockperf", rival: true, figures: sockperfFigures, steps: func(string) ([][]step, error) {
			port, err := freePort()
			return sh(`sockperf server --tcp -i 127.0.0.1 -p $1 >/dev/null & s=$!; sleep 0.5; sockperf ping-pong --tcp -i 127.0.0.1 -p $1 -t 4 -m 48 --full-rtt; e=$?; kill $s; exit $e`, strconv.Itoa(port)), err
		}},
	}
}

// loggedJSON parses the only JSON document in a log.
func loggedJSON(log string, v any) error {
	text, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	at := bytes.IndexByte(text, '{')
	if at < 0 {
		return fmt.Errorf("no figures in %s", filepath.Base(log))
	}
	return json.NewDecoder(bytes.NewReader(text[at:])).Decode(v)
}

func diskFigures(log string) (map[string]float64, error) {
	var r measure.DiskReport
	if err := loggedJSON(log, &r); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, s := range r.Series {
		if s.Sync != measure.ODSync || s.Fresh {
			continue
		}
		for _, z := range s.Sizes {
			for _, kB := range syncSizes {
				if z.Bytes == kB<<10 {
					out[syncFigure(kB, s.Direct)] = z.Times.P50 * 1e6
				}
			}
		}
	}
	return out, nil
}

func fioFigures(log string) (map[string]float64, error) {
	var r struct {
		Jobs []struct {
			Name  string `json:"jobname"`
			Write struct {
				Latency struct {
					Percentile map[string]float64 `json:"percentile"`
				} `json:"lat_ns"`
			} `json:"write"`
		} `json:"jobs"`
	}
	if err := loggedJSON(log, &r); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, j := range r.Jobs {
		out[j.Name] = j.Write.Latency.Percentile["50.000000"] / 1e3
	}
	return out, nil
}

func linkFigures(log string) (map[string]float64, error) {
	var r measure.LinkReport
	if err := loggedJSON(log, &r); err != nil {
		return nil, err
	}
	if len(r.Rates) == 0 {
		return nil, errors.New("no rates")
	}
	return map[string]float64{tcpRate: r.Rates[0].Rate / (1 << 20), roundTrip: r.Idle.P50 * 1e6}, nil
}

func iperfFigures(log string) (map[string]float64, error) {
	var r struct {
		End struct {
			Received struct {
				Bits float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	err := loggedJSON(log, &r)
	return map[string]float64{tcpRate: r.End.Received.Bits / 8 / (1 << 20)}, err
}

var sockperfMedian = regexp.MustCompile(`percentile 50\.000 = +([0-9.]+)`)

func sockperfFigures(log string) (map[string]float64, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	m := sockperfMedian.FindSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("no figures in %s", filepath.Base(log))
	}
	us, err := strconv.ParseFloat(string(m[1]), 64)
	return map[string]float64{roundTrip: us}, err
}
