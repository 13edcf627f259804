// Package drda speaks DRDA, the protocol of Db2, as a client: it logs in, runs statements, and
// reads rows straight into COPY text. It knows nothing of what the rows are for.
//
// The protocol in short: a conversation consists of DSSs (data stream structures), each with a
// header of six bytes and one DDM object, which has a length, a code point and contents. Requests
// that are chained go out in one write, and their replies come back as one chain. Rows come in
// blocks of many rows (QRYDTA), described by one list of types (QRYDSC); large values follow the
// rows in objects of their own (EXTDTA).
//
// Sources: The Open Group's DRDA volumes 1 to 3 (the names in codes.go are theirs), a recorded
// conversation of a Db2 8.2 server, and what Apache Derby answers. The package was not yet run
// against a real Db2 server.
//
// Start reading at Conn (conn.go). frame.go makes requests, reader.go takes replies apart, login.go
// and security.go begin a conversation, statement.go runs statements, rows.go and value.go read
// rows, types.go has what columns are, sqlca.go what servers report.
//
// A hostile server can end a connection, and nothing else: every length is checked against what is
// there, and only contents that are handed on in pieces may be large.
package drda
