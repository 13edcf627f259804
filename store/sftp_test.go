package store

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// known writes a known_hosts file with the server's key, or another.
func known(t *testing.T, s *testdb.SSHServer, key string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "known_hosts")
	line := ""
	if key != "" {
		line = fmt.Sprintf("[%s]:%d %s\n", s.Host, s.Port, key)
	}
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func sftpURL(s *testdb.SSHServer, dir, key, known string) string {
	return fmt.Sprintf("sftp://%s@%s:%d%s/%s?key=%s&known_hosts=%s", s.User, s.Host, s.Port, s.Dir, dir, key, known)
}

func TestSFTP(t *testing.T) {
	s := testdb.SSH(t)
	url := sftpURL(s, "a/b", s.Key, known(t, s, s.HostKey))
	conform(t, func(t *testing.T) Store {
		st, err := Open(t.Context(), url, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
		return st
	})
	err := filepath.WalkDir(filepath.Join(s.Dir, "a", "b"), func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".") {
			t.Errorf("%s was left", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A new name is on disk when Commit returns: its folder is synced after the rename, and so are the
// parents of new folders.
func TestSFTPSyncsFolders(t *testing.T) {
	s := testdb.OwnSSHThatTells(t)
	st, err := Open(t.Context(), sftpURL(s, "synced", s.Key, known(t, s, s.HostKey)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	root := filepath.Join(s.Dir, "synced")
	said := func() string {
		text, err := os.ReadFile(s.Log)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	done := func(what string, folders ...string) {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) { // the log may be late
			missing := ""
			for _, f := range folders {
				if !strings.Contains(said(), "fsync \""+f+"\"") {
					missing = f
				}
			}
			if missing == "" {
				return
			}
			if time.Since(begun) > 5*time.Minute {
				t.Fatalf("%s: %s is not synced:\n%s", what, missing, said())
			}
		}
	}
	o, err := st.Create(t.Context(), "a/b/c", New)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Commit(); err != nil {
		t.Fatal(err)
	}
	done("commit", s.Dir, root, filepath.Join(root, "a"), filepath.Join(root, "a", "b"))
	text := said()
	if strings.LastIndex(text, "fsync") < strings.LastIndex(text, "rename") {
		t.Errorf("the folder is synced before the rename:\n%s", text)
	}
	if err := st.Delete(t.Context(), "a/b/c"); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); strings.Count(said(), "fsync \""+root+"\"") < 2; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 5*time.Minute {
			t.Fatalf("delete is not synced:\n%s", said())
		}
	}
}

// Files of a killed writer are not listed, and are swept once they are old enough.
func TestSFTPSweep(t *testing.T) {
	s := testdb.SSH(t)
	st, err := Open(t.Context(), sftpURL(s, "sweep", s.Key, known(t, s, s.HostKey)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	o, err := st.Create(t.Context(), "packs/x/1", New)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	for i := range st.List(t.Context(), "") {
		t.Errorf("%s is listed", i.Name)
	}
	for _, c := range []struct {
		before time.Time
		want   int
	}{{time.Now().Add(-time.Hour), 0}, {time.Now().Add(time.Hour), 1}} {
		gone, err := Sweep(t.Context(), st, c.before)
		if err != nil || len(gone) != c.want {
			t.Errorf("%v were swept: %v", gone, err)
		}
	}
}

// The store reconnects to a server that was killed and restarted.
func TestSFTPServerKilled(t *testing.T) {
	s := testdb.OwnSSH(t)
	st, err := Open(t.Context(), sftpURL(s, "killed", s.Key, known(t, s, s.HostKey)), Options{Attempts: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	put := func(name string) error {
		o, err := st.Create(t.Context(), name, New)
		if err != nil {
			return err
		}
		defer o.Abort()
		if _, err := o.Write([]byte("text")); err != nil {
			return err
		}
		return o.Commit()
	}
	if err := put("one"); err != nil {
		t.Fatal(err)
	}
	// The connection has its own process, which outlives the listener.
	r := unwrapped(st).(*remote)
	s.Kill(t)
	r.mu.Lock()
	_ = r.client.conn.Close()
	r.mu.Unlock()
	s.Restart(t)
	if err := put("two"); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Stat(t.Context(), "one"); err != nil {
		t.Error(err)
	}
}

func unwrapped(s Store) Store {
	for {
		u, ok := s.(interface{ Unwrap() Store })
		if !ok {
			return s
		}
		s = u.Unwrap()
	}
}

// Failed logins return the reason and a hint.
func TestSFTPLogin(t *testing.T) {
	s := testdb.SSH(t)
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("HOME", t.TempDir())
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	otherPublic := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	right := known(t, s, s.HostKey)
	look := func(url string) error {
		st, err := Open(t.Context(), url, Options{Attempts: 1})
		if err != nil {
			return err
		}
		defer st.Close()
		_, err = st.Stat(t.Context(), "x")
		return err
	}
	for name, c := range map[string]struct {
		url, text string
		kind      tidemark.Kind
	}{
		"right":         {sftpURL(s, "x", s.Key, right), "no such file", tidemark.NotFound},
		"other key":     {sftpURL(s, "x", other, right), "the login was refused", tidemark.Denied},
		"unknown host":  {sftpURL(s, "x", s.Key, known(t, s, "")), "the host key is not known", tidemark.Denied},
		"changed host":  {sftpURL(s, "x", s.Key, known(t, s, otherPublic)), "the host's key is not the known one", tidemark.Denied},
		"no key":        {strings.Replace(sftpURL(s, "x", s.Key, right), "key="+s.Key+"&", "", 1), "no key to log in with", tidemark.Denied},
		"missing key":   {sftpURL(s, "x", "/not/there", right), "cannot be read", tidemark.NotFound},
		"no known file": {sftpURL(s, "x", s.Key, "/not/there"), "cannot read the known_hosts file", tidemark.Invalid},
		"no server":     {strings.Replace(sftpURL(s, "x", s.Key, right), fmt.Sprint(s.Port), "1", 1), "refused", tidemark.Unreachable},
		"no folder":     {fmt.Sprintf("sftp://me@%s/", s.Host), "no folder was given", tidemark.Invalid},
		"no host":       {"sftp:///x", "no host was given", tidemark.Invalid},
		"parameter":     {"sftp://me@host/x?pass=y", `unknown option "pass"`, tidemark.Invalid},
	} {
		err := look(c.url)
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.text)) && c.kind != tidemark.NotFound || tidemark.KindOf(err) != c.kind {
			t.Errorf("%s: %v (%v)", name, err, tidemark.KindOf(err))
		}
		if err != nil && tidemark.HintOf(err) == "" && c.kind != tidemark.NotFound {
			t.Errorf("%s: %v has no hint", name, err)
		}
	}
	// The user's key is in an agent.
	text, err := os.ReadFile(s.Key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.ParseRawPrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		t.Fatal(err)
	}
	sock := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(ring, c)
		}
	}()
	t.Setenv("SSH_AUTH_SOCK", sock)
	if err := look(sftpURL(s, "x", other, right)); tidemark.KindOf(err) != tidemark.NotFound {
		t.Errorf("with an agent: %v", err)
	}
}

// A call ends with its context, whatever the server does.
func TestSFTPCancelled(t *testing.T) {
	s := testdb.SSH(t)
	st, err := Open(t.Context(), sftpURL(s, "x", s.Key, known(t, s, s.HostKey)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.Stat(ctx, "x"); err == nil || tidemark.KindOf(err) == tidemark.NotFound {
		t.Errorf("%v", err)
	}
}
