// Package queue is a durable, ordered log of transactions between the one who follows a
// source's log and the one who applies it: what lies between their two speeds, and
// between their two machines.
//
// A Log packs transactions into messages and keeps them in a Store: a list of numbered
// messages, to which one writer appends, from which any number of readers read, and of
// which the front is purged. Packages queue/jetstream and queue/kafka have durable
// Stores.
//
// # A message
//
// Messages are described byte by byte in doc/format/queue.md. The rules:
//
//   - A message holds whole transactions, as many as fit; a transaction larger than a
//     message goes on in the next ones, and so does a single change. No message is
//     larger than Options.MaxMessage.
//   - Each says its number and the checksum of the one before it. So a hole, an exchange
//     and a message of another queue are found by whoever reads, not only a flipped bit.
//   - Each says the last whole transaction before it and at its end, and where a
//     transaction that is unfinished at its end has begun. So a place is found by
//     halving, and the last message alone says where capture goes on: that is why
//     Trim leaves it.
//   - Each has the relations of all tables that it changes, so that reading may begin at
//     any of them.
//
// # Half a transaction
//
// A capture that dies amid a large transaction leaves its beginning in the log; the next
// one appends it again from its first piece. What was there of it is never deleted, since
// nothing is deleted in the middle: a reader sees from the headers that it was given up,
// and passes over it. Only a reader that had given it away by then has to say so,
// with an error of Kind Transient: reading again gives the transaction from its first piece.
//
// Start reading at Log.
package queue
