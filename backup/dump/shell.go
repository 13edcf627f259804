package dump

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/engine"
)

// How statements and rows reach a server, by the family of its engine.
var clients = map[string]struct {
	example string
	needs   string // what has to be there, for the README
	joined  bool   // it takes all statements of a session in one argument
	shell   string
}{
	engine.Postgres: {"psql -h HOST -U USER -d DATABASE", "\nThe database has to be there, and empty; roles are not in the backup.\n", false, `export PGCLIENTENCODING=UTF8
export PGOPTIONS="-c DateStyle=ISO,YMD -c IntervalStyle=iso_8601 -c TimeZone=UTC -c lc_monetary=C ${PGOPTIONS:-}"
send() { $CLIENT -X -q -o /dev/null -v ON_ERROR_STOP=1 "$@"; }
load() {
	file=$1; shift; n=$#
	for sql do set -- "$@" -c "$sql"; done
	shift $n
	unpack "$file" | send "$@"
	check
}
finish() {
	export PGOPTIONS="$PGOPTIONS -c client_min_messages=error"
	unpack "$1" | send -v ON_ERROR_STOP=0 -f - 2> "$refused" || echo "the client ended with an error" >> "$refused"
	check
}
`},
	engine.MySQL: {"mysql -h HOST -u USER -pPASSWORD",
		"\nDatabases are made if they are not there, and their tables must not be. The server has to allow\nLOAD DATA LOCAL (SET GLOBAL local_infile = ON). MariaDB's client is called mariadb.\n", true, `SET="SET foreign_key_checks=0, unique_checks=0, time_zone='+00:00', sql_mode='STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'"
send() { $CLIENT --default-character-set=utf8mb4 --binary-mode --comments --show-warnings --local-infile=1 --init-command="$SET" "$@"; }
load() { unpack "$1" | send -e "$2"; check; }
finish() {
	unpack "$1" | send --force 2> "$refused.all" || echo "ERROR: the client ended with an error" >> "$refused.all"
	grep '^ERROR' "$refused.all" > "$refused" || cat "$refused.all" >&2
	check
}
`},
}

// incomplete is the exit code of restore.sh if all rows were loaded but a definition failed, as of
// tidemark restore.
const incomplete = 16

// shell returns the script that restores everything.
func (d *Writer) shell(c Content) []byte {
	client := clients[engine.Family(c.Database.Engine)]
	var b bytes.Buffer
	fmt.Fprintf(&b, "#!/bin/sh\n# Restores %s as of %s. README.txt says how to run it.\nset -eu\n", strings.ReplaceAll(whatOf(c), "\n", " "), c.Position.Text)
	fmt.Fprintf(&b, ": \"${CLIENT:?set the command that connects to the server: CLIENT='%s'}\"\n", client.example)
	unpack := `zstd -dcq "$1"`
	suffix := ""
	if !d.open {
		suffix = ".age"
		b.WriteString(": \"${IDENTITY:?set the file of the identity: IDENTITY=FILE}\"\n")
		unpack = `{ age -d -i "$IDENTITY" "$1" || echo "$1" >> "$bad"; } | zstd -dcq`
	}
	fmt.Fprintf(&b, "bad=$(mktemp)\nrefused=$(mktemp)\ntrap 'rm -f \"$bad\" \"$refused\" \"$refused.all\"' EXIT\nunpack() { %s || echo \"$1\" >> \"$bad\"; }\n", unpack)
	b.WriteString("check() { if [ -s \"$bad\" ]; then echo \"damaged: $(cat \"$bad\")\" >&2; exit 1; fi; }\n")
	b.WriteString(client.shell + "run() { unpack \"$1\" | send; check; }\n\n")
	fmt.Fprintf(&b, "run %s%s\n", beforePath, suffix)
	for i := range d.rows {
		r := &d.rows[i]
		fmt.Fprintf(&b, "load %s%s", r.Path, suffix)
		sql := c.Script.LoadStatements(&c.Moves[r.Move], &r.Range)
		if client.joined {
			sql = []string{strings.Join(sql, "; ")}
		}
		for _, s := range sql {
			b.WriteString(" '" + strings.ReplaceAll(s, "'", `'\''`) + "'")
		}
		b.WriteByte('\n')
	}
	// The last statements are applied as far as the server accepts them: one rejected view must not
	// keep a trigger out.
	fmt.Fprintf(&b, "finish %s%s\n", afterPath, suffix)
	fmt.Fprintf(&b, "if [ -s \"$refused\" ]; then\n\techo \"All rows are loaded. The server rejected these statements, by line of %s:\" >&2\n\tcat \"$refused\" >&2\n\texit %d\nfi\n", afterPath, incomplete)
	return b.Bytes()
}

func whatOf(c Content) string {
	if c.Database.Name == "" {
		return "all databases of a " + engine.Of(c.Database.Engine).Title + " server"
	}
	return engine.Of(c.Database.Engine).Title + " database " + c.Database.Name
}

// readme explains how to restore by hand. Anyone may read it, so it has no names.
func (d *Writer) readme(c Content) []byte {
	client := clients[engine.Family(c.Database.Engine)]
	var b strings.Builder
	fmt.Fprintf(&b, `This folder is logical backup %s of tidemark, of a %s %s server.
Restore it with tidemark restore, or with the standard programs as below.

  before.sql.zst   what the rows need: schemas, types, tables
  data/            rows as text, an object for each range of a table, in the form of %s
  after.sql.zst    what comes after them: keys, indexes, views, triggers
  restore.sh       all commands, in their order
  SHA256SUMS       checksums of all these: sha256sum -c SHA256SUMS
  description.jsonl.zst   the same, for programs

restore.sh stops at the first error before the last rows are there. What of after.sql the server refuses it lists at
its end, with exit code 16, and makes the rest.

Where this is a bucket, fetch the folder first. Then, in it, with zstd and the client program:

`, d.w.ID, engine.Of(c.Database.Engine).Title, c.Database.Version, map[tidemark.Format]string{tidemark.CopyText: "COPY", tidemark.LoadData: "LOAD DATA (CHARACTER SET binary)"}[FormatOf(c.Database.Engine)])
	if d.open {
		fmt.Fprintf(&b, "  CLIENT='%s' sh restore.sh\n\nor single tables: restore.sh has the command of each.\n", client.example)
	} else {
		fmt.Fprintf(&b, `  age -d -i YOUR-KEY identity.age > identity       (or, with a passphrase: age -d identity.age > identity)
  age -d -i identity restore.sh.age > restore.sh
  IDENTITY=identity CLIENT='%s' sh restore.sh

Each object with .age is a file of age for that identity: age -d -i identity FILE.zst.age | zstd -d.
`, client.example)
	}
	b.WriteString(client.needs)
	return []byte(b.String())
}
