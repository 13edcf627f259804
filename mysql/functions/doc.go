// Package functions writes expressions (of defaults, generated columns and checks) of MySQL as
// MariaDB has them, and of MariaDB as MySQL does, and finds what the other one does not have.
package functions
