package sqlfile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
)

// wiki creates a dump shaped like Wikipedia's page table: few long statements, short strings, many
// numbers.
func wiki(size int) []byte {
	var b bytes.Buffer
	b.WriteString("CREATE TABLE `page` (\n  `page_id` int(8) unsigned NOT NULL AUTO_INCREMENT,\n  `page_namespace` int(11) NOT NULL DEFAULT 0,\n" +
		"  `page_title` varbinary(255) NOT NULL DEFAULT '',\n  `page_is_redirect` tinyint(1) unsigned NOT NULL DEFAULT 0,\n  `page_is_new` tinyint(1) unsigned NOT NULL DEFAULT 0,\n" +
		"  `page_random` double unsigned NOT NULL DEFAULT 0,\n  `page_touched` binary(14) NOT NULL,\n  `page_links_updated` varbinary(14) DEFAULT NULL,\n" +
		"  `page_latest` int(8) unsigned NOT NULL DEFAULT 0,\n  `page_len` int(8) unsigned NOT NULL DEFAULT 0,\n  `page_content_model` varbinary(32) DEFAULT NULL,\n" +
		"  `page_lang` varbinary(35) DEFAULT NULL,\n  PRIMARY KEY (`page_id`)\n) ENGINE=InnoDB DEFAULT CHARSET=binary;\n")
	r := rand.New(rand.NewPCG(1, 2))
	titles := strings.Fields("AccessibleComputing Albert_Einstein Rock_\\'n\\'_Roll Übersee_(Chiemgau) List_of_Prime_Ministers A Talk:Main_Page/Archive_12")
	for id := 10; b.Len() < size; {
		b.WriteString("INSERT INTO `page` VALUES ")
		for end := b.Len() + 1<<20; b.Len() < end; id++ {
			fmt.Fprintf(&b, "(%d,%d,'%s_%d',%d,0,%.17g,'20240901%06d','20240902%06d',%d,%d,'wikitext',NULL),",
				id, r.IntN(16), titles[r.IntN(len(titles))], r.IntN(10000), r.IntN(2), r.Float64(), r.IntN(1000000), r.IntN(1000000), r.IntN(1e9), r.IntN(1e5))
		}
		b.Truncate(b.Len() - 1)
		b.WriteString(";\n")
	}
	return b.Bytes()
}

// shop creates a dump of an application's table: decimals, dates, text of medium length.
func shop(size int, perStatement int) []byte {
	var b bytes.Buffer
	b.WriteString("CREATE TABLE `orders` (\n  `id` bigint(20) NOT NULL AUTO_INCREMENT,\n  `customer` int(11) NOT NULL,\n  `at` datetime NOT NULL,\n  `amount` decimal(12,2) DEFAULT NULL,\n" +
		"  `state` enum('new','paid','sent') NOT NULL,\n  `note` text DEFAULT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n")
	r := rand.New(rand.NewPCG(3, 4))
	words := strings.Fields("please deliver to the neighbour it\\'s urgent Straße größer naïve and again more of the same text, \\\"quoted\\\" or\\nnot")
	for id := 1; b.Len() < size; {
		b.WriteString("INSERT INTO `orders` VALUES ")
		for n := 0; n < perStatement; n, id = n+1, id+1 {
			if n > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "(%d,%d,'2023-%02d-%02d %02d:%02d:%02d',%d.%02d,'paid','", id, r.IntN(100000), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(10000), r.IntN(100))
			for range r.IntN(30) {
				b.WriteString(words[r.IntN(len(words))])
				b.WriteByte(' ')
			}
			b.WriteString("')")
		}
		b.WriteString(";\n")
	}
	return b.Bytes()
}

var inputs = []struct {
	name string
	make func() []byte
}{
	{"wiki", func() []byte { return wiki(32 << 20) }},
	{"shop", func() []byte { return shop(32<<20, 1000) }},
	{"single", func() []byte { return shop(32<<20, 1) }},
}

// perCore measures by CPU time, because wall time says little on a shared machine.
func perCore(b *testing.B, size int, run func()) {
	b.SetBytes(int64(size))
	before := cpu()
	n := 0
	for b.Loop() {
		run()
		n++
	}
	b.ReportMetric(float64(size)*float64(n)/1e6/(cpu()-before).Seconds(), "MB/s-core")
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkScan(b *testing.B) {
	for _, in := range inputs {
		b.Run(in.name, func(b *testing.B) {
			data := in.make()
			perCore(b, len(data), func() {
				s := NewScanner(bytes.NewReader(data), Options{})
				for {
					st, err := s.Next(context.Background())
					if err == io.EOF {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
					if st.Tuples != nil {
						st.Tuples.Release()
					}
				}
			})
		})
	}
}

func BenchmarkConvert(b *testing.B) {
	for _, in := range inputs {
		data := in.make()
		var pieces []*Tuples
		s := NewScanner(bytes.NewReader(data), Options{})
		for {
			st, err := s.Next(context.Background())
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			if st.Tuples != nil {
				pieces = append(pieces, st.Tuples)
			}
		}
		for _, f := range []tidemark.Format{tidemark.LoadData, tidemark.CopyText} {
			b.Run(in.name+"/"+strings.ReplaceAll(f.String(), " ", ""), func(b *testing.B) {
				t := pieces[0].Def
				m := &tidemark.Move{From: t, To: t}
				for _, c := range t.Stored() {
					m.Source = append(m.Source, c.Name)
				}
				c := NewConverter(m, f, ConvertOptions{})
				perCore(b, len(data), func() {
					for _, p := range pieces {
						if err := c.Convert(p, nil, func(b *tidemark.Batch) error { b.Release(); return nil }); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}
