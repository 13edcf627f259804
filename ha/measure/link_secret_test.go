package measure

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// No listener that other machines can reach starts without a secret, or with a short one.
func TestListenNeedsASecret(t *testing.T) {
	for _, spec := range []ListenSpec{{Addr: ":0"}, {Addr: "0.0.0.0:0"}, {Addr: "[::]:0"}, {Addr: ":0", Secret: "too short"}, {Addr: "127.0.0.1:0", Secret: "too short"}} {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		err := Listen(ctx, spec)
		stop()
		if tidemark.KindOf(err) != tidemark.Invalid || !strings.Contains(err.Error(), "secret") || tidemark.HintOf(err) == "" || spec.Secret != "" && strings.Contains(err.Error(), spec.Secret) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}

// With a secret, a peer without it gets nothing, whatever it requests; a peer with it gets
// everything.
func TestListenWithASecret(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef"
	dir := t.TempDir()
	f := listeningWith(t, ListenSpec{Standby: StandbySpec{Dir: dir}, Secret: secret})
	ctx := context.Background()
	for _, wrong := range []string{"", "0123456789abcdeg", secret + "0"} {
		_, look := LookAtPeer(ctx, f.addr, wrong)
		_, disk := MeasurePeerDisk(ctx, f.addr, wrong, "postgres", time.Second)
		_, measure := MeasureLink(ctx, LinkSpec{Peer: f.addr, Secret: wrong, Time: time.Second})
		_, proxied := MeasureLink(ctx, LinkSpec{Peer: f.addr, Secret: wrong, Time: time.Second, Line: Line{Delay: time.Millisecond}})
		_, ship := Simulate(ctx, SimSpec{Mode: "on", Peer: f.addr, Secret: wrong, Count: 5})
		for what, err := range map[string]error{"look": look, "disk": disk, "measure": measure, "proxied": proxied, "ship": ship} {
			if tidemark.KindOf(err) != tidemark.Denied || !strings.Contains(err.Error(), "shared secret") || !strings.Contains(tidemark.HintOf(err), "TIDEMARK_HA_SECRET") || wrong != "" && strings.Contains(err.Error()+tidemark.HintOf(err), wrong) {
				t.Errorf("%s with %q: %v", what, wrong, err)
			}
		}
	}
	// A peer that does not wait for the challenge, or answers an earlier one, is not served either.
	c, r := greeted(t, f.addr)
	challenge := challenged(t, r)
	c.Close()
	for name, answer := range map[string]any{"another hello": hello{Purpose: "measure"}, "an old proof": proofMessage{proof(secret, challenge)}, "no proof": proofMessage{}, "the challenge": proofMessage{challenge}} {
		c, r := greeted(t, f.addr)
		challenged(t, r)
		var w welcome
		if err := writeGreeting(c, answer); err != nil {
			t.Fatal(err)
		}
		if err := readGreeting(r, &w); err != nil || w.Refused != wrongSecret || w.Token != "" {
			t.Errorf("%s: %v, %+v", name, err, w)
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
	if said := f.said(); strings.Contains(said, ": measuring") || strings.Contains(said, "shipping") || !strings.Contains(said, "does not have the shared secret") {
		t.Error(said)
	}
	empty(t, dir)

	if has, err := LookAtPeer(ctx, f.addr, secret); err != nil || !has {
		t.Errorf("%v, %v", has, err)
	}
	if _, err := MeasureLink(ctx, LinkSpec{Peer: f.addr, Secret: secret, Time: 300 * time.Millisecond, Line: Line{Delay: time.Millisecond}}); err != nil {
		t.Error(err)
	}
	if _, err := MeasurePeerDisk(ctx, f.addr, secret, "postgres", 50*time.Millisecond); err != nil {
		t.Error(err)
	}
	simulated(t, SimSpec{Mode: "on", Peer: f.addr, Secret: secret, Count: 5})
	// A peer with a secret is also served by a listener that does not require one.
	simulated(t, SimSpec{Mode: "on", Peer: listening(t, false, nil).addr, Secret: secret, Count: 5})
}

// The secret itself is never sent, whatever side asks for proofs.
func TestSecretDoesNotTravel(t *testing.T) {
	t.Parallel()
	const secret = "a secret of many bytes"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	came := make(chan []byte, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			came <- nil
			return
		}
		_ = writeGreeting(c, welcome{Challenge: "prove it"})
		text := make([]byte, 1<<16)
		n, _ := c.Read(text)
		c.SetReadDeadline(time.Now().Add(2 * time.Second))
		rest, _ := io.ReadAll(c) // until then
		c.Close()
		came <- append(text[:n], rest...)
	}()
	_, _ = LookAtPeer(context.Background(), l.Addr().String(), secret) // fails: there is no welcome
	if text := <-came; !bytes.Contains(text, []byte(`"proof":"`)) || bytes.Contains(text, []byte("secret")) {
		t.Errorf("%q", text)
	}
}
