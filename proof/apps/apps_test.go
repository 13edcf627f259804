// Package apps moves the databases of real applications: each is made on a server by the
// application's own means, filled, moved in every direction, and judged by means that share no code
// with Tidemark: value by value, key by key, and by the application's own checks.
package apps

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/internal/testdb/home"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// An app is an application that keeps its data in a database.
type app struct {
	name string
	// files are the SQL files that its installer runs, by the scheme of the server's URL: postgres,
	// or mysql for both others; without them make makes its database.
	files map[string][]string
	make  func(t *testing.T, a *app, url string)
	// judge runs the application's own checks on the database dst, which was moved from src; nil
	// where there are none.
	judge func(t *testing.T, a *app, src, dst string)
	// keep are tables in which no rows are made up, all with "*": where rows hold JSON, trees or
	// versions.
	keep []string
	// bools says that the application has its booleans in tinyint(1) on MySQL.
	bools bool
	// alone lists the only engines that the application knows, all without it.
	alone []string
	// memory says that it has tables without transactions on MySQL, which no stream takes.
	memory bool
}

// path is a file of the application.
func (a *app) path(name string) string { return filepath.Join(folder(), a.name, name) }

// there reports whether the application is installed.
func (a *app) there() bool {
	_, err := os.Stat(a.path(""))
	return err == nil
}

func folder() string { return filepath.Join(home.Cache(), "apps") }

var apps = []app{
	{name: "roundcube", files: debconf("roundcube", "roundcube")},
	{name: "tt-rss", files: debconf("tt-rss", "tt-rss")},
	{name: "icinga", files: debconf("icinga2-ido-mysql", "icinga2-ido-pgsql")},
	{name: "bacula", files: debconf("bacula-director-mysql", "bacula-director-pgsql")},
	{name: "pdns", files: map[string][]string{
		"mysql":    {"usr/share/pdns-backend-mysql/schema/schema.mysql.sql"},
		"postgres": {"usr/share/pdns-backend-pgsql/schema/schema.pgsql.sql"},
	}},
	{name: "freeradius", files: map[string][]string{
		"mysql":    {"etc/freeradius/3.0/mods-config/sql/main/mysql/schema.sql"},
		"postgres": {"etc/freeradius/3.0/mods-config/sql/main/postgresql/schema.sql"},
	}},
	{name: "kea", keep: []string{"lease_state", "lease6_types"}, files: map[string][]string{
		"mysql":    {"usr/share/kea/scripts/mysql/dhcpdb_create.mysql"},
		"postgres": {"usr/share/kea/scripts/pgsql/dhcpdb_create.pgsql"},
	}},
	{name: "cacti", memory: true, alone: []string{"mysql", "mariadb"}, files: map[string][]string{"mysql": {"usr/share/doc/cacti/cacti.sql"}}},
	{name: "zabbix", files: map[string][]string{"mysql": zabbix("mysql"), "postgres": zabbix("pgsql")}},
	{name: "keystone", make: makeKeystone, judge: judgeKeystone, keep: []string{"*"}, bools: true},
	{name: "airflow", make: makeAirflow, judge: judgeAirflow, keep: []string{"*"}, bools: true},
	{name: "neutron", make: makeNeutron, judge: judgeNeutron, bools: true, keep: []string{"alembic_version"}, alone: []string{"mysql", "mariadb"}},
	{name: "wagtail", make: makeWagtail, judge: judgeWagtail, keep: []string{"*"}, bools: true},
}

// debconf are the files that Debian's dbconfig runs when it installs packages.
func debconf(mysql, pgsql string) map[string][]string {
	const data = "usr/share/dbconfig-common/data/"
	return map[string][]string{"mysql": {data + mysql + "/install/mysql"}, "postgres": {data + pgsql + "/install/pgsql"}}
}

func zabbix(kind string) (files []string) {
	for _, part := range []string{"schema", "images", "data"} {
		files = append(files, "usr/share/zabbix-server-"+kind+"/"+part+".sql.gz")
	}
	return files
}

var installed = sync.OnceValues(func() (string, error) {
	if err := os.MkdirAll(folder(), 0o755); err != nil {
		return "", err
	}
	unlock, err := home.Lock(folder()+".lock", true)
	if err != nil {
		return "", err
	}
	defer unlock()
	out, err := exec.Command("./install.sh", folder()).Output()
	return string(out), err
})

