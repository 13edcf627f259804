package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/postgres/physical"
)

// A serverUser is the user who will run the server on a restored folder, as far as that is known:
// the owner of its files.
type serverUser struct {
	uid, gid    int
	other       bool // it is not this process's user
	name, group string
	known       bool // to this host, by name
}

func userOf(m *repo.Manifest) serverUser {
	uid, gid, given := backup.Owner(m)
	if !given || uid == os.Geteuid() {
		return serverUser{name: "this user"}
	}
	u := serverUser{uid: uid, gid: gid, other: true, name: strconv.Itoa(uid), group: strconv.Itoa(gid)}
	if known, err := user.LookupId(u.name); err == nil {
		u.name, u.known = known.Username, true
	}
	if known, err := user.LookupGroupId(u.group); err == nil {
		u.group = known.Name
	}
	return u
}

// words are those that run a command as that user.
func (u serverUser) words() []string {
	switch {
	case !u.other:
		return nil
	case !u.known:
		return []string{"setpriv", "--reuid", u.name, "--regid", u.group, "--clear-groups"}
	case runtime.GOOS == "linux":
		return []string{"runuser", "-u", u.name, "--"}
	}
	return []string{"sudo", "-u", u.name}
}

// command is a command line run as that user.
func (u serverUser) command(ctx context.Context, words ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = "/"
	if u.other {
		runAs(cmd, u.uid, u.gid)
	}
	return cmd
}

// reach checks that the user can enter folders, of which the last ones need not exist yet.
func (u serverUser) reach(ctx context.Context, folders []string) error {
	if !u.other {
		return nil
	}
	for _, dir := range folders {
		var path []string // from the root down
		for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
			path = append([]string{up}, path...)
			if up == filepath.Dir(up) {
				break
			}
		}
		for _, p := range path {
			if _, err := os.Stat(p); err != nil {
				break // it will be created
			}
			if err := u.command(ctx, "/bin/sh", "-c", `cd -- "$0"`, p).Run(); err != nil && ctx.Err() == nil {
				return &tidemark.Error{Kind: tidemark.Forbidden, Op: "restore", Object: dir, Err: errors.New("the server's user " + u.name + " cannot enter " + p + ", so the server cannot start there"), Hint: "Allow it to enter with chmod o+x " + p + ", or name another folder."}
			}
		}
	}
	return nil
}

// fetch has the user fetch a WAL file as the server will.
func (u serverUser) fetch(ctx context.Context, words []string, name string) error {
	dir, err := os.MkdirTemp("", "tidemark-try-")
	if err != nil {
		return &tidemark.Error{Kind: tidemark.Forbidden, Op: "try restore_command", Object: os.TempDir(), Err: errors.New(cause(err).Error()), Hint: "Set TMPDIR to a folder that can be written to."}
	}
	defer os.RemoveAll(dir)
	if u.other {
		if err := os.Chown(dir, u.uid, u.gid); err != nil {
			return &tidemark.Error{Kind: tidemark.Forbidden, Op: "try restore_command", Object: dir, Err: errors.New(cause(err).Error()), Hint: "Set TMPDIR to a folder of a local file system."}
		}
	}
	for i := range words {
		switch words[i] {
		case "%f":
			words[i] = name
		case "%p":
			words[i] = filepath.Join(dir, name)
		}
	}
	out, err := u.command(ctx, words...).CombinedOutput()
	var exit *exec.ExitError
	if err == nil || ctx.Err() != nil || errors.As(err, &exit) && exit.ExitCode() == 1 { // 1: the log ends before that file
		return ctx.Err()
	}
	text := lastLines(string(out), 2)
	if text == "" {
		text = cause(err).Error()
	}
	hint := "Let that user read the repository and its keys and run the program (or name another with --program)."
	if place := words[3]; u.other && filepath.IsAbs(place) && strings.Contains(text, place) && strings.Contains(text, syscall.EACCES.Error()) {
		hint = fmt.Sprintf("Let it read the repository, and what will be added: chgrp -R %s %s && chmod -R g+rX %s", u.group, physical.ShellWord(place), physical.ShellWord(place))
	}
	return &tidemark.Error{Kind: tidemark.Forbidden, Op: "try restore_command", Object: words[0], Err: errors.New("the server's user " + u.name + " cannot fetch the log with it: " + text), Hint: hint}
}

// lastLines is the end of a text, in one line.
func lastLines(text string, n int) string {
	all := strings.FieldsFunc(text, func(c rune) bool { return c == '\n' })
	return strings.Join(all[max(0, len(all)-n):], "; ")
}

// tryOut checks, before anything is written, that the server's user can use the restored folder:
// enter it, and fetch the log if a recovery needs it.
func (o *restoreOptions) tryOut(ctx context.Context, warn io.Writer, m *repo.Manifest, dir string) error {
	u := userOf(m)
	if !u.other && os.Geteuid() == 0 {
		screen.Warn(warn, o.json, tidemark.Finding{Severity: tidemark.Warning, Object: dir, Text: "the backup does not say which user's files these were, or that they were root's: they will belong to root, as whom PostgreSQL does not start",
			Hint: "Give them to the server's user afterwards: chown -R postgres " + dir + "."})
	}
	folders := []string{dir}
	for _, t := range m.Tablespaces {
		to := t.Path
		if o.spaces[to] != "" {
			to = o.spaces[to]
		}
		folders = append(folders, to)
	}
	err := u.reach(ctx, folders)
	if o.tried == "" {
		if err != nil && ctx.Err() == nil {
			screen.Warn(warn, o.json, tidemark.Finding{Severity: tidemark.Warning, Text: err.Error(), Hint: tidemark.HintOf(err)})
		}
		return ctx.Err()
	}
	if err == nil {
		err = u.fetch(ctx, o.fetchWords(), o.tried)
	}
	if err != nil && o.primary != "" && ctx.Err() == nil { // the primary has most of the log
		screen.Warn(warn, o.json, tidemark.Finding{Severity: tidemark.Warning, Text: err.Error(), Hint: tidemark.HintOf(err)})
		return nil
	}
	return err
}
