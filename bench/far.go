package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/tidemarkdb/tidemark/ha/measure"
)

// setUpFarDiff puts a link that adds this delay to each round trip in front of both databases of
// diff-pg.
func setUpFarDiff(delay time.Duration) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) error {
		if err := setUpDiff(ctx, b, a); err != nil {
			return err
		}
		return a.distance(delay, a.servers()...)
	}
}

func farDiffTools(b *bench, a *arena) []tool {
	beside := b.tidemarkTool("diff", a.source.url(database), a.target.url(database), nil)
	beside.name, beside.rival = near, true
	return []tool{b.tidemarkTool("diff", a.source.reach(database), a.target.reach(database), nil), beside}
}

// bucket is the one of a store with the protocol of S3.
const bucket = "bench"

// setUpFarStore starts such a store behind a link that adds this delay to each round trip.
func setUpFarStore(delay time.Duration) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) error {
		if err := setUpMixed(ctx, b, a); err != nil {
			return err
		}
		dir := filepath.Join(b.dir, "store")
		if err := os.MkdirAll(filepath.Join(dir, bucket), 0o755); err != nil {
			return err
		}
		port, err := freePort()
		if err != nil {
			return err
		}
		programs, err := filepath.Glob(filepath.Join(testCache(), "versitygw-*", "versitygw"))
		if err != nil || len(programs) == 0 {
			return fmt.Errorf("no versitygw: run make test-deps (%w)", err)
		}
		cmd := exec.Command(programs[0], "--port", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "--quiet", "posix", dir)
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY_ID="+account, "ROOT_SECRET_ACCESS_KEY="+password)
		if err := cmd.Start(); err != nil {
			return err
		}
		a.store = &server{port: port}
		a.closers = append(a.closers, closer(func() error {
			_ = cmd.Process.Kill() // it may have ended
			return cmd.Wait()
		}))
		return a.distance(delay, a.store)
	}
}

// farLine is the link of far-relay.
var farLine = measure.Line{Delay: 20 * time.Millisecond, Rate: 100e6 / 8}

// setUpFarRelay starts a relay beside the target, and puts such a link in front of both.
func setUpFarRelay(engine string) func(context.Context, *bench, *arena) error {
	return func(ctx context.Context, b *bench, a *arena) error {
		setUp := setUpPgShop
		scheme := "postgres"
		if engine == "maria" {
			setUp, scheme = setUpMaria(engine), "mariadb"
		}
		if err := setUp(ctx, b, a); err != nil {
			return err
		}
		if err := b.buildTidemark(ctx); err != nil {
			return err
		}
		port, err := freePort()
		if err != nil {
			return err
		}
		cmd := exec.Command(b.tidemark, "relay", "--listen", "127.0.0.1:"+strconv.Itoa(port), "--dir", filepath.Join(b.dir, "relay"),
			"--state", filepath.Join(b.dir, "relay.db"), "--target", scheme+"://127.0.0.1:"+strconv.Itoa(a.target.port)+"?sslmode=disable")
		cmd.Env = append(os.Environ(), relaySecret)
		if err := cmd.Start(); err != nil {
			return err
		}
		a.closers = append(a.closers, closer(func() error {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // it was killed
			fmt.Fprintf(os.Stderr, "the relay: %.1f s of CPU, peak memory %d MB\n", (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10)
			return nil
		}))
		a.relay = &server{port: port}
		return a.behind(farLine, a.target, a.relay)
	}
}

// relaySecret is for both sides, in their environment.
const relaySecret = "TIDEMARK_RELAY_SECRET=5d1f0a7bfe9b4c6d"

func farRelayTools(b *bench, a *arena) []tool {
	through := b.tidemarkTool("copy", a.source.url(database), a.target.url(database), a.target)
	bare := through.steps
	through.steps = func(scratch string) ([][]step, error) {
		all, err := bare(scratch)
		if err == nil {
			all[0][0].args = append(all[0][0].args, "--relay", "127.0.0.1:"+strconv.Itoa(a.relay.far))
			all[0][0].env = append(all[0][0].env, relaySecret)
		}
		return all, err
	}
	direct := b.tidemarkTool("copy", a.source.url(database), a.target.reach(database), a.target)
	direct.name, direct.rival = "tidemark, without a relay", true
	return []tool{through, direct}
}

type closer func() error

func (c closer) Close() error { return c() }

var _ io.Closer = closer(nil)

// farStoreTools back up a server into the store, and restore that.
func farStoreTools(b *bench, a *arena) []tool {
	one := func(name string, port int) tool {
		k := keeper{b, a, "far"}
		place := fmt.Sprintf("s3://%s/main?endpoint=127.0.0.1:%d&tls=off", bucket, port)
		return tool{name: name, before: func(context.Context) error {
			return os.RemoveAll(filepath.Join(b.dir, "store", bucket, "main"))
		}, steps: func(scratch string) (out [][]step, err error) {
			for _, args := range [][]string{{"backup", a.source.url("postgres"), place}, {"restore", place, "latest", filepath.Join(scratch, "data")}} {
				st := k.tidemark(args...)
				st.env = append(st.env, "AWS_ACCESS_KEY_ID="+account, "AWS_SECRET_ACCESS_KEY="+password, "AWS_REGION=us-east-1")
				out = append(out, []step{st})
			}
			return out, nil
		}}
	}
	beside := one(near, a.store.port)
	beside.rival = true
	return []tool{one("tidemark", a.store.far), beside}
}
