// Package functions writes calls and casts (in defaults, generated columns, checks, views and
// programs) of MySQL as MariaDB has them, and of MariaDB as MySQL does, and finds what the other
// one does not have.
package functions
