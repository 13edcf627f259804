package sqlfile

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestSmoke(t *testing.T) {
	for _, n := range []string{"sakila/mysql.sql.zst", "sakila/mysql-spatial-mysql8.sql.zst", "chinook/mysql.sql.zst", "northwind/mysql.sql.zst", "world/mysql.sql.zst", "types-zoo/mysql.sql", "menagerie/mysql.sql"} {
		b, err := io.ReadAll(testdb.Sample(t, n))
		if err != nil {
			t.Fatal(err)
		}
		s := NewScanner(bytes.NewReader(b), Options{Name: n})
		kinds := map[Kind]int{}
		rows := map[string]int{}
		for {
			st, err := s.Next(context.Background())
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(n, err)
			}
			kinds[st.Kind]++
			if st.DefErr != nil {
				t.Log(st.DefErr)
			}
			if st.Tuples != nil {
				rows[st.Table] += st.Tuples.Rows
			} else if st.Kind == Insert || st.Kind == Other {
				t.Logf("%.100q", st.Text)
			}
		}
		t.Log(n, kinds, rows, s.Findings())
	}
}
