package links

import (
	"net/url"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// habits are settings that a server may give to all its users, and that change what statements
// mean, what values look like, or how much a session may do. Not among them is what an
// administrator may want for a job too, such as a tablespace.
var habits = map[string][]string{
	"postgres": {"array_nulls = off", "quote_all_identifiers = on", "exit_on_error = on", "DateStyle = 'German'", "IntervalStyle = sql_standard",
		"bytea_output = escape", "extra_float_digits = -15", "TimeZone = 'Asia/Kolkata'", "client_encoding = 'LATIN1'", "standard_conforming_strings = off",
		"backslash_quote = off", "search_path = 'pg_temp, public'", "transform_null_equals = on", "xmloption = document", "session_replication_role = replica",
		"client_min_messages = debug5", "default_transaction_isolation = serializable", "default_transaction_deferrable = on", "default_transaction_read_only = on",
		"plan_cache_mode = force_generic_plan", "enable_seqscan = off", "work_mem = '64kB'", "statement_timeout = 300", "lock_timeout = 100",
		"idle_in_transaction_session_timeout = 300", "idle_session_timeout = 300"},
	"mysql": append(mysqlHabits, "transaction_isolation = 'SERIALIZABLE'", "transaction_read_only = 1", "show_create_table_verbosity = 1",
		"max_execution_time = 100", "default_collation_for_utf8mb4 = 'utf8mb4_general_ci'", "cte_max_recursion_depth = 3"),
	"mariadb": append(mysqlHabits, "tx_isolation = 'SERIALIZABLE'", "tx_read_only = 1", "old_mode = ''", "check_constraint_checks = 0",
		"max_recursive_iterations = 3", "alter_algorithm = COPY"),
}

var mysqlHabits = []string{"autocommit = 0", "sql_safe_updates = 1", "completion_type = CHAIN", "max_error_count = 0", "sql_auto_is_null = 1",
	"div_precision_increment = 0", "default_storage_engine = MyISAM", "foreign_key_checks = 0", "unique_checks = 0", "sql_quote_show_create = 0",
	"sql_notes = 0", "max_join_size = 1", "innodb_lock_wait_timeout = 1", "lock_wait_timeout = 1", "max_sort_length = 4", "lc_time_names = 'ja_JP'",
	"lc_messages = 'de_DE'", "explicit_defaults_for_timestamp = 0", "time_zone = '+09:00'", "group_concat_max_len = 4", "sql_select_limit = 1",
	"character_set_client = 'latin1'", "character_set_connection = 'latin1'", "character_set_results = 'latin1'", "character_set_server = 'latin1'",
	"sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,ONLY_FULL_GROUP_BY,HIGH_NOT_PRECEDENCE,IGNORE_SPACE,PAD_CHAR_TO_FULL_LENGTH,REAL_AS_FLOAT'"}

// values has a table of values that settings change on their way, and one with a name that needs
// quotes; %s is an array's type, or text.
const values = "CREATE TABLE v (id int PRIMARY KEY, t varchar(60), a %s, n int, f double precision, d date, s timestamp NULL, c char(5));\n" +
	"CREATE TABLE %q (%q int PRIMARY KEY, p int, CONSTRAINT f FOREIGN KEY (p) REFERENCES v (id));\n"

const rows = "INSERT INTO v VALUES (1, 'a''b\\\\c\"é日', '{a,NULL,\"NULL\"}', NULL, 0.1, '2020-12-31', '2020-12-31 23:59:58', 'x '), (2, NULL, NULL, 1, 1e300, NULL, NULL, NULL), (3, '', '{}', 2, 0.30000000000000004, '1999-02-03', '1999-02-03 04:05:06', '');\n" +
	"INSERT INTO %q VALUES (1, 1), (2, 2), (3, 3), (4, NULL);\n"

// changes are made while a stream is away.
const changes = "INSERT INTO v SELECT id + 10, t, a, n, f, d, s, c FROM v; UPDATE v SET t = concat(t, 'ü\\\\'), n = 7 WHERE id < 3; DELETE FROM %q WHERE p IS NULL; UPDATE %q SET p = p + 10"

// TestSettingsOfServers copies and follows between servers that give sessions unusual settings.
// Jobs make their own.
func TestSettingsOfServers(t *testing.T) {
	t.Parallel()
	servers := []func(testing.TB) *testdb.Server{
		func(tb testing.TB) *testdb.Server { return testdb.OwnPostgres(tb, 17) },
		func(tb testing.TB) *testdb.Server { return testdb.OwnMariaDB(tb) },
		func(tb testing.TB) *testdb.Server { return testdb.OwnMySQL(tb) },
	}
	for _, i := range testdb.Draw(t, len(servers), 2) {
		s := servers[i](t)
		t.Run(s.Engine, func(t *testing.T) {
			t.Parallel()
			from, to := s.NewDatabase(t, "src"), s.NewDatabase(t, "dst")
			sql := values + rows
			quoted := strings.NewReplacer("%s", "text[]", "%q", `"order"`)
			if s.Engine != "postgres" {
				quoted = strings.NewReplacer("%s", "text", "%q", "`order`")
			} else {
				sql = strings.ReplaceAll(sql, `\\`, `\`)
			}
			testdb.Load(t, from, strings.NewReader(quoted.Replace(sql)))
			src, _ := testdb.Through(t, from, far)
			dst, _ := testdb.Through(t, to, far)
			u, on := unusual(t, s, to)
			src, dst = u(src), u(dst)
			stream := []string{"replicate", src, dst, "--name", streamName(), "--until", "now"}
			on(true)
			must(t, stream...)
			on(false)
			testdb.Query(t, from, quoted.Replace(changes))
			on(true)
			must(t, stream...)
			must(t, "diff", src, dst, "--definitions")
			must(t, append(stream[:5:5], "--remove")...)
			on(false)
			for _, sql := range []string{"SELECT * FROM v ORDER BY id", "SELECT * FROM %q ORDER BY 1"} {
				same(t, from, to, quoted.Replace(sql))
			}
			same(t, from, to, quoted.Replace("SELECT id, length(t), n IS NULL, s, c FROM v WHERE f = 0.1 OR f = 0.30000000000000004 OR f = 1e300 ORDER BY id"))
		})
	}
}

// unusual returns a function that gives a URL a user whose sessions have unusual settings, and
// another that turns these on and off where they are the whole server's. PostgreSQL has them by
// role.
func unusual(t *testing.T, s *testdb.Server, db string) (user func(db string) string, on func(on bool)) {
	t.Helper()
	if s.Engine != "postgres" {
		return func(db string) string { return db }, func(on bool) {
			admin := testdb.NewSession(db)
			defer admin.Close()
			for _, set := range habits[s.Engine] {
				if !on {
					name, _, _ := strings.Cut(set, "=")
					set = name + "= DEFAULT"
				}
				if _, err := admin.Try("SET GLOBAL " + set); err != nil {
					t.Fatal(set, ": ", err)
				}
			}
		}
	}
	testdb.Query(t, db, "CREATE ROLE unusual SUPERUSER LOGIN PASSWORD 'unusual'")
	for _, set := range habits[s.Engine] {
		testdb.Query(t, db, "ALTER ROLE unusual SET "+set)
	}
	return func(db string) string {
		u, err := url.Parse(db)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword("unusual", "unusual")
		return u.String()
	}, func(bool) {}
}
