package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// sshPlace is an account on another machine, and how to log in there.
type sshPlace struct {
	user, password string
	host, port     string
	key            string // file; "": those of ssh
	knownHosts     string // file
}

// newSSHPlace reads sftp://user@host:port/...?key=FILE&known_hosts=FILE.
func newSSHPlace(u *url.URL) (sshPlace, error) {
	p := sshPlace{host: u.Hostname(), port: u.Port(), user: u.User.Username()}
	p.password, _ = u.User.Password()
	home, _ := os.UserHomeDir() // without one, the files have to be named
	p.knownHosts = filepath.Join(home, ".ssh", "known_hosts")
	for name, values := range u.Query() {
		switch name {
		case "key":
			p.key = values[0]
		case "known_hosts":
			p.knownHosts = values[0]
		default:
			return p, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: p.String(), Err: errors.New(name + " is no parameter of an sftp URL"), Hint: "key=FILE and known_hosts=FILE are"}
		}
	}
	if p.user == "" {
		if me, err := user.Current(); err == nil {
			p.user = me.Username
		}
	}
	if p.port == "" {
		p.port = "22"
	}
	if p.host == "" {
		return p, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: "sftp:", Err: errors.New("no host was given"), Hint: "write sftp://user@host/folder"}
	}
	return p, nil
}

func (p sshPlace) address() string { return net.JoinHostPort(p.host, p.port) }

func (p sshPlace) String() string {
	host := p.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if p.port != "22" {
		host += ":" + p.port
	}
	return "sftp://" + url.User(p.user).String() + "@" + host
}

// sshClient is a connection with a session of SFTP.
type sshClient struct {
	*sftp.Client
	conn *ssh.Client
}

func (c *sshClient) Close() error {
	return errors.Join(c.Client.Close(), c.conn.Close())
}

const (
	sshDialTimeout = 20 * time.Second
	sshAlive       = 15 * time.Second // between two questions whether the server is there
)

func (p sshPlace) fail(kind tidemark.Kind, err error, hint string) error {
	return &tidemark.Error{Op: "connect", Object: p.String(), Kind: kind, Hint: hint, Err: err}
}

func (p sshPlace) dial(ctx context.Context) (*sshClient, error) {
	known, err := knownhosts.New(p.knownHosts)
	if err != nil {
		return nil, p.fail(tidemark.Invalid, errors.New("the file of known hosts cannot be read"), "connect once with ssh, or name the file with ?known_hosts=FILE")
	}
	auth, done, err := p.auth()
	if err != nil {
		return nil, err
	}
	defer done()
	cfg := &ssh.ClientConfig{User: p.user, Auth: auth, HostKeyCallback: known, HostKeyAlgorithms: p.algorithms(known), Timeout: sshDialTimeout}
	dial := net.Dialer{Timeout: sshDialTimeout}
	tcp, err := dial.DialContext(ctx, "tcp", p.address())
	if err != nil {
		return nil, p.fail(tidemark.Unreachable, err, "check host and port, and whether sshd runs there")
	}
	_ = tcp.SetDeadline(time.Now().Add(sshDialTimeout)) // of the login
	conn, channels, requests, err := ssh.NewClientConn(tcp, p.address(), cfg)
	if err != nil {
		_ = tcp.Close() // the first error counts
		return nil, p.refused(err)
	}
	_ = tcp.SetDeadline(time.Time{})
	client := ssh.NewClient(conn, channels, requests)
	session, err := sftp.NewClient(client, sftp.UseConcurrentWrites(true), sftp.UseConcurrentReads(true))
	if err != nil {
		_ = client.Close() // the first error counts
		return nil, p.fail(tidemark.Unsupported, err, "the server has to offer the subsystem sftp")
	}
	c := &sshClient{Client: session, conn: client}
	crash.Go(c.keepAlive)
	return c, nil
}

