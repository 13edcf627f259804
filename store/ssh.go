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
	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// sshPlace is an account on another machine, and how to log in.
type sshPlace struct {
	user, password string
	host, port     string
	key            string // file; "": ssh's default keys
	knownHosts     string // file
}

// newSSHPlace parses sftp://user@host:port/...?key=FILE&known_hosts=FILE.
func newSSHPlace(u *url.URL) (sshPlace, error) {
	p := sshPlace{host: u.Hostname(), port: u.Port(), user: u.User.Username()}
	p.password, _ = u.User.Password()
	home, _ := os.UserHomeDir() // without a home, the files must be named
	p.knownHosts = filepath.Join(home, ".ssh", "known_hosts")
	for name, values := range u.Query() {
		switch name {
		case "key":
			p.key = values[0]
		case "known_hosts":
			p.knownHosts = values[0]
		default:
			return p, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: p.String(), Err: errors.New(tidemark.UnknownOption(u, name)), Hint: "Valid parameters are key=FILE and known_hosts=FILE."}
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
		return p, &tidemark.Error{Kind: tidemark.Invalid, Op: "open repository", Object: "sftp:", Err: errors.New("no host was given"), Hint: "Write sftp://user@host/folder."}
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

// sshClient is a connection with an SFTP session.
type sshClient struct {
	*sftp.Client
	conn *ssh.Client
}

func (c *sshClient) Close() error {
	return errors.Join(c.Client.Close(), c.conn.Close())
}

const (
	sshDialTimeout = 20 * time.Second
	sshAlive       = 15 * time.Second // interval between checks that the server responds
)

func (p sshPlace) fail(kind tidemark.Kind, err error, hint string) error {
	return &tidemark.Error{Op: "connect", Object: p.String(), Kind: kind, Hint: hint, Err: err}
}

func (p sshPlace) dial(ctx context.Context) (*sshClient, error) {
	known, err := knownhosts.New(p.knownHosts)
	if err != nil {
		return nil, p.fail(tidemark.Invalid, errors.New("cannot read the known_hosts file"), "Connect once with ssh, or name the file with ?known_hosts=FILE.")
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
		return nil, p.fail(tidemark.Unreachable, err, "Check host and port, and whether sshd runs there.")
	}
	_ = tcp.SetDeadline(time.Now().Add(sshDialTimeout)) // for the login
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
		return nil, p.fail(tidemark.Unsupported, err, "Enable the sftp subsystem on that server.")
	}
	c := &sshClient{Client: session, conn: client}
	crash.Go(c.keepAlive)
	return c, nil
}

// keepAlive closes a connection whose server no longer responds, so that nothing waits forever.
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

// refused describes why a login failed.
func (p sshPlace) refused(err error) error {
	var key *knownhosts.KeyError
	switch {
	case errors.As(err, &key) && len(key.Want) == 0:
		return p.fail(tidemark.Denied, errors.New("the host key is not known"), "Connect once with ssh and compare its key, or add it to "+p.knownHosts)
	case errors.As(err, &key):
		return p.fail(tidemark.Denied, errors.New("the host's key is not the known one"), "If the host was reinstalled, replace its line in "+p.knownHosts+"; if not, this may be a man-in-the-middle attack.")
	case strings.Contains(err.Error(), "unable to authenticate"):
		return p.fail(tidemark.Denied, errors.New("the login was refused"), "Give the user's key with ?key=FILE, or load it into an ssh agent.")
	}
	return p.fail(tidemark.Transient, err, "")
}

// algorithms returns the algorithms of the known keys of the host: a server would otherwise offer
// other keys first, and be rejected.
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

// noKey is a host key that no server has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return nil }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// auth returns the ways to log in, and a function to call after the login.
func (p sshPlace) auth() (ways []ssh.AuthMethod, done func(), err error) {
	done = func() {}
	var signers []ssh.Signer
	files := []string{p.key}
	if p.key == "" {
		home, _ := os.UserHomeDir() // without a home there are no default keys
		files = nil
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			files = append(files, filepath.Join(home, ".ssh", name))
		}
	}
	for _, file := range files {
		text, err := plainfile.ReadSecret(file)
		if errors.Is(err, plainfile.ErrOpen) && p.key != "" {
			return nil, done, p.fail(tidemark.Invalid, fmt.Errorf("others can read the key file %s", file), "chmod 600 it, as ssh demands.")
		}
		if err != nil {
			if p.key != "" {
				return nil, done, p.fail(tidemark.NotFound, fmt.Errorf("cannot read the key file %s", file), "Check the path.")
			}
			continue
		}
		s, err := ssh.ParsePrivateKey(text)
		if err != nil {
			var locked *ssh.PassphraseMissingError
			if p.key != "" && !errors.As(err, &locked) {
				return nil, done, p.fail(tidemark.Invalid, fmt.Errorf("the file %s holds no private key", file), "Name the private key, without .pub.")
			}
			continue // it has a passphrase: an agent may have the key
		}
		signers = append(signers, s)
	}
	if len(signers) > 0 {
		ways = append(ways, ssh.PublicKeys(signers...))
	}
	if path := os.Getenv("SSH_AUTH_SOCK"); path != "" {
		if conn, err := net.Dial("unix", path); err == nil {
			done = func() { _ = conn.Close() } // nothing was written that could be lost
			// Only one method of each name is tried: so the files' keys are combined with the
			// agent's.
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
		return nil, done, p.fail(tidemark.Denied, errors.New("there is no key to log in with"), "Give one with ?key=FILE, or load it into an ssh agent. A key with a passphrase needs the agent.")
	}
	return ways, done, nil
}
