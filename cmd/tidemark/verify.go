package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/dump"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/holdings"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/postgres/wal"
)

// verifyOptions are the options of verify.
type verifyOptions struct {
	repoOptions
	pipelineOptions
	serverOptions
	outputOptions
	stateOptions
	quick   bool   // --quick off: only reading finds a flipped bit
	start   bool   // --restore-and-start off: it needs space and a server's program
	dir     string // --work-dir; none: the system's temporary folder
	program string // --server-program; none: it is searched
	workers int    // --workers 2: it runs beside other work
}

func (o *verifyOptions) own() option.Table {
	return option.Table{
		option.New("quick", "on/off", "off", "Check only objects and their sizes. Of their contents, only manifests are read.", option.OnOff(&o.quick)).CommonTo("verify"),
		option.New("restore-and-start", "on/off", "off", "Restore into a temporary folder, start the server there. Tables, indexes and pages are checked.", option.OnOff(&o.start)).CommonTo("verify"),
		option.New("work-dir", "file", "", "Where --restore-and-start creates its folder. The folder is removed at the end; default: the system's folder for temporary files.", option.Text(&o.dir)).CommonTo("verify"),
		option.New("server-program", "file", "", "The program postgres of the server's major version, for --restore-and-start; default: it is searched where packages install it.", option.Text(&o.program)),
		option.New("workers", "number", "2", "Packs and log files to read in parallel, 1 to 64.", option.Number(1, 64, &o.workers)).CommonTo("verify").Also("verify", "jobs", "j"),
	}.In(option.Backups)
}

func (o *verifyOptions) Table() option.Table {
	return option.Join(o.repoOptions.table(), o.pipelineOptions.table(), o.serverOptions.table(), o.outputOptions.table(), o.stateOptions.table(), o.own())
}

func verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify REPO [BACKUP|latest]",
		Short: "Check every byte of a repository against its checksums",
		Long: `Read all backups of a repository and its log, or only the objects that one backup needs, and
check each byte, each file and each reference. It finds and names a flipped bit, a truncated,
lost or exchanged object, or a gap in the log, with the backups that are affected; the exit
code is then 18. In an encrypted repository, this also proves that nobody has changed it.

Objects that no backup needs are listed, but are not errors: unfinished backups, which
tidemark prune removes, and files of other programs.

With --restore-and-start, one backup (latest, if none is named) is restored into a temporary
folder, and the server's own program is started there, where nobody else can connect: it
recovers, the extension amcheck checks all tables and B-tree indexes of all databases, and
after it has stopped, the checksum of each page is checked. The program must be of the
server's major version.`,
		Example: `  tidemark verify /backup/main
  tidemark verify s3://bucket/main latest --identity ~/backup.key
  tidemark verify /backup/main --restore-and-start --work-dir /var/tmp
  tidemark verify sftp://backup@host/main --quick`,
		Args: args(1, 2, "verify REPO [BACKUP|latest]"),
	}
	cmd.RunE = onRepository(flags[verifyOptions](cmd), func(cmd *cobra.Command, given []string, o *verifyOptions, r *repo.Repo) error {
		all, _, err := holdings.Readable(cmd.Context(), r) // damage is found again
		if err != nil {
			return err
		}
		opt := repo.VerifyOptions{Quick: o.quick, Workers: o.workers, NextLog: holdings.NextLog(cmd.Context(), r, all), Text: dump.Text(r), Progress: o.verifyProgress(cmd.ErrOrStderr())}
		if o.start {
			id := "latest" // of those from which a server can start
			if len(given) == 2 {
				id = given[1]
			}
			m, err := o.Choice.Backup(cmd.Context(), r, id, false)
			if err != nil {
				return err
			}
			opt.Backup = m.ID
			return o.verifyAndStart(cmd, r, m, func(ctx context.Context) (*repo.VerifyReport, error) { return r.Verify(ctx, opt) })
		}
		if len(given) == 2 {
			if opt.Backup, err = o.Named(all, given[1]); err != nil {
				return err
			}
		}
		begun := time.Now()
		var at atomic.Pointer[catalog.Work]
		at.Store(&catalog.Work{Phase: "objects", Unit: "bytes", Left: -1})
		show := opt.Progress
		opt.Progress = func(done, all int64) {
			at.Store(&catalog.Work{Phase: "objects", Unit: "bytes", Total: all, Done: done, Left: -1})
			if show != nil {
				show(done, all)
			}
		}
		var rep *repo.VerifyReport
		err = o.recorded(cmd.Context(), "verify", r.Store().String(), opt.Backup, func() catalog.Work { return *at.Load() }, func(ctx context.Context) (err error) {
			if rep, err = r.Verify(ctx, opt); err == nil && opt.Backup == "" {
				err = holesBehind(ctx, r, all, rep)
			}
			return err
		})
		if err != nil {
			return err
		}
		screen.As(cmd.OutOrStdout(), o.json, rep, func(w io.Writer, rep *repo.VerifyReport) { screen.Verified(w, rep, time.Since(begun)) })
		return faultsFound(r, len(rep.Damages))
	})
	return cmd
}

// faultsFound is the error with the number of faults.
func faultsFound(r *repo.Repo, n int) error {
	if n == 0 {
		return nil
	}
	return &tidemark.Error{Kind: tidemark.Corrupt, Op: "verify", Object: r.Store().String(), Err: errors.New(screen.Count(n, "fault") + " found"), Hint: "Restore only backups that are not named above, and make a new backup."}
}

// holesBehind adds to a report the segments that are missing for recoveries from backups, while
// later ones exist.
func holesBehind(ctx context.Context, r *repo.Repo, all []*repo.Manifest, rep *repo.VerifyReport) error {
	windows, err := holdings.Windows(ctx, r, all)
	if repo.IsDamage(err) && err != nil {
		return nil // it was found when the archive's files were read
	}
	for _, w := range windows {
		object := "wal/" + w.Missing[:min(8, len(w.Missing))] + "/" + w.Missing
		if w.Missing == "" || slices.ContainsFunc(rep.Damages, func(d repo.Damage) bool { return d.Object == object }) {
			continue
		}
		if now, err := r.Logs(ctx, strings.TrimPrefix(object, "wal/")); err != nil {
			return err
		} else if len(now) > 0 && "wal/"+now[0].Name == object {
			continue // it has arrived meanwhile
		}
		text := "it is missing after " + strings.Join(w.Backups, ", ") + ", but later ones exist: these backups cannot be recovered past " + wal.FormatLSN(w.To)
		if w.Gap != nil {
			text += "; " + w.Gap.String()
		}
		rep.Damages = append(rep.Damages, repo.Damage{Object: object, Text: text})
	}
	return err
}

// verifyProgress prints the progress, every two seconds.
func (o *verifyOptions) verifyProgress(w io.Writer) func(done, all int64) {
	if o.progress == "none" {
		return nil
	}
	begun := time.Now()
	last := begun
	return func(done, all int64) {
		now := time.Now()
		if now.Sub(last) < 2*time.Second || all == 0 {
			return
		}
		last = now
		rate := float64(done) / now.Sub(begun).Seconds()
		if o.json {
			fmt.Fprintf(w, `{"event":"verify","done":%d,"all":%d,"seconds":%.1f}`+"\n", done, all, now.Sub(begun).Seconds())
			return
		}
		fmt.Fprintf(w, "%d%%, %s of %s, %s/s, ETA %s\n", screen.Percent(done, all), screen.Bytes(done), screen.Bytes(all), screen.Bytes(int64(rate)), screen.Clock(time.Duration(float64(all-done)/max(rate, 1)*float64(time.Second))))
	}
}
