//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// compiled are the tests of packages that several units run: linking them takes longer than many a
// unit does.
type compiled struct {
	mu    sync.Mutex
	files map[string]func() string // by row
	left  map[string]int           // units of a row that have not run
}

// expect counts the units that will run.
func (c *compiled) expect(units []unit) {
	c.files, c.left = map[string]func() string{}, map[string]int{}
	for _, u := range units {
		c.left[u.row()]++
	}
}

// of returns the file of a unit's compiled tests. It returns "" if the unit is the only one of its
// row, and if they do not compile: go test says why.
func (c *compiled) of(ctx context.Context, top string, u unit) string {
	c.mu.Lock()
	file := c.files[u.row()]
	if file == nil {
		file = func() string { return "" }
		if c.left[u.row()] > 1 {
			file = sync.OnceValue(func() string { return compile(ctx, top, u) })
		}
		c.files[u.row()] = file
	}
	c.mu.Unlock()
	return file()
}

// ran removes the file after the last unit of a row.
func (c *compiled) ran(u unit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left[u.row()]--; c.left[u.row()] == 0 && c.files[u.row()] != nil {
		if file := c.files[u.row()](); file != "" {
			_ = os.RemoveAll(filepath.Dir(file)) // what is left is removed at the end
		}
	}
}

// compile puts the file in a folder that other users cannot enter, as go test does: some tests
// expect that these cannot run it.
func compile(ctx context.Context, top string, u unit) string {
	dir, err := os.MkdirTemp("", "compiled-")
	if err != nil {
		return ""
	}
	file := filepath.Join(dir, path.Base(u.pkg)+".test")
	args := append(u.build(top), "-c", "-o", file, path.Join(module, u.pkg))
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, args...)...)
	setEnv(cmd, u.what == raced, nil)
	if cmd.Run() != nil {
		return ""
	}
	return file
}

// test returns the command that runs a unit with compiled tests, and prints what go test -json
// does.
func (u unit) test(ctx context.Context, top, file string, seed uint64) *exec.Cmd {
	args := []string{"tool", "test2json", "-t", "-p", path.Join(module, u.pkg), file, "-test.v=test2json", "-test.paniconexit0"}
	for _, arg := range u.choice() {
		args = append(args, strings.Replace(arg, "-", "-test.", 1))
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(top, u.pkg)
	setEnv(cmd, u.what == raced, u.variables(seed))
	return cmd
}
