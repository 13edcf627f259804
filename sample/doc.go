// Package sample watches what the servers do for the workers of a job: the account of a worker's
// time ends at its I/O, and this is what the I/O consists of.
//
// Ten times a second a Sampler asks each server what our sessions there are doing. What it finds
// counts for a worker that is in its I/O before the question and after the answer. A part of the
// I/O is then as long as its share of these looks. Where a server is on this machine, its threads
// are also looked at in /proc, which tells work from waiting for a processor, and knows for servers
// that tell little (MySQL, MariaDB) in which call a thread waits. The rest is unknown. Files are a
// Server whose sessions are our own threads.
//
// Start reading at Sampler.Run; Account is the result.
package sample
