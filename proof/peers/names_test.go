package peers

import (
	"strings"
	"testing"
	"unicode"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// forged is a name, a value, or a text of a server that clears the screen, sets colours, rings,
// reverses the direction of text, and begins a line that reads as our hint.
const forged = "a\nhint: forged\x1b[2J\x1b]0;x\a\u009b31m\u202e\u2066\r"

// showsNothingForged fails if a command's output acts on a terminal, or has a line of the server's.
func showsNothingForged(t *testing.T, line []string, o testdb.Outcome) {
	t.Helper()
	text := o.Out + o.ErrOut
	if !strings.Contains(text, "forged") {
		t.Logf("nothing of the name is in the output of %q", line)
	}
	for _, r := range strings.ReplaceAll(text, "\r\n", "") {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == unicode.ReplacementChar) {
			t.Errorf("%q prints %q:\n%q", line, r, text)
			break
		}
	}
	for one := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(one), "hint: forged") {
			t.Errorf("%q prints a line of the server's:\n%s", line, text)
			break
		}
	}
}

// No name, comment, value, label or error of a server acts on the terminal, or looks like a line of
// ours.
func TestForgedNames(t *testing.T) {
	pg, maria, mysql := testdb.Postgres(t, 15), testdb.MariaDB(t), testdb.MySQL(t)
	name := strings.ReplaceAll(forged, `"`, `""`)
	sources := map[string]string{"postgres": pg.NewDatabase(t, "forged"), "mariadb": maria.NewDatabase(t, "forged"), "mysql": mysql.NewDatabase(t, "forged")}
	testdb.Query(t, sources["postgres"], strings.ReplaceAll(`CREATE SCHEMA "#"; CREATE TYPE "#"."e#" AS ENUM ('#'); CREATE TABLE "#"."#" (id int CONSTRAINT "p#" PRIMARY KEY, "#" "#"."e#" DEFAULT '#', v text CHECK (v <> '#'));
		COMMENT ON TABLE "#"."#" IS '#'; CREATE INDEX "i#" ON "#"."#" (v); CREATE VIEW "#"."v#" AS SELECT "#" FROM "#"."#"; CREATE SEQUENCE "#"."s#";
		CREATE FUNCTION "#"."f#"() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION E'a\nhint: forged'; END$$; CREATE TRIGGER "#" BEFORE DELETE ON "#"."#" FOR EACH ROW EXECUTE FUNCTION "#"."f#"();
		INSERT INTO "#"."#" VALUES (1, '#', 'v#'); CREATE TABLE "#".nokey ("#" text PRIMARY KEY); INSERT INTO "#".nokey VALUES ('#')`, "#", name))
	for _, engine := range []string{"mariadb", "mysql"} {
		testdb.Query(t, sources[engine], strings.ReplaceAll("CREATE TABLE `#` (id int PRIMARY KEY, `#` enum('#','b') DEFAULT '#' COMMENT '#', v varchar(99) CHECK (v <> '#'), KEY `i#` (v)) COMMENT '#'; "+
			"CREATE VIEW `v#` AS SELECT `#` FROM `#`; CREATE TRIGGER `t#` BEFORE DELETE ON `#` FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '#'; INSERT INTO `#` VALUES (1, '#', 'v#'); CREATE TABLE plain (id int PRIMARY KEY, v varchar(99)); INSERT INTO plain VALUES (1, '#')", "#", strings.TrimSuffix(forged, "\r")))
	}
	ways := map[string]string{"postgres": "postgres", "mariadb": "mysql", "mysql": "postgres"}
	for from, source := range sources {
		for to, srv := range map[string]*testdb.Server{"postgres": pg, "mariadb": maria, "mysql": mysql} {
			if !testdb.Long() && ways[from] != to {
				continue
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				target, bare := srv.NewDatabase(t, "to"), srv.NewDatabase(t, "bare")
				for _, line := range [][]string{{"check", source, target}, {"copy", source, target, "--plan"}, {"copy", source, target, "-v"}, {"copy", source, target},
					{"diff", source, target, "--definitions"}, {"check", target, source, "--include", "no" + forged}, {"diff", source, bare}} {
					showsNothingForged(t, line, testdb.Run(t, line...))
				}
				line := []string{"diff", source, bare, "--definitions=only"}
				o := testdb.Run(t, line...)
				showsNothingForged(t, line, o)
				if to == from && from == "postgres" {
					testdb.Query(t, bare, o.Out)
					testdb.Must(t, line...)
				}
				if from == "postgres" && to != from {
					return // where no name ends with a carriage return
				}
				empties(t, target)
				line = []string{"repair", source, target}
				o = testdb.Run(t, line...)
				showsNothingForged(t, line, o)
				if to != "postgres" { // MySQL cannot write such names in another way
					line = append(line, "--include", "*.plain")
					o = testdb.Run(t, line...)
				}
				testdb.Query(t, target, o.Out)
				testdb.Must(t, append([]string{"diff"}, line[1:]...)...)
			})
		}
	}
}

// empties removes all rows of a database's tables.
func empties(t *testing.T, url string) {
	t.Helper()
	quote := `SELECT string_agg(format('TRUNCATE %I.%I', table_schema, table_name), ';') FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_name NOT LIKE 'tidemark%' AND table_schema NOT IN ('pg_catalog', 'information_schema')`
	if !strings.HasPrefix(url, "postgres") {
		quote = "SELECT GROUP_CONCAT('TRUNCATE `', table_name, '`' SEPARATOR ';') FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_name NOT LIKE 'tidemark%' AND table_schema = DATABASE()"
	}
	testdb.Query(t, url, testdb.Query(t, url, quote))
}
