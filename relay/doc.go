// Package relay is the link to a tidemark process that runs beside a far server (tidemark relay):
// one TCP connection for each conversation, inside TLS 1.3, compressed with zstd.
//
// # Who is there
//
// Both sides prove who they are by TLS itself, before anything else is said. With a shared secret,
// both derive the same key pair from it and show a certificate that they have signed with it
// (identity.go): the secret never travels, and whoever does not have it learns nothing. With
// certificates, both trust one CA.
//
// # A conversation
//
// The connecting side sends a hello with the version of the protocol and what it wants; the relay
// answers whether it serves that, or why not (hello.go). Everything after that is one zstd stream
// in each direction, flushed with each Write (packed.go). The bytes are in doc/format/relay.md.
//
// What conversations consist of is not known here: Spec.Open serves them.
//
// Start reading at Listen and Peer.
package relay
