package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// connectionForms are connection strings as people write them, right and wrong; U is the user, S
// the plain secret, E the secret percent-encoded, H a host where nobody listens.
var connectionForms = []string{
	"X://U:E@H/shop", "X://U:E@H/shop?a=b", "X://:E@H/shop", "X://U:E@", "X://U:E@H,H/shop", "X://U@H/shop?password=E", "X://H/shop?user=U&password=E&a=b",
	"X://U:E@H/shop?sslpassword=E", "X://U:S@H/shop", "X://:S@H", "X://U::S@H", "X://U/S@H", "X://U:S@H,H", "X:///U:S@H", "X://U@U:S@H/shop", "X://U@H/shop?password=S",
	"X://H?user=U&pwd=S", "X:/U:S@H/shop", "X:U:S@H/shop", "//U:S@H/shop", " X://U:S@H", "X ://U:S@H", "jdbc:X://U:S@H/shop", "U:S@tcp(H)/shop", "U:S@H/shop",
	"host=127.0.0.1 port=1 user=U password=E", "host=127.0.0.1 port=1 user=U password='S'", "user=U password=S host=127.0.0.1 port=1", "X://U%3AE@H/shop", "X://U:E@H/shop?tls=nonsense&sslmode=nonsense",
	"nats://E@H", "nats://S@H", "nats://U:E@H,nats://E@H", "kafka://U:S@H/topic", "kafka+tls://U:E@H/topic?sasl=plain", "sftp://U:S@H/folder", "sftp://U:E@H/folder",
	"s3://bucket/x?endpoint=H&tls=off&secret-access-key=E", "azblob://c/x?endpoint=http://H/a&sig=E", "gs://b/x?endpoint=http://U:E@H",
	"X://U@H/shop?passwrd=E", "X://U@H/shop?passwrd=S", "X://U@H/shop?tls=true&pass-word=S&a=b", "X://U@H/shop?%70aswd=E", "host=127.0.0.1 port=1 user=U passwrd=E", "passwrd='S' host=127.0.0.1", "U/S@H", "U/S@H/shop", "U/S@//H/shop",
	"sftp://U@H/folder?passwrd=S", "s3://bucket/x?endpoint=H&secretkey=S", "azblob://c/x?endpoint=http://H/a&keey=S", "gs://b/x?keey=S", "kafka://H/topic?passwrd=S", "nats://H?passwrd=S", "relay://H?secrit=S",
}

// commandsWithURLs are all command lines that accept a connection string, written "?"; "!" is a
// folder.
var commandsWithURLs = [][]string{
	{"copy", "?", "?"}, {"copy", "?", "?", "--json"}, {"copy", "file:/nowhere.sql", "?"}, {"copy", "?", "?", "--plan"}, {"check", "?", "?"}, {"diff", "?", "?"}, {"diff", "?", "?", "--json"}, {"repair", "?", "?"},
	{"replicate", "?", "?"}, {"replicate", "?", "?", "--queue", "?"}, {"replicate", "?", "?", "--remove"}, {"replicate", "?", "?", "--json", "--metrics", "127.0.0.1:0"}, {"capture", "?", "?", "--queue", "?"}, {"capture", "?", "?", "--queue", "?", "--monitor-to", "?"},
	{"apply", "?", "?", "--queue", "?"}, {"cutover", "?", "?"}, {"peek", "--queue", "?"}, {"exceptions", "?"}, {"status", "--name", "?"}, {"sub", "start", "?"}, {"skip", "?"},
	{"backup", "?", "!"}, {"backup", "?", "?"}, {"backup", "--logical", "?", "?"}, {"backup", "?", "!", "?"}, {"restore", "?", "latest", "!"}, {"restore", "!", "latest", "?"}, {"backups", "?"}, {"verify", "?"}, {"prune", "?", "--keep", "last=1"},
	{"archive", "?", "!"}, {"archive", "?", "?"}, {"archive", "push", "?", "000000010000000000000001"}, {"archive", "get", "?", "000000010000000000000001", "x"},
	{"ha", "scan", "?"}, {"ha", "check", "?"}, {"ha", "check", "?", "--replica", "?"}, {"ha", "plan", "?"}, {"?"}, {"report", "?"}, {"runs", "?"}, {"utilities", "?"}, {"set", "?"}, {"copy", "?", "?", "--lanes", "?"},
	{"forecast", "?", "?"}, {"forecast", "?", "?", "--probe", "1s"}, {"load", "?"}, {"bundle", "?"}, {"report", "?", "?"}, {"copy", "?", "?", "--finish-by", "?"},
}

// leaked returns a piece of a secret found in text, and not in another one: four consecutive
// characters, one of them a capital; what else is printed has none of these.
func leaked(secret, text, but string) string {
	for _, whole := range []string{secret, url.QueryEscape(secret)} {
		for i := 0; i+4 <= len(whole); i++ {
			if piece := whole[i : i+4]; !strings.Contains(piece, "%") && strings.Trim(piece, "ABCDEFGHJKMNPQSTVWXYZ") != piece && strings.Contains(text, piece) && !strings.Contains(but, piece) {
				return piece
			}
		}
	}
	return ""
}

