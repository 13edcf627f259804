package physical

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The line that starts a restored server knows where its settings are.
func TestStart(t *testing.T) {
	was := debianConfig
	defer func() { debianConfig = was }()
	debianConfig = t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(dir, line string, as ...string) {
		t.Helper()
		if got := Start(dir, 99, as...); got != line {
			t.Errorf("got  %s\nwant %s", got, line)
		}
	}
	dir := t.TempDir()
	want(dir, "runuser -u postgres -- pg_ctl start -D FOLDER-OF-ITS-postgresql.conf -o '-c data_directory="+dir+"' -l "+dir+"/startup.log", "runuser", "-u", "postgres", "--")
	main := filepath.Join(debianConfig, "99", "main")
	write(main+"/postgresql.conf", "# data_directory = '/elsewhere'\ndata_directory = '/var/lib/postgresql/99/main'\t# use data in another directory\n")
	want(dir, "pg_ctl start -D "+main+" -o '-c data_directory="+dir+"' -l "+dir+"/startup.log")
	want("/var/lib/postgresql/99/main", "pg_ctlcluster 99 main start", "runuser", "-u", "postgres", "--")
	write(filepath.Join(debianConfig, "99", "other", "postgresql.conf"), "")
	if got := Start(dir, 99); !strings.Contains(got, "-D FOLDER-OF-ITS-postgresql.conf ") {
		t.Errorf("of two clusters it took one: %s", got)
	}
	own := filepath.Join(dir, "it's here")
	write(own+"/postgresql.conf", "")
	quoted := strings.ReplaceAll(own, "'", `'\''`)
	want(own, "pg_ctl start -D '"+quoted+"' -l '"+quoted+"/startup.log'")
}
