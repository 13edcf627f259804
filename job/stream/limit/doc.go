// Package limit finds what limits a stream: from its status, and from what the sessions of its
// workers wait for at the servers.
//
// Start reading at Of; a Watch has what the servers tell.
package limit
