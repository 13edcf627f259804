package repo

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/store"
)

// A repository on another machine, and one in a bucket, are written, read, verified and pruned as
// one in a folder.
func TestRepositoryElsewhere(t *testing.T) {
	ssh, s3 := testdb.SSH(t), testdb.S3(t)
	known := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(known, fmt.Appendf(nil, "[%s]:%d %s\n", ssh.Host, ssh.Port, ssh.HostKey), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", s3.User)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3.Password)
	if err := os.Mkdir(filepath.Join(s3.Dir, "elsewhere"), 0o777); err != nil { // a bucket
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(s3.Dir, "elsewhere"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{
		"sftp": fmt.Sprintf("sftp://%s@%s:%d%s/elsewhere?key=%s&known_hosts=%s", ssh.User, ssh.Host, ssh.Port, ssh.Dir, ssh.Key, known),
		"s3":   fmt.Sprintf("s3://elsewhere/prefix?endpoint=%s:%d&tls=off&region=us-east-1", s3.Host, s3.Port),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s := must(store.Open(ctx, url, store.Options{}))
			defer s.Close()
			r := must(OpenOrCreate(ctx, s, passphrase))
			for i := range 4 {
				if err := putLog(ctx, r, i); err != nil {
					t.Fatal(err)
				}
				if err := putLog(ctx, r, i); err != nil { // once more is as good
					t.Fatal(err)
				}
			}
			var last *Manifest
			var want map[Path][]byte
			for i := range 2 {
				var err error
				if last, want, err = backUp(ctx, r, "", "zstd", uint64(i)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Millisecond)
			}
			got, _, err := read(ctx, r, last)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if v := must(r.Verify(ctx, VerifyOptions{NextLog: pgNext})); len(v.Damages)+len(v.Left) > 0 || v.Backups != 2 || v.Logs != 4 {
				t.Errorf("%+v", v)
			}
			rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
			if len(rep.Gone) != 1 || len(rep.Logs) != 2 || len(rep.Locks)+len(rep.Orphans)+len(rep.Left) > 0 {
				t.Errorf("%+v", rep)
			}
			if v := must(r.Verify(ctx, VerifyOptions{NextLog: pgNext})); len(v.Damages)+len(v.Left) > 0 || v.Backups != 1 || v.Logs != 2 {
				t.Errorf("%+v", v)
			}
			for i := range s.List(ctx, "locks/") {
				t.Errorf("the lock %s is left", i.Name)
			}
		})
	}
}
