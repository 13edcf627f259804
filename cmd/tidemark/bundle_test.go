package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// unpacked returns the files of a bundle.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	out := map[string]string{}
	read := func(name string, r io.Reader) {
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(text)
	}
	if strings.HasSuffix(path, ".zip") {
		z, err := zip.OpenReader(path)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			read(f.Name, r)
			r.Close()
		}
		return out
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		read(h.Name, r)
	}
}

// Copies between real servers that fail at a row, and one with a row that is rejected: no bundle
// has the password or a value of a row, and each has the report, the plan and the servers'
// settings.
func TestBundleHasNoSecretAndNoRow(t *testing.T) {
	const value, password = "Zqxv Jkwy (Plugh) 77421190", "s3cret-tide" // of the servers
	for engine, srv := range map[string]*testdb.Server{"postgres": testdb.Postgres(t, 15), "mariadb": testdb.MariaDB(t)} {
		t.Run(engine, func(t *testing.T) {
			src, to, other := srv.NewDatabase(t, "bundle_s"), srv.NewDatabase(t, "bundle_t"), srv.NewDatabase(t, "bundle_o")
			testdb.Query(t, src, "CREATE TABLE person (id int PRIMARY KEY, name varchar(60)); INSERT INTO person VALUES (77421190, '"+value+"'), (77421191, '"+value+"'), (1, 'short')")
			if !strings.Contains(src, password) {
				t.Fatalf("%s has no password", src)
			}
			for _, url := range []string{to, other} {
				testdb.Query(t, url, "CREATE TABLE person (id int PRIMARY KEY, name varchar(60) UNIQUE)")
			}
			failed := cli(t, "copy", src, to, "--prep", "keep")
			if failed.code == 0 || !strings.Contains(failed.errOut, "Zqxv Jkwy") {
				t.Fatalf("the copy does not fail with the value in its error: exit %d: %s", failed.code, failed.errOut)
			}
			dir := t.TempDir()
			for _, name := range []string{"failed.zip", "last.tar.gz"} {
				if name == "last.tar.gz" {
					must(t, "copy", src, other, "--prep", "keep", "--reject-limit", "5")
				}
				path := filepath.Join(dir, name)
				var said struct {
					File  string
					Files []struct{ Name string }
				}
				if err := json.Unmarshal([]byte(must(t, "bundle", "last", "--out", path, "--json").out), &said); err != nil || said.File != path {
					t.Fatal(err)
				}
				files := unpacked(t, path)
				if len(files) != len(said.Files) {
					t.Errorf("%d files, said %d", len(files), len(said.Files))
				}
				all := ""
				for name, text := range files {
					all += text
					for _, secret := range []string{"Zqxv", "Jkwy", "Plugh", "7742119", password} {
						if strings.Contains(text, secret) || strings.Contains(name, secret) {
							t.Errorf("%s has %q:\n%s", name, secret, text)
						}
					}
				}
				for _, want := range []string{"person", "README.txt", "report.txt"} {
					if want == "person" && !strings.Contains(all, want) || strings.HasSuffix(want, "txt") && !hasFile(files, want) {
						t.Errorf("%s lacks %s", path, want)
					}
				}
				if name == "last.tar.gz" && !strings.Contains(all, map[string]string{"postgres": "max_wal_size", "mariadb": "innodb_buffer_pool_size"}[engine]) {
					t.Errorf("%s lacks the settings of the servers", path)
				}
				if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
					t.Errorf("%v, %v", err, st.Mode())
				}
			}
			o := cli(t, "bundle", "last", "--out", filepath.Join(dir, "failed.zip"))
			if o.code == 0 || !strings.Contains(o.errOut, "the file exists already") {
				t.Errorf("exit %d: %s", o.code, o.errOut)
			}
		})
	}
	if o := cli(t, "bundle", "nothing"); o.code == 0 || !strings.Contains(o.errOut, "neither a run nor a stream has this name") {
		t.Errorf("exit %d: %s", o.code, o.errOut)
	}
}

func hasFile(files map[string]string, end string) bool {
	for name := range files {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// A stream's bundle has its samples, its tables and its runs, and no key of a row.
func TestBundleOfAStream(t *testing.T) {
	srv := testdb.Postgres(t, 15)
	src, to := srv.NewDatabase(t, "bundle_st"), srv.NewDatabase(t, "bundle_tt")
	testdb.Query(t, src, "CREATE TABLE person (name text PRIMARY KEY); INSERT INTO person VALUES ('Zqxv 77421190')")
	must(t, "replicate", src, to, "--name", "bundled", "--until", "now")
	path := filepath.Join(t.TempDir(), "stream.zip")
	must(t, "bundle", "bundled", "--out", path)
	files := unpacked(t, path)
	for _, want := range []string{"stream/bundled/stream.json", "stream/bundled/tables.json", "stream/bundled/samples.json", "stream/bundled/settings.json", "stream/bundled/status.txt"} {
		if files[want] == "" {
			t.Errorf("no %s", want)
		}
	}
	if !hasFile(files, "plan.json") || !strings.Contains(files["stream/bundled/tables.json"], "person") {
		t.Errorf("the copy or the table are missing: %s", files["stream/bundled/tables.json"])
	}
	for name, text := range files {
		for _, secret := range []string{"s3cret-tide", "Zqxv", "77421190"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", name, secret, text)
			}
		}
	}
	must(t, "replicate", src, to, "--name", "bundled", "--remove")
}
