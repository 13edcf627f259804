// Package define compares definitions: what a copy would make on the target now with what
// is there, object by object, and gives the statements that bring the target up.
//
// Both sides come as the target engine's renderer writes them (load.Target.Render): the
// source's definitions as they would be made, and the target's own as if it were copied
// onto itself. So there is one spelling, and texts can be compared. A Dialect knows what
// the texts mean: it joins objects that are one to a reader (a key and its index), says how
// one becomes another, and how one is dropped. Everything here is pure.
//
// The statements come in this order, which Compare finds out:
//
//  1. what stands on something that changes, and what the source does not have and nothing
//     holds rows of, is dropped, the dependents first
//  2. what is missing is made, what differs is altered, and what was dropped is made
//     again, each in the order in which a copy makes objects
//  3. what else the source does not have is dropped: tables, types, functions, sequences
package define
