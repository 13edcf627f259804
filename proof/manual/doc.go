// Package manual runs every command of README.md and doc/manual as printed, page by page, on real
// servers.
//
// A block fenced as sh is a script. A page's blocks run in order, in one folder that starts empty,
// with the program in the PATH. Words after "sh" set how:
//
//	exit=N    the block ends with that exit code
//	fresh     databases, /backup, /srv and the catalogue are as at the beginning
//	stays     the command runs until the page ends, or the next fresh; it gets SIGINT then
//	long      takes a while: runs with TIDEMARK_TEST=all only
//	norun WHY is not run, with the reason
//
// In a block fenced as console, a transcript, the lines after "$ " run. A block of another language
// with file=NAME is written to that file. The test replaces hosts and ports of the example
// connections, such as postgres://me@old/shop, and the folders /backup and /srv. "old" and "new"
// are databases of one server, so NAME on "new" is NAME_new there.
package manual