// secretsPart numbers the processes of the long form.
const secretsPart = "TIDEMARK_TEST_SECRETS"

// No piece of a secret in a connection string, right or wrong, appears in the output of any
// command, nor in its catalogue, its logs, or anything else it leaves. The long form does it in ten
// processes, one after another: cobra keeps each command line that has completions, 1 MB each.
func TestNoCommandTellsASecret(t *testing.T) {
	t.Parallel()
	part, _ := strconv.ParseUint(os.Getenv(secretsPart), 10, 64) // 0: there are none
	if testdb.Long() && part == 0 {
		for i := range 10 {
			p := exec.Command(os.Args[0], "-test.run=^TestNoCommandTellsASecret$")
			p.Env = append(os.Environ(), fmt.Sprintf("%s=%d", secretsPart, i+1))
			if out, err := p.CombinedOutput(); err != nil {
				t.Errorf("part %d: %v\n%s", i+1, err, out)
			}
		}
		return
	}
	rounds := 250
	if testing.Short() {
		rounds = 25
	}
	for i := range uint64(8) { // they mostly wait for servers that do not exist
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			tellNoSecret(t, rand.New(rand.NewPCG(3+part, i)), rounds)
		})
	}
}

// emptyCatalog returns the bytes of a catalogue in which nothing is: its SQL has capitals.
func emptyCatalog(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "catalog.db")
	c, err := catalog.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// tellNoSecret runs this many commands.
func tellNoSecret(t *testing.T, rnd *rand.Rand, rounds int) {
	t.Helper()
	const letters, signs = "ABCDEFGHJKMNPQSTVWXYZ", "@/#?:%&=+ !$'\"\\;,()[]{}<>~`^|-_.*0123456789"
	closed := testdb.FreeAddress(t)
	schemes := []string{"mysql", "mariadb", "postgres", "postgresql", "db2", "http"}
	dir := t.TempDir()
	empty := emptyCatalog(t)
	for n := range rounds {
		secret := []byte{letters[rnd.IntN(len(letters))]}
		for want := 6 + rnd.IntN(12); len(secret) < want; {
			from := letters
			if rnd.IntN(5) == 0 {
				from = signs
			}
			secret = append(secret, from[rnd.IntN(len(from))])
		}
		encoded := strings.ReplaceAll(url.QueryEscape(string(secret)), "+", "%20")
		text := func() string {
			form := connectionForms[rnd.IntN(len(connectionForms))]
			return strings.NewReplacer("X", schemes[rnd.IntN(len(schemes))], "U", "tm", "H", closed, "S", string(secret), "E", encoded).Replace(form)
		}
		args := []string{}
		for _, a := range commandsWithURLs[n%len(commandsWithURLs)] {
			switch a {
			case "?":
				a = text()
			case "!":
				a = filepath.Join(dir, "place")
			}
			args = append(args, a)
		}
		own := filepath.Join(dir, "run")
		if err := os.MkdirAll(own, 0o700); err != nil {
			t.Fatal(err)
		}
		if c := args[0]; c != "ha" && c != "backups" && c != "verify" && c != "prune" && c != "sub" && c != "exceptions" && c != "archive" {
			args = append(args, "--state", filepath.Join(own, "catalog.db"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		var out bytes.Buffer
		code := run(ctx, args, &out, &out)
		cancel()
		if piece := leaked(string(secret), out.String(), ""); piece != "" {
			t.Errorf("%q of %q is in what %q prints (exit %d):\n%s", piece, secret, args, code, out.String())
		}
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				data, _ := os.ReadFile(path)
				if piece := leaked(string(secret), string(data), empty); piece != "" {
					t.Fatalf("%q of %q is in %s after %q", piece, secret, path, args)
				}
			}
			return nil
		})
		if err := os.RemoveAll(own); err != nil {
			t.Fatal(err)
		}
	}
}

// TestServersRepeatNoSecret: what a server says of a login is printed without a password that was
// percent-encoded together with the user.
func TestServersRepeatNoSecret(t *testing.T) {
	t.Parallel()
	for kind, server := range map[string]*testdb.Server{"postgres": pg15(t), "mysql": mysql8(t), "mariadb": maria(t)} {
		u, err := url.Parse(server.NewDatabase(t, "shop"))
		if err != nil {
			t.Fatal(err)
		}
		for _, user := range []*url.Userinfo{url.User("tm:QXZ'W[JB"), url.UserPassword("tm:QXZ'W[JB", "x"), url.User("tm:QXZWJB")} {
			u.User = user
			if o := cli(t, "check", u.String(), u.String()); o.code != 4 || strings.Contains(o.out+o.errOut, "QXZ") {
				t.Errorf("%s, %s: exit %d: %s%s", kind, u, o.code, o.out, o.errOut)
			}
		}
	}
}
