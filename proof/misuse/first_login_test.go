package misuse

import (
	"net/url"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// TestSourceForgetsThePassword: a server of MySQL 8 asks for the password itself at a user's
// first login after its restart. It is not sent to a server that is not verified: a new command
// is refused with a hint that can be followed, and a running stream waits and says for what, also
// if the password was changed; a wrong password is called that where it may be sent.
func TestSourceForgetsThePassword(t *testing.T) {
	t.Parallel()
	s, name := testdb.OwnMySQL(t), streamName()
	src, dst := full(t, s), testdb.Postgres(t, 15).NewDatabase(t, "dst")
	testdb.Query(t, src, "CREATE USER shy@'%' IDENTIFIED WITH caching_sha2_password BY 'right'; GRANT ALL ON *.* TO shy@'%'")
	u, err := url.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	at := func(password, options string) string {
		w := *u
		w.User, w.RawQuery = url.UserPassword("shy", password), options
		return w.String()
	}
	bySocket := at("right", "socket="+url.QueryEscape(testdb.Query(t, src, "SELECT @@socket")))
	logsInElsewhere := func() { testdb.Must(t, "check", bySocket, dst, "--prep", "truncate") } // as the hint says
	arrives := func(value string) {
		t.Helper()
		testdb.Query(t, src, "UPDATE orders SET name = '"+value+"' WHERE id = 1")
		soon(t, value+" arrives", func() bool {
			got, err := testdb.TryQuery(dst, allOrders)
			return err == nil && strings.Contains(got, value)
		})
	}
	args := []string{"replicate", at("right", ""), dst, "--name", name}
	refused := func(command, url, why, hint string) {
		t.Helper()
		o := run(t, command, url, dst)
		_, h, _ := strings.Cut(o.ErrOut, "hint: ")
		if o.Code != 4 || !strings.Contains(o.ErrOut, why) || !strings.Contains(h, hint) {
			t.Errorf("%s: exit %d, want 4, %q and a hint with %q\n%s", command, o.Code, why, hint, o.ErrOut)
		}
	}

	refused("replicate", at("right", ""), "identity is not verified", "mysql -u shy -p")
	refused("check", at("wrong", "get-server-public-key=true"), "Access denied", "password")
	logsInElsewhere()
	refused("check", at("wrong", ""), "if the password is wrong", "mysql -u shy -p")
	p := testdb.Start(t, args...)
	arrives("streamed")
	if o := run(t, "check", at("right", ""), dst, "--prep", "truncate"); !strings.Contains(o.Out+o.ErrOut, "asks for the password itself (caching_sha2_password)") {
		t.Errorf("check does not warn: exit %d\n%s%s", o.Code, o.Out, o.ErrOut)
	}
	if o := run(t, "check", bySocket, dst, "--prep", "truncate"); strings.Contains(o.Out+o.ErrOut, "asks for the password") {
		t.Errorf("check warns of a socket\n%s", o.Out)
	}

	s.Kill(t)
	s.Restart(t)
	p.Says("waits for the source: connect")
	p.Says("since it was restarted and this user has not logged in yet")
	soon(t, "status says what it waits for", func() bool {
		o := run(t, "status", "--name", name)
		return strings.Contains(o.Out, "retrying") && strings.Contains(o.Out, "asks for the password itself")
	})
	logsInElsewhere()
	arrives("after the restart")

	testdb.Query(t, src, "ALTER USER shy@'%' IDENTIFIED WITH caching_sha2_password BY 'another'")
	for _, id := range strings.Fields(testdb.Query(t, src, "SELECT id FROM information_schema.processlist WHERE user = 'shy'")) {
		_, _ = testdb.TryQuery(src, "KILL "+id) // it may have ended
	}
	p.Says("or the password was changed")
	testdb.Query(t, src, "ALTER USER shy@'%' IDENTIFIED WITH caching_sha2_password BY 'right'")
	logsInElsewhere()
	arrives("after the change")
	if p.Over() {
		t.Error("the stream has ended")
	}
	if strings.Contains(p.Text(), "right") {
		t.Error("the output has the password")
	}
}
