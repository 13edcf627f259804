package address

import (
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
	if tidemark.KindOf(err) != tidemark.Invalid || tidemark.HintOf(err) != "Its groups are client, client_old, mysqldump." {
		t.Errorf("%v, %s", err, tidemark.HintOf(err))
	}
	t.Setenv("MYSQL_PWD", "said")
	if got, err := WithPassword("mysql://me@db/shop", ""); got != "mysql://me:said@db/shop" || err != nil {
		t.Errorf("%s, %v", got, err)
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
