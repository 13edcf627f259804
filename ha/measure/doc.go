// Package measure measures disks and links as a log uses them, and simulates what package ha
// calculates. It writes and sends.
//
// MeasureDisk writes to a disk as each engine writes its log (DiskReport). MeasureLink measures a
// link between two processes of ours (Listen; a Proxy makes the loopback slow). Simulate ships a
// synthetic log to a standby and waits for it as a mode does (SimReport; TrialOf and HopTrial are
// the simulations of a plan). Watch compares a running primary with its forecast. Everything
// written is below one folder, which is removed at the end.
//
// The protocol between two processes is described at the head of link.go.
package measure
