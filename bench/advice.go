package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark/ha/measure"
)

// Figures of what advice is worth: what a first copy says that a change would gain, and how much
// faster a second one with that change was.
const (
	predicted = "predicted gain, s"
	gained    = "gained, s"
	foretold  = "predicted / gained"
)

// narrow is the link of gain-link: slower than the target.
var narrow = measure.Line{Rate: 40e6}

// setUpGainLink puts a slow link in front of the target of pg-shop.
func setUpGainLink(ctx context.Context, b *bench, a *arena) error {
	if err := setUpPgShop(ctx, b, a); err != nil {
		return err
	}
	return a.behind(narrow, a.target)
}

func gainLinkTools(b *bench, a *arena) []tool {
	return []tool{b.gainTool(a, []string{a.target.reach(database)}, []string{a.target.url(database)})}
}

func gainLanesTools(b *bench, a *arena) []tool {
	to := a.target.url(database)
	return []tool{b.gainTool(a, []string{to, "--lanes", "1"}, []string{to, "--lanes", "2"})}
}

// gainTool copies twice, to a target with options: as it is, and as the first advice wants it.
func (b *bench) gainTool(a *arena, now, then []string) tool {
	t := tool{name: "tidemark", into: a.target, figures: gainFigures}
	t.steps = func(scratch string) (all [][]step, err error) {
		for _, to := range [][]string{now, append([]string{then[0], "--prep", "drop"}, then[1:]...)} {
			args := append([]string{b.tidemark, "copy", a.source.url(database), to[0], "--progress", "none"}, to[1:]...)
			args = append(args, strings.Fields(b.tidemarkArgs)...)
			all = append(all, []step{{args: args, env: []string{"TIDEMARK_STATE=" + filepath.Join(scratch, "catalog.db")}}})
		}
		return all, nil
	}
	return t
}

var (
	tookText = regexp.MustCompile(` rows, .* in ([0-9.]+) s \(`)
	gainText = regexp.MustCompile(`would gain at most ([0-9.]+) s`)
)

// gainFigures reads the reports of both copies. A first one that promises nothing has predicted
// no gain.
func gainFigures(file string) (map[string]float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	log := string(text)
	took := tookText.FindAllStringSubmatchIndex(log, -1)
	if len(took) != 2 {
		return nil, fmt.Errorf("%d reports of copies in the log, not 2", len(took))
	}
	number := func(from, to int) float64 {
		n, _ := strconv.ParseFloat(log[from:to], 64) // digits and a point
		return n
	}
	f := map[string]float64{gained: number(took[0][2], took[0][3]) - number(took[1][2], took[1][3])}
	if m := gainText.FindStringSubmatchIndex(log); m != nil && m[0] < took[1][0] {
		f[predicted] = number(m[2], m[3])
	}
	if f[gained] > 0 {
		f[foretold] = f[predicted] / f[gained]
	}
	return f, nil
}
