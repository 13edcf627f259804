package preflight

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

func TestPreflight(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	src, dst := srv.NewDatabase(t, "pre"), srv.NewDatabase(t, "pre")
	testdb.Query(t, src, `DROP ROLE IF EXISTS checker; CREATE ROLE checker LOGIN PASSWORD 'x'; CREATE TABLE open (id int); GRANT SELECT ON open TO checker; CREATE TABLE closed (id int);
		CREATE SCHEMA s; CREATE TABLE s.t (id int); CREATE TABLE mine (id int); GRANT SELECT ON mine TO checker; ALTER TABLE mine ENABLE ROW LEVEL SECURITY`)
	defer testdb.Query(t, srv.URL("postgres"), "DROP ROLE checker")
	defer testdb.Query(t, src, "DROP OWNED BY checker")
	testdb.Query(t, dst, "CREATE TABLE open (id int)")
	defer testdb.Query(t, dst, "DROP OWNED BY checker")
	db := &tidemark.Database{Engine: "postgres", Version: "18.1", Major: 18, Charset: "LATIN1", Collate: "de_DE", Objects: []tidemark.Object{
		{ID: "extension hstore", Kind: "extension"}, {ID: "extension adminpack", Kind: "extension"}, {ID: `extension "no-such"`, Kind: "extension"}}}
	for _, name := range strings.Fields("open closed s.t mine") {
		in, name, found := strings.Cut(name, ".")
		if !found {
			in, name = "public", in
		}
		db.Tables = append(db.Tables, &tidemark.Table{TableID: tidemark.TableID{Schema: in, Name: name}, Bytes: 2 << 30})
	}
	as := func(raw string) string {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("checker", "x")
		return u.String()
	}
	find := func(url, role string) map[string]tidemark.Finding {
		s, err := server.Open(t.Context(), url, server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		found, err := (&Checks{s}).Preflight(t.Context(), role, db)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]tidemark.Finding{}
		for _, f := range found {
			if f.Severity >= out[f.Object].Severity {
				out[f.Object] = f
			}
		}
		return out
	}
	type line struct{ severity, object, hint string }
	check := func(found map[string]tidemark.Finding, want []line) {
		t.Helper()
		for _, w := range want {
			f, ok := found[w.object]
			if !ok || f.Severity.String() != w.severity || !strings.Contains(f.Hint, w.hint) || f.Text == "" {
				t.Errorf("%s: %+v, want %+v", w.object, f, w)
			}
		}
	}
	source := find(as(src), "source")
	check(source, []line{
		{"blocker", "table public.closed", "GRANT SELECT ON TABLE public.closed TO checker;"},
		{"blocker", "schema s", "GRANT USAGE ON SCHEMA s TO checker;"},
		{"blocker", "table public.mine", "ALTER ROLE checker BYPASSRLS;"},
	})
	if f, ok := source["table public.open"]; ok {
		t.Errorf("%+v", f)
	}
	name := dst[strings.LastIndex(dst, "/")+1 : strings.Index(dst, "?")]
	check(find(as(dst), "target"), []line{
		{"blocker", "table public.open", "GRANT SELECT, INSERT ON TABLE public.open TO checker;"},
		{"blocker", "database " + name, "GRANT CREATE ON DATABASE " + name + " TO checker;"},
		{"blocker", "schema public", "GRANT CREATE, USAGE ON SCHEMA public TO checker;"},
		{"blocker", "extension adminpack", "CREATE EXTENSION adminpack;"},
		{"blocker", `extension "no-such"`, "Install its package"},
		{"warning", "server", ""},
		{"note", "setting max_wal_size", "ALTER SYSTEM SET max_wal_size = '16GB'"},
		{"note", "setting shared_buffers", ""},
		{"note", "disk", ""},
		{"warning", "setting fsync", ""},
	})
	for _, o := range []string{"table public.open", "schema public", "extension adminpack", "extension hstore"} {
		if f, ok := find(dst, "target")[o]; ok {
			t.Errorf("for a superuser: %+v", f)
		}
	}
}

// The transaction open longest is found whatever the server's style of intervals.
func TestLongestTransaction(t *testing.T) {
	url := testdb.Postgres(t, 15).NewDatabase(t, "long")
	s, err := server.Open(t.Context(), url, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(t.Context())
	if _, err := other.Exec(t.Context(), "BEGIN; CREATE TABLE t (id int); SELECT pg_sleep(1.1)"); err != nil {
		t.Fatal(err)
	}
	where := "backend_xid IS NOT NULL AND datname = current_database()" // other tests write on this server
	conn, release, err := s.Control(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, style := range []string{"postgres", "postgres_verbose", "sql_standard", "iso_8601"} {
		if _, err := conn.Exec(t.Context(), "SET intervalstyle = "+style); err != nil {
			t.Fatal(err)
		}
		pid, age, err := longest(t.Context(), conn, where, time.Second)
		if want := int(other.PgConn().PID()); err != nil || pid != want || age < time.Second || age > time.Minute {
			t.Errorf("%s: session %d, open for %v, %v; want %d", style, pid, age, err, want)
		}
		if pid, _, err = longest(t.Context(), conn, where, time.Hour); pid != 0 || err != nil {
			t.Errorf("session %d has been open for an hour, %v", pid, err)
		}
	}
}
