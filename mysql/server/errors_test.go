package server

import (
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"

	"github.com/tidemarkdb/tidemark"
)

// Of what a server says, only the syntax of our own statements is our fault.
func TestServersErrorsAreNotOurs(t *testing.T) {
	e := &Server{}
	for code := range uint16(5000) {
		for _, state := range []string{"", "HY000", "42000", "45000", "99999"} {
			if kind, _ := e.KindOf(&gomysql.MyError{Code: code, State: state}); (kind == tidemark.Bug) != (code == 1064 || code == 1149) {
				t.Fatalf("error %d (%s) is %v", code, state, kind)
			}
		}
	}
}
