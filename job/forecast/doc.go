// Package forecast foretells how long a copy will take: between which times in four of five cases,
// what limits in each phase, and with which settings it would end first.
//
// A forecast is made of three things. Rates say what a number of lanes moves and a number of
// builders builds: measured by a probe on scratch tables (probe.go, scratch.go), taken from past
// runs of the same pair (past.go), or defaults. The simulation goes through the whole plan in
// virtual time by the rules of a load.Run (simulate.go). The interval says how much of that is
// known (interval.go). Start reading at Make.
package forecast
