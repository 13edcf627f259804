package tidemark_test

import (
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

// A connection string with a secret in it, well or badly written. Secrets have capitals and
// signs, and nothing else of a string has a capital, so that any piece of one is seen.
type connection struct {
	text   string
	secret string
}

// forms are how people write connection strings; U is the user, S the secret as it is, E
// the secret percent-encoded, H the host.
var forms = []string{
	"X://U:E@H/shop", "X://U:E@H:1/shop?a=b", "X://U:E@H", "X://:E@H/shop", "X://U:E@", "X://U:E@H,H:2/shop", "X://U:E@[::1]:1/shop",
	"X://U@H/shop?password=E", "X://H/shop?user=U&password=E&a=b", "X://U:E@H/shop?sslpassword=E&passphrase=E",
	"X://U:S@H/shop", "X://U:S@H:1/shop?a=b", "X://:S@H", "X://U::S@H", "X://U/S@H", "X://U:S@H,H:2", "X:///U:S@H", "X://U@U:S@H/shop",
	"X://U@H/shop?password=S", "X://H?user=U&pwd=S&a=b", "X:/U:S@H/shop", "X:U:S@H/shop", "X//U:S@H", "//U:S@H/shop", " X://U:S@H", "X ://U:S@H",
	"jdbc:X://U:S@H/shop", "jdbc:X://H/shop?user=U&password=S", "U:S@tcp(H)/shop", "U:S@H/shop", "U:S@unix(/tmp/x)/shop?a=b",
	"host=H user=U password=E", "host=H user=U password='S'", "host=H password = E dbname=shop", "user=U password=S host=H",
	"nats://E@H:4222", "nats://S@H:4222", "tls://E@H", "nats://U:E@H,nats://E@H:2", "nats://U:S@H,nats://S@H", "kafka://U:S@H:1/topic", "kafka+tls://U:E@H:1,H:2/topic?sasl=plain",
	"X://U@H/shop?passwrd=E", "X://U@H/shop?a=b&passwrd=S", "X://U@H/shop?sslmode=require&pass-word=S&a=b", "X://U@H/shop?E", "X://U@H/shop?%70assw=E", "X://U@H/shop#E",
	"host=H user=U passwrd=E", "passwrd=S host=H", "host=H passwrd='S' user=U", "U/S@H", "U/S@H:1/shop", "U/S@//H/shop", "U/E@H",
	"s3://H/prefix?secret-access-key=E", "sftp://U:S@H/folder", "sftp://U:E@H/folder", "azblob://H/x?sig=E", "X://U%3AE@H/shop",
}

var schemes = []string{"mysql", "mariadb", "postgres", "postgresql", "kafka", "nats", "sftp", "db2"}

// newConnection creates one at random.
func newConnection(r *rand.Rand) connection {
	const letters, signs = "ABCDEFGHJKMNPQSTVWXYZ23456789", "@/#?:%&=+ !$'\"\\;,()[]{}<>~`^|-_.*"
	secret := []byte{letters[r.IntN(20)]}
	for n := 3 + r.IntN(14); len(secret) < n; {
		if r.IntN(4) == 0 {
			secret = append(secret, signs[r.IntN(len(signs))])
		} else {
			secret = append(secret, letters[r.IntN(len(letters))])
		}
	}
	form := forms[r.IntN(len(forms))]
	encoded := url.QueryEscape(string(secret))
	encoded = strings.ReplaceAll(encoded, "+", "%20")
	if r.IntN(20) == 0 {
		form = strings.ReplaceAll(form, "H", "[::1")
	}
	text := strings.NewReplacer("X", schemes[r.IntN(len(schemes))], "U", "tm", "H", "127.0.0.1", "S", string(secret), "E", encoded).Replace(form)
	return connection{text, string(secret)}
}

// leaks returns a piece of the secret that stands in text: three of its characters in a row, as
// they are or encoded, since less of it is in any text.
func (c connection) leaks(text string) string {
	for _, whole := range []string{c.secret, url.QueryEscape(c.secret)} {
		for i := 0; i+3 <= len(whole); i++ {
			piece := whole[i : i+3]
			if strings.ContainsAny(piece, "ABCDEFGHJKMNPQSTVWXYZ") && !strings.Contains(piece, "%") && strings.Contains(text, piece) {
				return piece
			}
		}
	}
	return ""
}

// No piece of a secret is in what is printed of a connection string, however it is written,
// nor in an error about it.
func TestNoSecretIsPrinted(t *testing.T) {
	r, n := rand.New(rand.NewPCG(1, 2)), 100_000
	if testing.Short() {
		n = 10_000
	}
	for range n {
		c := newConnection(r)
		masked := tidemark.MaskURL(c.text)
		_, err := tidemark.ParseURL(c.text)
		texts := []string{masked, tidemark.MaskURL(masked), tidemark.MaskText("open " + masked + ": it failed")}
		if err != nil {
			texts = append(texts, err.Error())
		}
		for _, text := range texts {
			if piece := c.leaks(text); piece != "" {
				t.Fatalf("%q of %q is in %q", piece, c.text, text)
			}
		}
		if tidemark.MaskURL(masked) != masked {
			t.Fatalf("%q is masked as %q, and that as %q", c.text, masked, tidemark.MaskURL(masked))
		}
	}
}

// What is right is read, and printed with all that is not secret.
func TestMaskURL(t *testing.T) {
	for _, c := range [][2]string{
		{"mysql://tm:tm@127.0.0.1:3306/db", "mysql://tm@127.0.0.1:3306/db"},
		{"mysql://tm:p%40ss@[::1]:3306/db?tls=true", "mysql://tm@[::1]:3306/db?tls=true"},
		{"mysql://tm:p@ss@h/db", "mysql://tm@h/db"},
		{"mysql://tm:p@ss/word#1@h/db", "mysql://..."},
		{"postgres://u:S3/CRET@h", "postgres://..."},
		{"tm:tm@tcp(h)/db", "..."},
		{"postgres:///shop?host=/run/postgresql", "postgres:///shop?host=/run/postgresql"},
		{"postgres://tm@h/shop?sslmode=require&password=S3CRET", "postgres://tm@h/shop?sslmode=require&password=***"},
		{"nats://TOKEN@host", "nats://***@host"},
		{"postgres://tm@h/shop?sslmode=require&passwrd=S3CRET&b=c", "postgres://tm@h/shop?sslmode=require&passwrd=***"},
		{"mysql://tm@h/shop?S3CRET", "mysql://tm@h/shop?***"},
		{"mysql://tm@h/shop?%74ls=true&%70wd=S3CRET", "mysql://tm@h/shop?%74ls=true&***"},
		{"mysql://tm@h/shop#S3CRET", "mysql://tm@h/shop#***"},
		{"host=h dbname=shop passwrd=S3CRET", "host=h dbname=shop passwrd=***"},
		{"passwrd='S3 CRET' host=h", "passwrd=***"},
		{"host=h port=5 user='me too'", "host=h port=5 user='me too'"},
		{"port=5 and x=1", "port=5 and x=1"},
		{"sec/S3CRET@h", "..."},
		{"dumps/me@home.sql.gz", "dumps/me@home.sql.gz"},
		{"./dumps/me@home", "./dumps/me@home"},
		{"db2://me@h/SHOP?tls=verify-full&tls-ca=/etc/ca.pem&connect-timeout=5s", "db2://me@h/SHOP?tls=verify-full&tls-ca=/etc/ca.pem&connect-timeout=5s"},
		{"nats://h?creds=/etc/nats.creds&ca=a&cert=b&key=c", "nats://h?creds=/etc/nats.creds&ca=a&cert=b&key=c"},
		{"kafka://u:p@h/t?sasl=plain&ca=a&cert=b&key=c", "kafka://u@h/t?sasl=plain&ca=a&cert=b&key=c"},
		{"sftp://me@h/f?key=/home/me/key&known_hosts=/home/me/hosts", "sftp://me@h/f?key=/home/me/key&known_hosts=/home/me/hosts"},
		{"azblob://c/p?account=a&endpoint=https://h", "azblob://c/p?account=a&endpoint=https://h"},
		{"relay://h:1?secret-file=/etc/relay.secret", "relay://h:1?secret-file=/etc/relay.secret"},
		{"nats://a:b@h1:4222,nats://c@h2", "nats://***@h1:4222,nats://***@h2"},
		{"kafka://u:p@h1:9092,h2/topic?sasl=plain", "kafka://u@h1:9092,h2/topic?sasl=plain"},
		{"file:/backup/of:me@home.sql", "file:/backup/of:me@home.sql"},
		{"s3://bucket/prefix?endpoint=h:9000&region=r", "s3://bucket/prefix?endpoint=h:9000&region=r"},
		{"./shop.sql.gz", "./shop.sql.gz"},
	} {
		if got := tidemark.MaskURL(c[0]); got != c[1] {
			t.Errorf("%s is printed as %s, want %s", c[0], got, c[1])
		}
	}
	if got := tidemark.MaskText("GET 'mysql://u:p@h/d': refused, as was (postgres://a:b@c/d)."); got != "GET 'mysql://u@h/d': refused, as was (postgres://a@c/d)." {
		t.Error(got)
	}
}

func FuzzURL(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		f.Add(newConnection(r).text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		masked := tidemark.MaskURL(text)
		if again := tidemark.MaskURL(masked); again != masked {
			t.Errorf("%q is masked as %q, and that as %q", text, masked, again)
		}
		u, err := tidemark.ParseURL(text)
		if err != nil {
			return
		}
		if password, ok := u.User.Password(); ok && len(password) > 5 && !strings.Contains(u.Host+u.Path+u.RawQuery+u.User.Username()+u.Scheme, password) && strings.Contains(masked, password) {
			t.Errorf("the password of %q is in %q", text, masked)
		}
	})
}

// An option that is given twice is refused: which one holds differs between programs.
func TestOptionTwice(t *testing.T) {
	_, err := tidemark.ParseURL("postgres://h/shop?sslmode=verify-full&sslmode=disable")
	if err == nil || !strings.Contains(err.Error(), "twice") {
		t.Error(err)
	}
}

// TestUnknownOption names an option, unless it may be a part of a password.
func TestUnknownOption(t *testing.T) {
	for query, want := range map[string]string{
		"ssl=on":                 `unknown option "ssl"`,
		"password=x":             `unknown option "password"`,
		"ssl=on&password=x":      `unknown option "ssl"`,
		"a=b&password=x&ssl=on":  "unknown option after a password; an & in a password is written as %26",
		"password=YA&+ssl":       "unknown option after a password; an & in a password is written as %26",
		"PassWord=%zz&ssl=p&a=b": "unknown option after a password; an & in a password is written as %26",
		"passwrd=YA&ssl=B":       `unknown option "passwrd"`,
		"tls=true&YA&ssl=B":      "an option has no value",
	} {
		name := "ssl"
		if query == "password=x" {
			name = "password"
		}
		if got := tidemark.UnknownOption(&url.URL{RawQuery: query}, name); got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
}
