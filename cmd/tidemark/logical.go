package main

import (
	"context"
	"errors"
	"runtime"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/screen"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mapping"
)

// dumpBuffer is the memory between a reader and its writer: enough that readers waiting for the
// server and writers waiting for the repository hardly block each other.
const dumpBuffer = 2 << 20

// dumpMemory is the memory from which garbage is collected more eagerly.
const dumpMemory = 160 << 20

// dump makes a logical backup.
func (o *backupOptions) dump(ctx context.Context, source string, r *repo.Repo, cat *catalog.Catalog, w *screen.StorageWatch) (string, *job.StorageReport, error) {
	rules, err := o.narrowed(mapping.All())
	if err != nil {
		return "", nil, err
	}
	if address.IsDump(source) {
		return "", nil, &tidemark.Error{Kind: tidemark.Invalid, Op: "back up", Object: tidemark.MaskURL(source), Err: errors.New("not the URL of a database"), Hint: "Use postgres://user@host/db, mysql://user@host/db or mariadb://user@host/db."}
	}
	lanes := load.Options{Lanes: o.parallelism, Buffer: dumpBuffer, MaxLanes: min(max(4, runtime.NumCPU()), 8)} // each compresses here
	if address.OnThisMachine(source) {
		lanes.MaxLanes = max(2, runtime.NumCPU()) // the server works on them too
	}
	// Live memory is far less: a lane's batches, its encoder, what the store holds back.
	defer collectFrom(collectFrom(dumpMemory))
	return job.BackupLogical(ctx, job.Env{Open: o.opener(), Catalog: cat}, job.LogicalSpec{Source: source, Rules: rules, Spaces: o.inSpaces, Repo: r, Load: lanes,
		Codec: o.codec, Label: o.label, Server: o.Server, Tool: "tidemark " + versionText(), Watch: w.Watch})
}
