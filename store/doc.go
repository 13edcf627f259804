// Package store keeps objects, which are named runs of bytes, in a place that a URL names: a
// folder, a cloud object store, another machine's disk. It hides how a place makes an object appear
// durably, and wholly or not at all; it does not know what the bytes mean.
//
// Start with Store, which is what every place can do, and Open. Around a Store, Retry retries
// transient failures, Limit bounds the rate, and a Meter counts.
package store
