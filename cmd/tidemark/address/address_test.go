package address

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
)

func TestURL(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	if err := os.WriteFile("localhost=5432", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ text, want string }{
		{"postgres://me@old/shop", "postgres://me@old/shop"},
		{"mysql://me@old/shop?tls=false", "mysql://me@old/shop?tls=false"},
		{"Postgres://Me@old/Shop", "postgres://Me@old/Shop"},
		{"MySQL://me@old/shop", "mysql://me@old/shop"},
		{"postgres://u@%2Frun%2Fpg/db", "postgres://u@/db?host=%2Frun%2Fpg"},
		{"postgresql://u:p%40@%2Frun%2fpg:5433/db?sslmode=disable", "postgresql://u:p%40@/db?host=%2Frun%2fpg&port=5433&sslmode=disable"},
		{"postgres://%2Frun", "postgres:///?host=%2Frun"},
		{"file:dump.sql", "file:dump.sql"},
		{"dump.sql.gz", "dump.sql.gz"},
		{"/backup/main", "/backup/main"},
		{"s3://bucket/main", "s3://bucket/main"},
		{"localhost=5432", "localhost=5432"},
		{"conflict=stop", "conflict=stop"},
		{"binlog.000007:1234", "binlog.000007:1234"},
		{"standby.example.com:7455", "standby.example.com:7455"},
		{"host=db dbname=shop", "postgres://db/shop"},
		{"host=db port=5433 dbname=shop user=me", "postgres://me@db:5433/shop"},
		{"host = db  dbname='my shop' user='o\\'neil' password = 'a b@c/d'", "postgres://o%27neil:a%20b%40c%2Fd@db/my%20shop"},
		{"dbname=shop sslmode=verify-full", "postgres:///shop?sslmode=verify-full"},
		{"host=/var/run/postgresql dbname=shop", "postgres:///shop?host=%2Fvar%2Frun%2Fpostgresql"},
		{"host=a,b port=5432,5433 dbname=shop", "postgres:///shop?host=a%2Cb&port=5432%2C5433"},
		{"host=::1 port=5432", "postgres://[::1]:5432/"},
		{"service=shop", "postgres:///?service=shop"},
		{"service=shop password=x", "postgres:///?password=x&service=shop"},
		{"localhost:5432/shop", "postgres://localhost:5432/shop"},
		{"localhost:5432", "postgres://localhost:5432"},
		{"me@db:3306", "mysql://me@db:3306"},
		{"me@db.example.com:3306/shop", "mysql://me@db.example.com:3306/shop"},
		{"me:pw@10.0.0.1:5432/shop?sslmode=require", "postgres://me:pw@10.0.0.1:5432/shop?sslmode=require"},
		{"[::1]:5432/shop", "postgres://[::1]:5432/shop"},
		{"jdbc:postgresql://old:5432/shop?user=me", "postgresql://old:5432/shop?user=me"},
	} {
		if got, err := URL(x.text); got != x.want || err != nil {
			t.Errorf("%s: %s, %v; want %s", x.text, got, err, x.want)
		}
	}
	for _, text := range []string{"host=db dbname", "host='db", "me:s3cret@db/shop", "localhost:1234/shop", "me:s3cret@db:1234/shop", "dbname=shop password='s3cret"} {
		got, err := URL(text)
		if tidemark.KindOf(err) != tidemark.Invalid || tidemark.HintOf(err) == "" || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

const myCnf = `# of the user
[client]
user = shop   # who
password = "s3 cret#1"
host=db1.example.com
port=3307
ssl_mode=VERIFY_CA
ssl-ca=/etc/ca.pem
!include /nowhere
[client_old]
user=old
password=other
host=old.example.com

[mysqldump]
user=dumper
`

func TestMyCnf(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("MYSQL_PWD", "")
	t.Setenv("MYSQL_TEST_LOGIN_FILE", "")
	if err := os.WriteFile(filepath.Join(home, ".my.cnf"), []byte(myCnf), 0o600); err != nil {
		t.Fatal(err)
	}
	const tls = "?tls=verify-ca&tls-ca=%2Fetc%2Fca.pem"
	for _, x := range []struct{ text, shown, opened string }{
		{"mysql:///shop", "mysql://shop@db1.example.com:3307/shop" + tls, "mysql://shop:s3%20cret%231@db1.example.com:3307/shop" + tls},
		{"mysql://db1.example.com/shop", "mysql://shop@db1.example.com/shop" + tls, "mysql://shop:s3%20cret%231@db1.example.com/shop" + tls},
		{"mysql://me@db1.example.com/shop?tls=false", "mysql://me@db1.example.com/shop?tls=false", "mysql://me@db1.example.com/shop?tls=false"},
		{"mysql://shop@elsewhere/shop", "mysql://shop@elsewhere/shop", "mysql://shop@elsewhere/shop"}, // its password is not for others
		{"mysql:///shop?group=_old", "mysql://old:other@old.example.com:3307/shop" + tls, "mysql://old:other@old.example.com:3307/shop" + tls},
		{"mysql:///shop?group=client_old", "mysql://old:other@old.example.com:3307/shop" + tls, "mysql://old:other@old.example.com:3307/shop" + tls},
		{"postgres://me@db1.example.com/shop", "postgres://me@db1.example.com/shop", "postgres://me@db1.example.com/shop"},
	} {
		shown, err := URL(x.text)
		if shown != x.shown || err != nil {
			t.Errorf("%s: %s, %v; want %s", x.text, shown, err, x.shown)
		}
		if opened, err := WithPassword(shown, ""); opened != x.opened || err != nil {
			t.Errorf("%s: %s, %v; want %s", x.text, opened, err, x.opened)
		}
	}
	_, err := URL("mysql:///shop?group=new")
	if tidemark.KindOf(err) != tidemark.Invalid || tidemark.HintOf(err) != "Use one of its groups: client, client_old, mysqldump." {
		t.Errorf("%v, %s", err, tidemark.HintOf(err))
	}
	t.Setenv("MYSQL_PWD", "said")
	if got, err := WithPassword("mysql://me@db/shop", ""); got != "mysql://me:said@db/shop" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// TestMyCnfIncludes reads what a file includes where it includes it, and no file without end.
func TestMyCnfIncludes(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("MYSQL_PWD", "")
	t.Setenv("MYSQL_TEST_LOGIN_FILE", "")
	write := func(name, text string) {
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(".my.cnf", "[client]\nuser=first\nhost=db1\n!include ~/none.cnf\n!include ~/more.cnf\nport=3307\n!includedir "+home+"/d\n")
	write("more.cnf", "!include ~/.my.cnf\n[client]\nuser=second\nport=1\n[old]\nhost=old\n")
	write("d/2.cnf", "[client]\npassword=two\n")
	write("d/1.cnf", "[client]\npassword=one\n")
	write("d/3.txt", "[client]\npassword=three\n")
	shown, err := URL("mysql:///shop")
	if shown != "mysql://second@db1:3307/shop" || err != nil {
		t.Errorf("%s, %v", shown, err)
	}
	if opened, err := WithPassword(shown, ""); opened != "mysql://second:two@db1:3307/shop" || err != nil {
		t.Errorf("%s, %v", opened, err)
	}
	if shown, err := URL("mysql:///shop?group=old"); shown != "mysql://second:two@old:3307/shop" || err != nil {
		t.Errorf("%s, %v", shown, err)
	}
	write(".my.cnf", "!includedir "+home+"/nowhere\n")
	if _, err := URL("mysql:///shop"); tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "nowhere") {
		t.Error(err)
	}
}

// myLogin is what mysql_config_editor 8.0.33 has made of two login paths: client, with the password
// s3 cret#1"x, and old, with a port.
const myLogin = "AAAAAB0YARgOGxMAEwwCDxsCFRQXExIPEAAAAEMrq/OGQqX9fUN/reC9LUMQAAAAwbLVGLEXE6ih" +
	"I7i6je0JKiAAAAD8LQ81sufDonAehModJkTNwt2bu745bMrpfbym+fvHzCAAAABTgY+k4M43fzdN" +
	"UvHIHq+gVN9Yd1oPBorFjjS8AYHJ9xAAAAAJuiFbg6c8UJSoHvuAii8TEAAAABQq4+cbitXNqm8z" +
	"VdeJG0YgAAAAzTPav5dh2JM2z7RcLqcZuQQVobZFAsH7xKtb5Oz2EwUgAAAAlGXjTSYJFe4xrjXC" +
	"5kcPb1TfWHdaDwaKxY40vAGByfcQAAAAl8DYUcS8+XJK8Ex8dS+9Gg=="

// TestMyLogin reads the login paths of MySQL's clients, which hold against ~/.my.cnf.
func TestMyLogin(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("MYSQL_PWD", "")
	file := filepath.Join(home, "logins")
	t.Setenv("MYSQL_TEST_LOGIN_FILE", file)
	bytes, err := base64.StdEncoding.DecodeString(myLogin)
	if err := errors.Join(err, os.WriteFile(file, bytes, 0o600), os.WriteFile(filepath.Join(home, ".my.cnf"), []byte("[mysql]\nuser=else\nport=3308\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ text, shown, opened string }{
		{"mysql:///shop", "mysql://shop@db1.example.com:3308/shop", "mysql://shop:s3%20cret%231%22x@db1.example.com:3308/shop"},
		{"mysql:///shop?group=old", "mysql://me:other@old.example.com:3307/shop", "mysql://me:other@old.example.com:3307/shop"},
		{"mariadb://db1.example.com/shop", "mariadb://else@db1.example.com/shop", "mariadb://else@db1.example.com/shop"}, // its clients know none
	} {
		shown, err := URL(x.text)
		if shown != x.shown || err != nil {
			t.Errorf("%s: %s, %v; want %s", x.text, shown, err, x.shown)
		}
		if opened, err := WithPassword(shown, ""); opened != x.opened || err != nil {
			t.Errorf("%s: %s, %v; want %s", x.text, opened, err, x.opened)
		}
	}
	for n := range bytes { // cut anywhere, it is refused, or has fewer lines
		if err := os.WriteFile(file, bytes[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := URL("mysql:///shop"); err != nil && tidemark.KindOf(err) != tidemark.Invalid {
			t.Fatal(n, err)
		}
	}
	if err := os.WriteFile(file, bytes[:90], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := URL("mysql:///shop"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Error(err)
	}
}

func TestPasswordFile(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("MYSQL_PWD", "")
	t.Setenv("PGUSER", "pguser")
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "passwords")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	several := file("# ours\nold:5432:shop:me:one\nold:*:*:*:t\\:w:o\n*:3306:*:root:three\n")
	for _, x := range []struct{ text, file, want string }{
		{"postgres://me@old/shop", several, "postgres://me:one@old/shop"},
		{"postgres://me@old:5433/shop", several, "postgres://me:t%3Aw%3Ao@old:5433/shop"},
		{"postgres://old/x", several, "postgres://pguser:t%3Aw%3Ao@old/x"},
		{"mysql://root@db/shop", several, "mysql://root:three@db/shop"},
		{"mysql://me@db/shop", several, "mysql://me@db/shop"},
		{"mysql://me:own@db/shop", several, "mysql://me:own@db/shop"},
		{"postgres://me@old/shop", file("a:b\n"), "postgres://me:a%3Ab@old/shop"},
		{"mysql://me@old/shop", file("#1\n"), ""},
		{"mysql://me@old/shop", file("secret word"), "mysql://me:secret%20word@old/shop"},
		{"dump.sql", several, "dump.sql"},
	} {
		got, err := WithPassword(x.text, x.file)
		if got != x.want || (err != nil) != (x.want == "") {
			t.Errorf("%s: %s, %v; want %s", x.text, got, err, x.want)
		}
	}
	for kind, path := range map[tidemark.Kind]string{tidemark.NotFound: "/nowhere", tidemark.Invalid: file("a:b:c:d:s3cret\ns3cret\n")} {
		if _, err := WithPassword("mysql://me@db/shop", path); tidemark.KindOf(err) != kind || strings.Contains(err.Error(), "s3cret") {
			t.Error(err)
		}
	}
}