// family is the kind of SQL that a server of this URL takes.
func family(url string) string {
	if strings.HasPrefix(url, "postgres") {
		return "postgres"
	}
	return "mysql"
}

// create makes the application's database by its own means.
func (a *app) create(t *testing.T, url string) {
	t.Helper()
	if a.make != nil {
		a.make(t, a, url)
		return
	}
	for _, name := range a.files[family(url)] {
		cat := "cat"
		if strings.HasSuffix(name, ".gz") {
			cat = "zcat"
		}
		sql, err := exec.Command(cat, a.path(name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		testdb.Load(t, url, strings.NewReader(string(sql)))
	}
}

// TestApplicationsMove moves each application between all engines that it knows, from the server
// and, of MySQL and MariaDB, from a dump file. It runs in make prove only: it fetches much.
func TestApplicationsMove(t *testing.T) {
	if !testdb.Long() {
		return
	}
	missing, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	servers := []*testdb.Server{testdb.Postgres(t, 15), testdb.MySQL(t), testdb.MariaDB(t)}
	for i := range apps {
		a := &apps[i]
		t.Run(a.name, func(t *testing.T) {
			if !a.there() {
				for _, line := range strings.Split(missing, "\n") {
					if strings.HasPrefix(line, a.name+": ") {
						t.Log("not moved: ", line)
					}
				}
				return
			}
			for _, from := range servers {
				if a.alone != nil && !slices.Contains(a.alone, from.Engine) {
					continue
				}
				src := from.NewDatabase(t, "src")
				a.create(t, src)
				filled, _ := fill(t, src, 1, a.keep)
				t.Logf("%s: %d tables filled", from.Engine, len(filled))
				dump := ""
				if from.Engine != "postgres" {
					dump = testdb.MySQLDump(t, src, "--routines", "--hex-blob")
				}
				for _, to := range servers {
					if a.alone != nil && !slices.Contains(a.alone, to.Engine) {
						continue
					}
					t.Run(fmt.Sprintf("%s to %s", from.Engine, to.Engine), func(t *testing.T) {
						moves(t, a, src, src, to, filled)
					})
					if dump != "" {
						t.Run(fmt.Sprintf("%s's dump to %s", from.Engine, to.Engine), func(t *testing.T) {
							moves(t, a, src, dump, to, filled)
						})
					}
				}
			}
		})
	}
}

// moves moves an application from a database, or from its dump, and compares.
func moves(t *testing.T, a *app, src, from string, to *testdb.Server, filled []string) {
	dst := to.NewDatabase(t, "dst")
	var options []string
	if a.bools && family(src) == "mysql" && to.Engine == "postgres" {
		if o := testdb.Run(t, "check", from, dst); !strings.Contains(o.Out, "tinyint(1) becomes smallint, unless --tinyint1-bool makes boolean of it") {
			t.Errorf("check does not speak of booleans: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
		}
		options = []string{"--tinyint1-bool"}
	}
	run := func(args ...string) testdb.Outcome { return testdb.Run(t, append(args, options...)...) }
	check := run("check", from, dst, "--values")
	if check.Code != 0 {
		t.Errorf("check: exit %d\n%s%s", check.Code, check.Out, check.ErrOut)
	}
	said := check.Out + check.ErrOut
	if o := run("copy", from, dst, "--progress", "none"); o.Code != 0 {
		t.Fatalf("copy: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if o := run("diff", src, dst); o.Code != 0 {
		t.Errorf("diff: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if o := run("diff", src, dst, "--definitions=only"); o.Code != 0 {
		t.Errorf("diff --definitions: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	sameValues(t, src, dst)
	sameShape(t, src, dst, said)
	if a.judge != nil {
		a.judge(t, a, src, dst)
	}
	again, refused := fill(t, dst, 2, a.keep)
	for _, table := range filled {
		if err := refused[table]; !slices.Contains(again, table) && err != nil && moved.MatchString(err.Error()) {
			t.Errorf("table %s takes no new rows after the move: %v", table, err)
		}
	}
}

// moved matches what servers say of a row that a move, and not a made-up value, makes them refuse.
var moved = regexp.MustCompile(`(?i)violates not-null|cannot be null|default value|illegal mix|is of type|unknown column`)
