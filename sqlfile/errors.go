package sqlfile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// ErrRaw is in the chain of Convert's error if a piece holds something that only a MySQL server can
// evaluate, such as NOW(). No batch of the piece may be kept: end its transaction and run
// Tuples.SQL on the target instead.
var ErrRaw = errors.New("an expression that only the server can evaluate")

// at formats the position of a finding in the file.
func at(offset, line int64, what string) string {
	return fmt.Sprintf("byte %d (line %d): %s", offset, line, what)
}

// bad makes the error for unreadable input.
func bad(name string, offset, line int64, what, hint string) error {
	return &tidemark.Error{Kind: tidemark.BadInput, Op: "read", Object: name, Err: errors.New(at(offset, line, what)), Hint: hint}
}

const (
	hintCut   = "The file is truncated: make the dump again, or copy it again and compare its size."
	hintNoSQL = "Name a dump in SQL: of pg_dump, mysqldump or mariadb-dump, or the folder of mydumper."
	hintBegin = "Dump that table with mariadb-dump or mydumper, or copy it from its server; --exclude leaves it out."
	hintBroke = "Look at the file at that place; if it was edited, repair the statement, otherwise make the dump again."
)

// statements are the words with which statements of dumps and of those who edit them begin.
const statements = " ALTER ANALYZE BEGIN CALL CHANGE CHECKPOINT COMMENT COMMIT COPY CREATE DEALLOCATE DECLARE DELETE DELIMITER DISABLE DISCARD DO DROP ENABLE END EXECUTE EXPLAIN FLUSH GRANT IMPORT INSERT LISTEN LOAD LOCK MERGE NOTIFY OPTIMIZE PREPARE PURGE REASSIGN REFRESH REINDEX RELEASE RENAME REPLACE RESET REVOKE ROLLBACK SAVEPOINT SECURITY SELECT SET SHOW SIGNAL SOURCE START STOP TABLE TRUNCATE UNLOCK UPDATE USE VACUUM VALUES WITH XA "

// beginsStatement reports whether text may be the beginning of a statement, or of a comment.
func beginsStatement(text []byte) bool {
	n := 0
	for n < len(text) && (text[n]|0x20 >= 'a' && text[n]|0x20 <= 'z') {
		n++
	}
	switch {
	case len(text) == 0:
		return true
	case n == 0:
		return strings.IndexByte("-/#\\(", text[0]) >= 0
	case n == len(text): // the word itself is cut
		return strings.Contains(statements, " "+strings.ToUpper(string(text)))
	}
	return strings.Contains(statements, " "+strings.ToUpper(string(text[:n]))+" ")
}
