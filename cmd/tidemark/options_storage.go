package main

import (
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
)

// pipelineOptions tell how a backup or a restore works.
type pipelineOptions struct {
	parallelism int   // --parallelism 0: one per processor, and more while that gains
	sessions    int   // --sessions 0: half as many, since a repository is slower than the files
	buffers     int   // --buffers 0: as many as are useful
	memory      int64 // --memory 0: 96MB
	bufferSize  int64 // --buffer-size 0: 1MB
	direct      bool  // --direct-io off: most benefit from the page cache
}

func (o *pipelineOptions) table() option.Table {
	return option.Table{
		option.New("parallelism", "number", "0", "Workers on the server's files, 1 to 256; 0 is automatic. They are Db2's buffer manipulators. 0: one per processor, at least 2, and more while throughput improves. With --logical: sessions that read, each with one that writes; 0 starts with 2 and adds more while throughput gains a tenth.", option.Number(0, 256, &o.parallelism)).For("backup restore").CommonTo("backup restore").Also("backup", "jobs", "j"),
		option.New("sessions", "number", "0", "Workers on the repository, 1 to 256 (Db2's media controllers); 0: half as many as on the files, at least 2, and more while throughput improves.", option.Number(0, 256, &o.sessions)).For("backup restore"),
		option.New("buffers", "number", "0", "Buffers between these workers, 1 to 65536; 0: as many as are useful.", option.Number(0, 1<<16, &o.buffers)).For("backup restore"),
		option.New("memory", "size", "0", "Memory for buffers and workers, if their numbers are not set; the program itself and the list of files come on top. 0: 96MB, or what the numbers that are set need.", option.Size(&o.memory)).For("backup restore"),
		option.New("buffer-size", "size", "0", "Size of a buffer, which becomes one piece in the repository: 64kB to 64MB, in steps of 64kB; 0: 1MB, or less if --memory is short.", option.Size(&o.bufferSize)).For("backup"),
		option.New("direct-io", "on/off", "off", "Bypass the page cache for the server's files (O_DIRECT), and leave nothing of a local repository in it. Linux only.", option.OnOff(&o.direct)).For("backup restore"),
	}.In(option.Resources)
}

// pipeline gives these options to a backup or a restore.
func (o *pipelineOptions) pipeline(r *repoOptions, server *serverOptions) backup.Options {
	return backup.Options{Parallelism: o.parallelism, Sessions: o.sessions, Buffers: o.buffers, BufferSize: o.bufferSize, Memory: o.memory, Direct: o.direct,
		Codec: r.codec, Server: server.Server, Tool: "tidemark " + versionText()}
}
