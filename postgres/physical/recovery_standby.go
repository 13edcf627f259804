package physical

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// A StandbyOf describes the primary whose standby a restored copy becomes.
type StandbyOf struct {
	Primary string // URL, without a password
	Slot    string // physical slot on the primary; "": none
	Command string // restore_command, for WAL that the primary no longer has; "" keeps the copy's own
}

// ParseStandbyOf checks the URL of a primary. The server stores it in its settings, which others
// can read, so it must not contain a password. Kind Invalid.
func ParseStandbyOf(primary string) (StandbyOf, error) {
	wrong := func(why, hint string) (StandbyOf, error) {
		return StandbyOf{}, &tidemark.Error{Kind: tidemark.Invalid, Op: "restore a standby of", Object: tidemark.MaskURL(primary), Err: errors.New(why), Hint: hint}
	}
	scheme, rest, ok := strings.Cut(primary, "://")
	if !ok || scheme != "postgres" && scheme != "postgresql" {
		return wrong("it is not a PostgreSQL URL", "Write postgres://user@host/.")
	}
	const hint = "The server would keep it in its settings: put it into a password file of the user that it runs as (~/.pgpass), or name another one: postgres://user@host/?passfile=FILE."
	rest, query, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 && strings.Contains(rest[:at], ":") {
		return wrong("it has a password", hint)
	}
	values, err := url.ParseQuery(query)
	switch {
	case err != nil || strings.ContainsAny(primary, "\r\n\x00"):
		return wrong("it is not a valid URL", "Write postgres://user@host/.")
	case values.Has("password"):
		return wrong("it has a password", hint)
	}
	return StandbyOf{Primary: primary}, nil
}

// Write adds the settings to a restored data folder, and standby.signal. It clears the target of an
// earlier recovery of the copy.
func (s StandbyOf) Write(dir string) error {
	lines := []string{"primary_conninfo = " + quoteSetting(s.Primary), "primary_slot_name = " + quoteSetting(s.Slot), "recovery_target_timeline = 'latest'", "recovery_target = ''"}
	for _, t := range targets[1:] {
		lines = append(lines, "recovery_target_"+t+" = ''")
	}
	if s.Command != "" {
		lines = append(lines, "restore_command = "+quoteSetting(s.Command))
	}
	return writeRecovery(dir, strings.Join(lines, "\n")+"\n", s.Slot+s.Command, standbySignal)
}

const standbySignal = "standby.signal"

// standbySettings are settings that only affect a standby.
var standbySettings = []string{"primary_conninfo", "primary_slot_name", "recovery_min_apply_delay"}

// RestoredSettings reports which of a restored data folder's settings make it a standby, or once
// did. wasStandby: the backup is of a standby.
func RestoredSettings(dir string, wasStandby bool) (*tidemark.Finding, error) {
	var there []string
	for _, name := range []string{"postgresql.conf", "postgresql.auto.conf"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // elsewhere, and then it was not in the backup
		}
		if err != nil {
			return nil, recoveryError(filepath.Join(dir, name), err)
		}
		for _, setting := range standbySettings {
			if isSet(string(text), setting) {
				there = append(there, fmt.Sprintf("%s (%s)", setting, name))
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, standbySignal)); err == nil {
		return &tidemark.Finding{Object: dir, Text: "it starts as a standby", Hint: "Its settings are the last ones in postgresql.auto.conf; it streams WAL from the primary, where the role needs REPLICATION."}, nil
	}
	if len(there) == 0 && !wasStandby {
		return nil, nil
	}
	text := "it starts as an independent server: standby.signal was not restored"
	if len(there) > 0 {
		text += "; these settings were, and have no effect without it: " + strings.Join(there, ", ")
	}
	return &tidemark.Finding{Object: dir, Text: text, Hint: "To make it a standby, restore with --standby postgres://user@primary/."}, nil
}

// isSet reports whether the last line of a configuration file for this setting gives it a non-empty
// value.
func isSet(text, setting string) (set bool) {
	for line := range strings.Lines(text) {
		line = strings.TrimLeft(line, " \t")
		if len(line) <= len(setting) || !strings.EqualFold(line[:len(setting)], setting) || !strings.ContainsRune(" \t=", rune(line[len(setting)])) {
			continue
		}
		value, _, _ := strings.Cut(strings.TrimLeft(line[len(setting):], " \t="), "#")
		value = strings.TrimSpace(value)
		set = value != "" && value != "''"
	}
	return set
}
