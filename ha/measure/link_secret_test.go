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

// Where other machines reach it, nobody listens without a secret, nor with a short one.
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

// With a secret, whoever does not have it gets nothing, whatever it asks for; whoever has it gets
// all.
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
	// Who does not wait for the challenge, or answers one of before, is not served either.
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
	if said := f.said(); strings.Contains(said, ": measures") || strings.Contains(said, "ships") || !strings.Contains(said, "does not have the shared secret") {
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
	// One that is not asked for it is served as well.
	simulated(t, SimSpec{Mode: "on", Peer: listening(t, false, nil).addr, Secret: secret, Count: 5})
}

// The secret itself does not travel, whoever asks for proofs.
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
		c.SetReadDeadline(time.Now().Add(2 * time.Second))
		text, _ := io.ReadAll(c) // until then
		c.Close()
		came <- text
	}()
	_, _ = LookAtPeer(context.Background(), l.Addr().String(), secret) // fails: nobody welcomes it
	if text := <-came; !bytes.Contains(text, []byte(`"proof":"`)) || bytes.Contains(text, []byte("secret")) {
		t.Errorf("%q", text)
	}
}
