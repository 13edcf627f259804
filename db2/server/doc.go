// Package server is what the rooms of Db2's engine stand on: where a server is and how to log in
// there, sessions, errors, and the spelling of names and values. Start reading at Server.
package server
