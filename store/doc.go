// Package store keeps objects, which are named runs of bytes, in a place that a URL names:
// a folder, an object store of a cloud, another machine's disk. It hides how a place makes
// an object appear wholly or not at all, and durably; what the bytes mean is not its business.
//
// Start with Store, which is what every place can do, and Open. Around a Store, Retry tries
// again what may succeed, Limit bounds the rate, and a Meter counts.
package store
