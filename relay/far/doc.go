// Package far lets a copy write to a database that another process has opened beside its server (a
// relay), so that rows cross the distance once, compressed, and all conversations with the server
// happen there.
//
// # Two halves
//
// A Database is an engines.Destination here; each of its methods is a call. A Server opens the
// engine there and carries the calls out. What is between them is one net.Conn for each call that
// runs at the same time, and nothing here knows what protects and compresses it (package relay).
//
// # A session
//
// All connections of a Database belong to one session, which has one engine: what the engine
// remembers from one call to the next (the epoch of a run, what it has committed) must be there for
// all lanes. A session outlives its connections by graceTime, so that a link that is cut is only a
// pause; Close ends it at once.
//
// # Exactly once
//
// Calls are numbered. If the link breaks before the answer, the line connects again and asks for
// the answer to that number: a call that was begun is never begun again, and one that has committed
// is known to have. A Write whose rows have not all arrived ends like one whose source has failed:
// nothing is committed, and the error is Transient. If the relay has forgotten the session (it was
// killed, and its server may have lost commits with it), only the marker rows know what is there:
// the run ends with an error of Kind Invalid, which nobody retries, and --resume reads them.
//
// # Rows
//
// The batches of a Write follow its request, at most windowSize bytes ahead of what the engine has
// taken there: that bounds the memory, and lets the relay always read what comes next, so that it
// notices at once when the other side cancels or has gone.
//
// The bytes are in doc/format/relay.md. Start reading at wire.go, then line.go and server.go.
package far