// keepAlive ends a connection whose server does not answer any more, so that nothing waits for ever.
func (c *sshClient) keepAlive() {
	gone := make(chan struct{})
	crash.Go(func() {
		_ = c.conn.Wait()
		close(gone)
	})
	t := time.NewTicker(sshAlive)
	defer t.Stop()
	for {
		select {
		case <-gone:
			return
		case <-t.C:
		}
		answer := make(chan error, 1)
		crash.Go(func() {
			_, _, err := c.conn.SendRequest("keepalive@openssh.com", true, nil)
			answer <- err
		})
		select {
		case <-gone:
			return
		case <-answer:
		case <-time.After(4 * sshAlive):
			_ = c.conn.Close()
			return
		}
	}
}

// refused words why a login failed.
func (p sshPlace) refused(err error) error {
	var key *knownhosts.KeyError
	switch {
	case errors.As(err, &key) && len(key.Want) == 0:
		return p.fail(tidemark.Denied, errors.New("the host is not known"), "connect once with ssh and compare its key, or add it to "+p.knownHosts)
	case errors.As(err, &key):
		return p.fail(tidemark.Denied, errors.New("the host has another key than the one that is known"), "if it was set up anew, replace its line in "+p.knownHosts+"; if not, somebody may stand between")
	case strings.Contains(err.Error(), "unable to authenticate"):
		return p.fail(tidemark.Denied, errors.New("the login was refused"), "give the user's key with ?key=FILE, or load it into an ssh agent")
	}
	return p.fail(tidemark.Transient, err, "")
}

// algorithms are those of the keys that are known of the host: a server offers its others first, and
// would be refused for them.
func (p sshPlace) algorithms(known ssh.HostKeyCallback) []string {
	var key *knownhosts.KeyError
	err := known(p.address(), &net.TCPAddr{}, noKey{})
	if !errors.As(err, &key) {
		return nil
	}
	var out []string
	for _, k := range key.Want {
		if k.Key.Type() == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		}
		out = append(out, k.Key.Type())
	}
	return out
}

// noKey is a key that nobody has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return nil }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// auth gives the ways to log in, and what is to be called when that is over.
func (p sshPlace) auth() (ways []ssh.AuthMethod, done func(), err error) {
	done = func() {}
	var signers []ssh.Signer
	files := []string{p.key}
	if p.key == "" {
		home, _ := os.UserHomeDir() // without one there are no keys there
		files = nil
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			files = append(files, filepath.Join(home, ".ssh", name))
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			if p.key != "" {
				return nil, done, p.fail(tidemark.NotFound, fmt.Errorf("the key file %s cannot be read", file), "check the path")
			}
			continue
		}
		s, err := ssh.ParsePrivateKey(text)
		if err != nil {
			var locked *ssh.PassphraseMissingError
			if p.key != "" && !errors.As(err, &locked) {
				return nil, done, p.fail(tidemark.Invalid, fmt.Errorf("the file %s holds no private key", file), "name the key without .pub")
			}
			continue // with a passphrase: an agent may have it
		}
		signers = append(signers, s)
	}
	if len(signers) > 0 {
		ways = append(ways, ssh.PublicKeys(signers...))
	}
	if path := os.Getenv("SSH_AUTH_SOCK"); path != "" {
		if conn, err := net.Dial("unix", path); err == nil {
			done = func() { _ = conn.Close() } // nothing was written that could be lost
			// One method of one name is tried: the files' keys go with the agent's.
			ways = []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) {
				more, err := agent.NewClient(conn).Signers()
				if err != nil {
					return signers, nil
				}
				return append(signers, more...), nil
			})}
		}
	}
	if p.password != "" {
		ways = append(ways, ssh.Password(p.password))
	}
	if len(ways) == 0 {
		return nil, done, p.fail(tidemark.Denied, errors.New("there is no key to log in with"), "give one with ?key=FILE, or load it into an ssh agent: those with a passphrase are used through an agent only")
	}
	return ways, done, nil
}
