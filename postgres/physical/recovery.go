package physical

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A Recovery configures how a restored server gets its log, and where its recovery ends.
type Recovery struct {
	// Command is restore_command: %f stands for the file's name in the archive, %p for where to put
	// it, %% for %.
	Command string
	// Target is the name of the setting without recovery_target_: time, xid, lsn, name, or
	// immediate; "" is the end of the log. Value is its value.
	Target, Value string
	// Exclusive ends recovery just before the target, not just after it.
	Exclusive bool
	// Timeline is a number, latest or current; "" is latest.
	Timeline string
	// Action is what happens at the target: pause, promote or shutdown; "" is promote.
	Action string
}

// targets are the settings of which at most one may be set.
var targets = []string{"immediate", "name", "time", "xid", "lsn"}

// settings returns the lines of a configuration file. They override the server's earlier settings.
func (r Recovery) settings() string {
	lines := []string{"restore_command = " + quoteSetting(r.Command)}
	// The server refuses any of these settings after the one that is set, even if its value is
	// empty.
	set := ""
	for _, t := range targets {
		name, value := "recovery_target_"+t, r.Value
		if t == "immediate" {
			name, value = "recovery_target", t
		}
		if t == r.Target {
			set = name + " = " + quoteSetting(value)
			continue
		}
		lines = append(lines, name+" = ''")
	}
	if set != "" {
		lines = append(lines, set)
	}
	timeline, action := r.Timeline, r.Action
	if timeline == "" {
		timeline = "latest"
	}
	if action == "" {
		action = "promote"
	}
	inclusive := "on"
	if r.Exclusive {
		inclusive = "off"
	}
	lines = append(lines, "recovery_target_inclusive = "+inclusive, "recovery_target_timeline = "+quoteSetting(timeline), "recovery_target_action = "+quoteSetting(action))
	return strings.Join(lines, "\n") + "\n"
}

// Write adds the settings to a restored data folder, after those of ALTER SYSTEM, and
// recovery.signal, which makes the server use them when it starts.
func (r Recovery) Write(dir string) error {
	return writeRecovery(dir, r.settings(), r.Command+r.Value, "recovery.signal")
}

// writeRecovery writes settings and a signal file. said is user input in them; it must be one line.
func writeRecovery(dir, settings, said, signal string) error {
	if strings.ContainsAny(said, "\r\n") {
		return &tidemark.Error{Kind: tidemark.Invalid, Op: "write recovery settings", Object: dir, Err: errors.New("the command or the target has more than one line")}
	}
	if err := appendSettings(dir, settings); err != nil {
		return err
	}
	name := filepath.Join(dir, signal)
	if err := writeLike(filepath.Join(dir, "PG_VERSION"), name, ""); err != nil {
		return recoveryError(name, err)
	}
	return nil
}

// appendSettings appends lines to those of ALTER SYSTEM in a restored data folder.
func appendSettings(dir, lines string) error {
	auto := filepath.Join(dir, "postgresql.auto.conf")
	was, err := os.ReadFile(auto)
	if err != nil && !os.IsNotExist(err) {
		return recoveryError(auto, err)
	}
	if n := len(was); n > 0 && was[n-1] != '\n' {
		was = append(was, '\n')
	}
	if err := writeLike(filepath.Join(dir, "PG_VERSION"), auto, string(was)+"# of tidemark restore\n"+lines); err != nil {
		return recoveryError(auto, err)
	}
	return nil
}

func recoveryError(name string, err error) error {
	return &tidemark.Error{Op: "write recovery settings", Object: name, Kind: tidemark.Invalid, Err: err}
}

// quoteSetting quotes a value for a configuration file.
func quoteSetting(v string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(v) + "'"
}

// writeLike writes a file, durably, with the owner of another file.
func writeLike(other, name, text string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if info, serr := os.Stat(other); err == nil && serr == nil && os.Getuid() == 0 { // only root can change the owner
		if o := ownerOf(info); o.UID >= 0 {
			err = f.Chown(o.UID, o.GID)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// RestoreCommand creates a restore_command from words. Only %f and %p are left for the server to
// replace.
func RestoreCommand(words ...string) string {
	for i, w := range words {
		if w != "%f" && w != "%p" {
			words[i] = strings.ReplaceAll(server.QuoteShell(w), "%", "%%")
		}
	}
	return strings.Join(words, " ")
}
