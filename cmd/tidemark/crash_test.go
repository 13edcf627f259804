package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/flow"
	"github.com/tidemarkdb/tidemark/internal/crash"
)

// A panic in any goroutine ends the command with exit code 70 and the location of the panic, and
// stops the other goroutines.
func TestPanicsAreReported(t *testing.T) {
	secret := "postgres://me:hush-9@db/x"
	ways := map[string]func(ctx context.Context) error{
		"a goroutine": func(ctx context.Context) error {
			crash.Go(func() { panic("amid " + secret) })
			<-ctx.Done()
			return &tidemark.Error{Kind: tidemark.Cancelled, Op: "copy", Err: errors.New("stopped")}
		},
		"a group": func(ctx context.Context) error {
			var g crash.Group
			g.Go(func() { panic("amid " + secret) })
			<-ctx.Done()
			g.Wait()
			return nil
		},
		"a group in a worker": func(ctx context.Context) error {
			g := flow.NewGroup(ctx)
			g.Go("Reader", func(context.Context, *flow.Clock) error {
				var in crash.Group
				in.Go(func() { panic("amid " + secret) })
				in.Wait()
				return nil
			})
			return &tidemark.Error{Op: "copy", Kind: tidemark.Transient, Err: g.Wait()}
		},
		"a worker": func(ctx context.Context) error {
			g := flow.NewGroup(ctx)
			g.Go("Agent", func(context.Context, *flow.Clock) error { panic("amid " + secret) })
			return &tidemark.Error{Op: "apply", Kind: tidemark.Bug, Err: g.Wait()}
		},
		"nobody heeds it": func(ctx context.Context) error {
			crash.Go(func() { panic("amid " + secret) })
			<-ctx.Done()
			return nil
		},
	}
	for name, do := range ways {
		t.Run(name, func(t *testing.T) {
			ctx, crashed := watchCrashes(t.Context(), func(*crash.Error) { t.Error("it is late") })
			err := func() (err error) {
				defer func() { // as run does
					if e, is := recover().(*crash.Error); is {
						err = e
					}
				}()
				return do(ctx)
			}()
			if e := crashed(); e != nil {
				err = e
			}
			var out bytes.Buffer
			if code := finish(err, false, &out); code != 70 {
				t.Errorf("exit %d", code)
			}
			text := out.String()
			line, rest, _ := strings.Cut(text, "\n")
			if !strings.HasPrefix(line, "tidemark: ") || !strings.Contains(line, "amid postgres://me@db/x") || !strings.Contains(rest, "crash_test.go:") || !strings.Contains(rest, "TestPanicsAreReported") {
				t.Errorf("the report is\n%s", text)
			}
			for _, no := range []string{"hush-9", "goroutine ", "0x"} {
				if strings.Contains(text, no) {
					t.Errorf("%q stands in the report:\n%s", no, text)
				}
			}
		})
	}
}

func TestPanickedIsOfPanics(t *testing.T) {
	if got := panicked(fmt.Errorf("x: %w", errors.New("y"))); got != nil {
		t.Errorf("got %q", got)
	}
}
