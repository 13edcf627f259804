// Package define compares definitions, object by object: what a copy would create on the target
// now, and what is there. It returns the statements that bring the target up to date.
//
// Both sides come as the target engine's renderer writes them (load.Target.Render): the source's
// definitions as they would be created, and the target's own as if it were copied onto itself. So
// there is one spelling, and texts can be compared. A Dialect knows what the texts mean: it joins
// objects that form a unit for a reader (a key and its index), and knows how one becomes another,
// and how one is dropped. Everything here is pure.
//
// Compare puts the statements in this order:
//
//  1. objects that depend on something that changes, and objects that the source does not have and
//     that hold no rows, are dropped, dependents first
//  2. what is missing is created, what differs is altered, and what was dropped is created again,
//     each in the order in which a copy creates objects
//  3. whatever else the source does not have is dropped: tables, types, functions, sequences
package define
