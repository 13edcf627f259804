// Package measure finds out what disks and links give to a log, and tries what package ha
// calculates. It writes and sends.
//
// A disk is written to as each engine writes its log (MeasureDisk, DiskReport), a link is measured
// between two processes of ours (MeasureLink, Listen; a Proxy makes the loopback slow), and a
// synthetic log is shipped to a standby that waits as a mode does (Simulate, SimReport; TrialOf
// and HopTrial are those of a plan). Watch looks at a running primary, beside what was forecast.
// Whatever is written is below one folder, which is removed at the end.
//
// The protocol between two processes is at the head of link.go.
package measure
