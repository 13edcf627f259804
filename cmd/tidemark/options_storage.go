package main

import (
	"github.com/tidemarkdb/tidemark/backup"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
)

// pipelineOptions say how a backup or a restore works.
type pipelineOptions struct {
	parallelism int   // --parallelism 0: one for each processor, and more while that gains
	sessions    int   // --sessions 0: half as many, since a place is slower than what is read
	buffers     int   // --buffers 0: as many as are of use
	memory      int64 // --memory 0: 96MB
	bufferSize  int64 // --buffer-size 0: 1MB
	direct      bool  // --direct-io off: the system's cache is of use to most
}

func (o *pipelineOptions) table() option.Table {
	return option.Table{
		option.New("parallelism", "number", "0", "Workers at the server's files, 1 to 256; 0 finds out. They are Db2's buffer manipulators. 0: one for each processor, at least 2, and more while that gains. With --logical: sessions that read, each with one that writes; 0 begins with 2 and adds while throughput gains a tenth.", option.Number(0, 256, &o.parallelism)).For("backup restore").CommonTo("backup restore").Also("backup", "jobs", "j"),
		option.New("sessions", "number", "0", "Workers at the repository, 1 to 256 (Db2's media controllers); 0: half as many as at the files, at least 2, and more while that gains.", option.Number(0, 256, &o.sessions)).For("backup restore"),
		option.New("buffers", "number", "0", "Buffers between these workers, 1 to 65536; 0: as many as are of use.", option.Number(0, 1<<16, &o.buffers)).For("backup restore"),
		option.New("memory", "size", "0", "What buffers and workers may take, as far as their numbers are left open, besides the program and the list of files; 0: 96MB, or what is asked for with them.", option.Size(&o.memory)).For("backup restore"),
		option.New("buffer-size", "size", "0", "Size of a buffer, which becomes a piece in the repository: 64kB to 64MB, in steps of 64kB; 0: 1MB, less where --memory is short.", option.Size(&o.bufferSize)).For("backup"),
		option.New("direct-io", "on/off", "off", "Read and write the server's files without the system's cache (O_DIRECT), and leave nothing of a repository in a folder there. Linux only.", option.OnOff(&o.direct)).For("backup restore"),
	}.In(option.Resources)
}

// pipeline is how all of them work.
func (o *pipelineOptions) pipeline(r *repoOptions, server *serverOptions) backup.Options {
	return backup.Options{Parallelism: o.parallelism, Sessions: o.sessions, Buffers: o.buffers, BufferSize: o.bufferSize, Memory: o.memory, Direct: o.direct,
		Codec: r.codec, Server: server.server, Tool: "tidemark " + versionText()}
}
