package apps

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// runs runs a program of an application, which must end with 0, and returns what it prints.
func (a *app) runs(t *testing.T, dir string, env []string, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(a.path("bin/"+program), args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, last(string(out), 500), last(errOut.String(), 1500))
	}
	return string(out)
}

func last(s string, n int) string { return s[max(len(s)-n, 0):] }

// alchemy is the URL of a database in the words of SQLAlchemy.
func alchemy(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.Scheme, u.RawQuery = "postgresql+psycopg2", ""
	if family(at) == "mysql" {
		u.Scheme, u.RawQuery = "mysql+pymysql", "charset=utf8mb4"
	}
	return u.String()
}

// keystone runs keystone-manage on a database.
func (a *app) keystone(t *testing.T, at string, args ...string) {
	t.Helper()
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	err := os.Mkdir(keys, 0o700)
	for _, name := range []string{"0", "1"} {
		err = errors.Join(err, os.WriteFile(filepath.Join(keys, name), []byte(strings.Repeat("A", 43)+"="), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	conf := "[DEFAULT]\nlog_file = " + dir + "/log\n[database]\nconnection = " + alchemy(t, at) + "\n"
	for _, part := range []string{"fernet_tokens", "fernet_receipts", "credential"} {
		conf += "[" + part + "]\nkey_repository = " + keys + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	a.runs(t, dir, nil, "keystone-manage", append([]string{"--config-file", filepath.Join(dir, "conf")}, args...)...)
	if log, err := os.ReadFile(filepath.Join(dir, "log")); t.Failed() && err == nil {
		t.Log(last(string(log), 1500))
	}
}

func makeKeystone(t *testing.T, a *app, at string) {
	t.Helper()
	a.keystone(t, at, "db_sync")
	a.keystone(t, at, "bootstrap", "--bootstrap-password", "secret")
}

// judgeKeystone has Keystone look at its schema, find what bootstrap has made, and make more.
func judgeKeystone(t *testing.T, a *app, src, dst string) {
	t.Helper()
	a.keystone(t, dst, "db_sync", "--check")
	a.keystone(t, dst, "bootstrap", "--bootstrap-password", "third", "--bootstrap-username", "second", "--bootstrap-project-name", "more",
		"--bootstrap-region-id", "north", "--bootstrap-public-url", "http://localhost:5000", "--bootstrap-service-name", "keystone")
	if n := testdb.Query(t, dst, "SELECT COUNT(*) FROM local_user WHERE name IN ('admin', 'second')"); n != "2" {
		t.Errorf("Keystone has %s of its 2 users", n)
	}
}

// siteSettings take the database from the environment. Search is left out: its tables are others on
// each engine.
const siteSettings = `import os, pymysql
pymysql.version_info = (2, 2, 1, "final", 0)
pymysql.install_as_MySQLdb()
from .dev import *
INSTALLED_APPS = [name for name in INSTALLED_APPS if name not in ("wagtail.search", "search")]
DATABASES = {"default": {"ENGINE": "django.db.backends." + os.environ["ENGINE"], "NAME": os.environ["NAME"], "HOST": "127.0.0.1",
    "PORT": os.environ["PORT"], "USER": os.environ["OWNER"], "PASSWORD": os.environ["SECRET"]}}
`

// site returns the folder of a Wagtail site, which every database shares.
func site(a *app) (string, error) {
	dir := a.path("site")
	used := filepath.Join(dir, "moved/settings/used.py")
	if _, err := os.Stat(used); err != nil {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
			return "", err
		}
		if out, err := exec.Command(a.path("bin/wagtail"), "start", "moved", dir).CombinedOutput(); err != nil {
			return "", fmt.Errorf("wagtail start: %w\n%s", err, out)
		}
	}
	return dir, os.WriteFile(used, []byte(siteSettings), 0o600)
}

// django runs manage.py of the site on a database, and returns what it prints.
func (a *app) django(t *testing.T, at string, args ...string) string {
	t.Helper()
	dir, err := site(a)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := u.User.Password()
	engine := family(at)
	if engine == "postgres" {
		engine = "postgresql"
	}
	return a.runs(t, dir, []string{"DJANGO_SETTINGS_MODULE=moved.settings.used", "ENGINE=" + engine, "NAME=" + strings.TrimPrefix(u.Path, "/"), "PORT=" + u.Port(),
		"OWNER=" + u.User.Username(), "SECRET=" + secret}, "python", append([]string{"manage.py"}, args...)...)
}

// useSite is what an editor does: one page more, published, and looked for.
const useSite = `
from django.contrib.auth.models import User
from home.models import HomePage
u = User.objects.filter(username="boss").first() or User.objects.create_superuser("boss", "b@x.org", "secret")
root = HomePage.objects.first()
n = root.get_children().count()
page = HomePage(title="Seite %d ñ" % n, slug="seite-%d" % n)
root.add_child(instance=page)
page.save_revision(user=u).publish()
assert HomePage.objects.live().filter(live=True, title__endswith="ñ").count() == n + 1
assert User.objects.filter(is_superuser=True, is_active=True).count() == 1
assert HomePage.objects.filter(translation_key=page.translation_key).count() == 1
`

func makeWagtail(t *testing.T, a *app, at string) {
	t.Helper()
	a.django(t, at, "migrate", "-v", "0")
	a.django(t, at, "shell", "-v", "0", "-c", useSite)
}

// judgeWagtail has Django compare its models with the tables, dump all rows by its own means, and
// edit the site. Django keeps UUIDs in another form on each engine, and reads no JSON but jsonb on
// PostgreSQL: without rules for their types, which differ by site, it cannot do as much across.
func judgeWagtail(t *testing.T, a *app, src, dst string) {
	t.Helper()
	a.django(t, dst, "migrate", "--check")
	if family(src) == "mysql" && family(dst) == "postgres" {
		return
	}
	args := []string{"dumpdata", "--natural-foreign", "--indent", "1", "--exclude", "contenttypes"}
	if want, got := a.django(t, src, args...), a.django(t, dst, args...); sorted(want) != sorted(got) {
		t.Errorf("dumpdata differs: %s", different(sorted(got), sorted(want)))
	}
	if strings.HasPrefix(dst, src[:5]) {
		a.django(t, dst, "shell", "-v", "0", "-c", useSite)
	}
}

// airflow runs a program of Airflow's environment on a database, and returns what it prints.
func (a *app) airflow(t *testing.T, at, program string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	return a.runs(t, dir, []string{"AIRFLOW_HOME=" + dir, "AIRFLOW__CORE__LOAD_EXAMPLES=True", "AIRFLOW__LOGGING__LOGGING_LEVEL=ERROR",
		"AIRFLOW__CORE__FERNET_KEY=" + strings.Repeat("A", 43) + "=", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=" + alchemy(t, at)}, program, args...)
}

func makeAirflow(t *testing.T, a *app, at string) {
	t.Helper()
	a.airflow(t, at, "airflow", "db", "migrate")
	a.airflow(t, at, "airflow", "dags", "reserialize")
	a.airflow(t, at, "airflow", "connections", "create-default-connections")
	a.airflow(t, at, "airflow", "variables", "set", "clé 😀", "{\"a\": \"é\\n\\t😀 \\\\ ''\"}")
	a.airflow(t, at, "airflow", "dags", "test", "example_xcom", "2026-01-01")
}

// readAirflow prints what Airflow reads of its own tables, by its models, a row a line.
const readAirflow = `
import json
from airflow.models import Connection, DagModel, DagRun, Pool, TaskInstance, Variable, XCom
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
with create_session() as s:
    for model, fields in ((Connection, "conn_id conn_type host login password port extra"), (DagModel, "dag_id is_paused is_active fileloc timetable_description next_dagrun"),
            (DagRun, "id run_id state execution_date start_date end_date conf external_trigger"), (Pool, "pool slots include_deferred"),
            (TaskInstance, "task_id run_id state start_date end_date duration try_number executor_config"), (Variable, "key val is_encrypted"),
            (XCom, "key task_id value timestamp"), (SerializedDagModel, "dag_id dag_hash data last_updated")):
        for row in s.query(model):
            print("row", model.__name__, *(json.dumps(getattr(row, f), sort_keys=True, default=repr) for f in fields.split()))
`

// judgeAirflow has Airflow look at its schema, read its rows, and run a workflow.
func judgeAirflow(t *testing.T, a *app, src, dst string) {
	t.Helper()
	a.airflow(t, dst, "airflow", "db", "check-migrations", "--migration-wait-timeout", "0")
	want, got := a.airflow(t, src, "python", "-c", readAirflow), a.airflow(t, dst, "python", "-c", readAirflow)
	if n := strings.Count(want, "row "); n < 100 || sorted(want) != sorted(got) {
		t.Errorf("of %d rows: %s", n, different(sorted(got), sorted(want)))
	}
	a.airflow(t, dst, "airflow", "dags", "test", "example_xcom", "2026-01-02")
	if n := testdb.Query(t, dst, "SELECT COUNT(*) FROM dag_run WHERE state = 'success'"); n != "2" {
		t.Errorf("%s of 2 runs succeeded", n)
	}
}

func makeNeutron(t *testing.T, a *app, at string) {
	t.Helper()
	a.neutron(t, at, "upgrade", "heads")
}

// neutron runs neutron-db-manage on a database, and returns what it prints.
func (a *app) neutron(t *testing.T, at string, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte("[database]\nconnection = "+alchemy(t, at)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return a.runs(t, dir, nil, "neutron-db-manage", append([]string{"--config-file", filepath.Join(dir, "conf")}, args...)...)
}

func judgeNeutron(t *testing.T, a *app, src, dst string) {
	t.Helper()
	if want, got := a.neutron(t, src, "current"), a.neutron(t, dst, "current"); want != got || !strings.Contains(got, "head") {
		t.Errorf("the schema is at %s, was at %s", got, want)
	}
}
