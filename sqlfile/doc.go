// Package sqlfile reads SQL dump files: mysqldump, mariadb-dump, mydumper, phpMyAdmin and similar
// ones, and the COPY blocks of plain pg_dump files. It hides how a file is compressed, where a
// statement ends, how the quoting rules change along the way, and how rows written as SQL become
// rows of a batch.
//
//	Open       a file or standard input, unpacked as it is read
//	Scanner    the file as statements, in order; INSERTs as Tuples
//	Tuples     a piece of a few megabytes of rows, still as text
//	Converter  Tuples to batches (LOAD DATA or COPY text) without building values
//
// One Scanner feeds any number of lanes: it only looks for the ends of rows, at memory speed, and
// emits the rows in pieces. Pieces are the same for the same file however it is read, so that a
// piece's number can be kept in a marker row and a resumed run skips the pieces it has. Each lane
// owns a Converter.
//
// Reading order: scanner.go (the loop over statements), insert.go (how rows are cut into pieces),
// session.go (what SET, USE and DELIMITER change), allow.go (which statements may run), create.go
// (CREATE TABLE), convert.go and the two forms it writes, loaddata.go and copytext.go. What is
// accepted is in doc/format/mysqldump.md.
package sqlfile
