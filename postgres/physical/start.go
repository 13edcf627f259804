package physical

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark/postgres/server"
)

// debianConfig is where Debian has the settings of clusters, outside of their data folders: by
// major version and name.
var debianConfig = "/etc/postgresql"

var dataDirectory = regexp.MustCompile(`(?m)^\s*data_directory\s*=?\s*'([^']*)'`)

// Start returns the command line that starts a server on a restored data folder. as are the words
// by which a command runs as the server's user; none: as the present one.
func Start(dir string, major int, as ...string) string {
	config, options := dir, ""
	if _, err := os.Stat(filepath.Join(dir, "postgresql.conf")); err != nil {
		name, its := debianCluster(dir, major)
		if name != "" && its {
			return fmt.Sprintf("pg_ctlcluster %d %s start", major, ShellWord(name))
		}
		config = "FOLDER-OF-ITS-postgresql.conf"
		if name != "" {
			config = filepath.Join(debianConfig, strconv.Itoa(major), name)
		}
		// The settings may name the old data folder.
		options = server.QuoteShell("-c data_directory=" + ShellWord(dir))
	}
	words := append([]string{}, as...)
	words = append(words, controlProgram(major), "start", "-D", ShellWord(config))
	if options != "" {
		words = append(words, "-o", options)
	}
	// The folder is the one where its user surely may write.
	return strings.Join(append(words, "-l", ShellWord(filepath.Join(dir, "startup.log"))), " ")
}

// debianCluster returns the name of the cluster whose settings belong to a data folder, if its is
// true, or else of the only cluster of the version.
func debianCluster(dir string, major int) (name string, its bool) {
	all, _ := filepath.Glob(filepath.Join(debianConfig, strconv.Itoa(major), "*", "postgresql.conf")) // the pattern is valid
	for _, path := range all {
		text, err := os.ReadFile(path)
		if found := dataDirectory.FindSubmatch(text); err == nil && found != nil && filepath.Clean(string(found[1])) == dir {
			return filepath.Base(filepath.Dir(path)), true
		}
	}
	if len(all) == 1 {
		return filepath.Base(filepath.Dir(all[0])), false
	}
	return "", false
}

// controlProgram returns the pg_ctl of a version, by its path if it is where packages have it.
func controlProgram(major int) string {
	for _, form := range programPlaces {
		path := filepath.Join(filepath.Dir(fmt.Sprintf(form, major)), "pg_ctl")
		if _, err := os.Stat(path); err == nil {
			return ShellWord(path)
		}
	}
	return "pg_ctl"
}

// ShellWord quotes a path for a shell, if it has to be.
func ShellWord(path string) string {
	if server.QuoteShell(strings.ReplaceAll(path, "/", "")) == strings.ReplaceAll(path, "/", "") {
		return path
	}
	return server.QuoteShell(path)
}
