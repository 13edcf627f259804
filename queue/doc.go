// Package queue is a durable, ordered log of transactions between the follower of a source's log
// and its applier: a durable queue that decouples their speeds and their machines.
//
// A Log packs transactions into messages and keeps them in a Store: a list of numbered messages, to
// which one writer appends, which any number of readers read, and whose front is purged. Packages
// queue/jetstream and queue/kafka have durable Stores.
//
// # A message
//
// Messages are described byte by byte in doc/format/queue.md. The rules:
//
//   - A message holds whole transactions, as many as fit; a transaction larger than a message
//     continues in the next ones, and so does a single change. No message is larger than
//     Options.MaxMessage.
//   - Each contains its number and the checksum of the one before it. So a reader detects not only
//     a flipped bit, but also a hole, a swap and a message of another queue.
//   - Each contains the last whole transaction before it and at its end, and the message in which
//     a transaction that is unfinished at its end began. So a place is found by binary search, and
//     the last message alone determines where capture continues: that is why Trim keeps it.
//   - Each has the relations of all tables that it changes, so reading may begin at any of them.
//
// # Half a transaction
//
// A capture that dies in the middle of a large transaction leaves its beginning in the log; the
// next capture appends it again from its first piece. The old pieces stay, since nothing is deleted
// in the middle: a reader sees from the headers that they were abandoned, and skips them. Only a
// reader that had already emitted some must report it, with an error of Kind Transient: reading
// again returns the transaction from its first piece.
//
// Start reading at Log.
package queue
