package measure

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// liveMarks are files that exist only in folders of a database's data or log.
var liveMarks = []struct {
	name *regexp.Regexp
	is   string
}{
	{regexp.MustCompile(`^(postmaster\.pid|PG_VERSION|pg_control)$`), "data of PostgreSQL"},
	{regexp.MustCompile(`^([0-9A-F]{24}(\.partial)?|[0-9A-F]{8}\.history)$`), "WAL of PostgreSQL"},
	{regexp.MustCompile(`^(ibdata1|ib_logfile\d+|#innodb_redo|#ib_redo\d+.*|aria_log_control)$`), "data of MySQL or MariaDB"},
	{regexp.MustCompile(`^(S\d{7}\.LOG|SQLOGCTL\.LFH.*|SQLSPCS\.\d+)$`), "log of Db2"},
}

var binlogFile = regexp.MustCompile(`^(.+)\.\d{6,}$`)

// liveLog returns which part of a database dir is or lies in, and the file that shows it; "" if
// there seems to be none. It checks the folder above too: foreign files do not belong into a
// server's folders either.
func liveLog(dir string) (what, file string) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	for _, d := range []string{dir, filepath.Join(dir, "global"), filepath.Dir(dir), filepath.Join(filepath.Dir(dir), "global")} {
		entries, err := os.ReadDir(d)
		if err != nil {
			continue
		}
		indexes := map[string]bool{}
		for _, e := range entries {
			if base, ok := strings.CutSuffix(e.Name(), ".index"); ok {
				indexes[base] = true
			}
		}
		for _, e := range entries {
			for _, m := range liveMarks {
				if m.name.MatchString(e.Name()) {
					return m.is, filepath.Join(d, e.Name())
				}
			}
			if m := binlogFile.FindStringSubmatch(e.Name()); m != nil && indexes[m[1]] {
				return "binary log of MySQL or MariaDB", filepath.Join(d, e.Name())
			}
		}
	}
	return "", ""
}
