package repo

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/internal/testdb"
	"github.com/tidemarkdb/tidemark/store"
)

// A repository on another machine, and one in a bucket, is written, read, verified and pruned like
// one in a folder.
func TestRepositoryElsewhere(t *testing.T) {
	ssh, s3 := testdb.SSH(t), testdb.S3(t)
	known := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(known, fmt.Appendf(nil, "[%s]:%d %s\n", ssh.Host, ssh.Port, ssh.HostKey), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", s3.User)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3.Password)
	if err := os.Mkdir(filepath.Join(s3.Dir, "elsewhere"), 0o777); err != nil { // this is a bucket
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
				if err := putLog(ctx, r, i); err != nil { // repeating it is harmless
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

// What the bucket retains stays, with everything that it needs, and the rest is removed. Once it is
// released, it is removed too.
func TestPruneOfWhatIsKept(t *testing.T) {
	ctx, s3 := t.Context(), testdb.S3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", s3.User)
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3.Password)
	client := must(minio.New(fmt.Sprintf("%s:%d", s3.Host, s3.Port), &minio.Options{Creds: credentials.NewStaticV4(s3.User, s3.Password, ""), Region: "us-east-1"}))
	if err := client.MakeBucket(ctx, "locked", minio.MakeBucketOptions{ObjectLocking: true}); err != nil {
		t.Fatal(err)
	}
	s := must(store.Open(ctx, fmt.Sprintf("s3://locked/prefix?endpoint=%s:%d&tls=off&region=us-east-1", s3.Host, s3.Port), store.Options{}))
	defer s.Close()
	r := must(OpenOrCreate(ctx, s, Keys{}))
	var ids []string
	for i := range 5 {
		parent := ""
		if i == 2 {
			parent = ids[1]
		}
		if err := putLog(ctx, r, i); err != nil {
			t.Fatal(err)
		}
		m, _, err := backUp(ctx, r, parent, "zstd", uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.ID)
		time.Sleep(time.Millisecond)
	}
	// The pack of a backup, an incremental backup, and the oldest log.
	held := []string{"packs/" + ids[0] + "/00000001", "backups/" + ids[2], "wal/" + logName(0)}
	hold := func(status minio.LegalHoldStatus) {
		for _, name := range held {
			if err := client.PutObjectLegalHold(ctx, "locked", "prefix/"+name, minio.PutObjectLegalHoldOptions{Status: &status}); err != nil {
				t.Fatal(err)
			}
		}
	}
	hold(minio.LegalHoldEnabled)
	if err := s.Delete(ctx, held[0]); !store.Kept(err) || tidemark.KindOf(err) != tidemark.Forbidden || tidemark.HintOf(err) == "" {
		t.Fatalf("it is removed, or refused for another reason: %v", err)
	}
	rep := must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
	there := must(r.IDs(ctx))
	want := []string{ids[1], ids[2], ids[4]}
	slices.Sort(there)
	slices.Sort(want)
	if !slices.Equal(there, want) || len(rep.Stay) != 3 || len(rep.Gone) != 2 {
		t.Errorf("%v are there, and not %v: %+v", there, want, rep)
	}
	if want := "once that expires: backups/" + ids[2] + ", packs/" + ids[0] + ", " + held[2]; len(rep.Notes) != 1 || !strings.HasSuffix(rep.Notes[0], want) {
		t.Errorf("it says %q and not %q", rep.Notes, want)
	}
	if v := must(r.Verify(ctx, VerifyOptions{NextLog: pgNext})); len(v.Damages) > 0 || v.Backups != 3 || v.Logs != 5 {
		t.Errorf("%+v", v)
	}
	hold(minio.LegalHoldDisabled)
	rep = must(r.Prune(ctx, PruneOptions{Keep: Keep{Last: 1}}))
	if len(rep.Gone) != 2 || len(rep.Orphans) != 1 || len(rep.Notes) != 0 {
		t.Errorf("%+v", rep)
	}
	if v := must(r.Verify(ctx, VerifyOptions{NextLog: pgNext})); len(v.Damages)+len(v.Left) > 0 || v.Backups != 1 || v.Logs != 3 {
		t.Errorf("%+v", v)
	}
}
