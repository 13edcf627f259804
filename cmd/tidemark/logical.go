package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/backup/repo"
	"github.com/tidemarkdb/tidemark/catalog"
	"github.com/tidemarkdb/tidemark/engines"
	"github.com/tidemarkdb/tidemark/job"
	"github.com/tidemarkdb/tidemark/load"
	"github.com/tidemarkdb/tidemark/mapping"
)

// dumpBuffer is the memory between a reader and its writer: readers that wait for the
// server and writers that wait for the place then hinder each other little.
const dumpBuffer = 2 << 20

// dumpMemory is from where on garbage is collected more eagerly.
const dumpMemory = 160 << 20

// dump makes a logical backup.
func (s *settings) dump(ctx context.Context, source string, r *repo.Repo, cat *catalog.Catalog, w *storageWatch) (string, *job.StorageReport, error) {
	rules, err := s.narrowed(mapping.All())
	if err != nil {
		return "", nil, err
	}
	if isDump(source) {
		return "", nil, tidemark.Errorf(tidemark.Invalid, "back up", tidemark.MaskURL(source), "not the URL of a database", "write postgres://user@host/db, mysql://user@host/db or mariadb://user@host/db")
	}
	lanes := load.Options{Lanes: s.backup.parallelism, Buffer: dumpBuffer, MaxLanes: min(max(4, runtime.NumCPU()), 8)} // each compresses here
	if onThisMachine(source) {
		lanes.MaxLanes = max(2, runtime.NumCPU()) // the server works on them too
	}
	// What is live is far less: a lane's batches, its encoder, what a place holds back.
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(dumpMemory))
	open := func(ctx context.Context, url string) (job.Database, error) {
		return engines.Open(ctx, withPassword(url), s.engine)
	}
	return job.BackupLogical(ctx, job.Env{Open: open, Catalog: cat}, job.LogicalSpec{Source: source, Rules: rules, Spaces: s.backup.inSpaces, Repo: r, Load: lanes,
		Codec: s.repo.codec, Label: s.backup.label, Server: s.backup.server, Tool: "tidemark " + versionText(), Watch: w.watch})
}
