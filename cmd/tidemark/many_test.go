package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// manyTables returns SQL for n tables, with a key and an index, a few of them with rows and foreign
// keys.
func manyTables(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "CREATE TABLE t%d (id int PRIMARY KEY, v varchar(20));\n", i)
		if i%2 == 0 {
			fmt.Fprintf(&b, "CREATE INDEX t%d_v ON t%d (v);\n", i, i)
		}
		if i%10 == 0 {
			fmt.Fprintf(&b, "INSERT INTO t%d VALUES (1, 'a'), (2, 'b');\n", i)
		}
	}
	return b.String()
}

// TestManyTables copies many small tables, and a quarter as many, to detect a cost that grows with
// the square of the number. TIDEMARK_MANY sets the number.
func TestManyTables(t *testing.T) {
	n := 600
	if s := os.Getenv("TIDEMARK_MANY"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	for _, p := range []pair{{"postgres", pg15, pg15}, {"mariadb", maria, maria}} {
		t.Run(p.name, func(t *testing.T) {
			n := n
			if p.name == "mariadb" {
				n /= 2 // each is a file, which takes time to create and drop
			}
			var took map[int]time.Duration
			quick := func() bool { return took[n] <= 10*took[n/4]+2*time.Second } // 4 times as many; 16 if it were quadratic
			for try := 0; try < 3 && (try == 0 || !quick()); try++ {              // a machine may be slow during only one of them
				took = map[int]time.Duration{}
				for _, n := range []int{n / 4, n} {
					src := p.src(t).NewDatabase(t, "src")
					testdb.Load(t, src, strings.NewReader(manyTables(n)))
					dst := p.dst(t).NewDatabase(t, "dst")
					start := time.Now()
					must(t, "copy", src, dst)
					took[n] = time.Since(start)
					start = time.Now()
					must(t, "diff", src, dst)
					t.Logf("%d tables: copy %.1f s, diff %.1f s", n, took[n].Seconds(), time.Since(start).Seconds())
					if got := testdb.Query(t, dst, "SELECT count(*) FROM information_schema.tables WHERE table_name LIKE 't%' AND table_schema IN ('public', '"+dst[strings.LastIndex(dst, "/")+1:]+"')"); got != strconv.Itoa(n) {
						t.Errorf("%s tables on the target, want %d", got, n)
					}
				}
			}
			if !quick() {
				t.Errorf("%d tables took %v, %d took %v", n/4, took[n/4], n, took[n])
			}
		})
	}
}
