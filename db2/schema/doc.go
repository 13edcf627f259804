// Package schema reads what a Db2 database is made of, from the catalogue views SYSCAT: tables with
// their columns, keys, indexes, foreign keys and checks. Start reading at Describe.
package schema
