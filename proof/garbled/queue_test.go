package garbled

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tidemarkdb/tidemark/internal/testdb"
)

// natsWire is the NATS protocol: lines, some of which contain the length of the payload that
// follows.
var natsWire = protocol{
	read: func(r *bufio.Reader, _ *sync.Map) (m message, err error) {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return m, err
		}
		word, rest, has := bytes.Cut(line, []byte(" "))
		if !has {
			return message{kind: string(bytes.TrimSpace(line)), head: line}, nil
		}
		m.kind = string(word)
		if m.kind != "MSG" && m.kind != "HMSG" {
			m.head, m.body = append(word[:len(word):len(word)], ' '), rest
			return m, nil
		}
		fields := strings.Fields(string(rest))
		n, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil {
			return m, err
		}
		m.head, m.body = line, make([]byte, n+2)
		_, err = io.ReadFull(r, m.body)
		for _, what := range []string{"io.nats.jetstream.api", "stream_info_response", "pub_ack", "\"stream\"", "\"error\""} {
			if bytes.Contains(m.body, []byte(what)) {
				m.kind += " " + what
			}
		}
		return m, err
	},
	join: func(m message) []byte {
		if !bytes.HasPrefix(m.head, []byte("MSG")) && !bytes.HasPrefix(m.head, []byte("HMSG")) {
			return append(bytes.Clone(m.head), m.body...)
		}
		fields := strings.Fields(string(m.head))
		body := bytes.TrimSuffix(m.body, []byte("\r\n"))
		if fields[0] == "HMSG" {
			if n, _ := strconv.Atoi(fields[len(fields)-2]); n > len(body) {
				fields[len(fields)-2] = strconv.Itoa(len(body))
			}
		}
		fields[len(fields)-1] = strconv.Itoa(len(body))
		return append(append([]byte(strings.Join(fields, " ")+"\r\n"), body...), "\r\n"...)
	},
	lie: func(head []byte, rnd *rand.Rand) []byte {
		fields := strings.Fields(string(head))
		lengths := []string{"2147483647", "-1", "99999999999999999999", "0", "1", "4294967296", "", "0x10", "1073741824"}
		if len(fields) > 1 {
			fields[len(fields)-1] = lengths[rnd.IntN(len(lengths))]
		}
		return []byte(strings.Join(fields, " ") + "\r\n")
	},
	moved: func(m *message, from, to string) { m.body = bytes.ReplaceAll(m.body, []byte(from), []byte(to)) },
}

// halves are scenes of a queue at a URL: each has filled it through the proxy before lies begin.
func halves(from, to *testdb.Server, url func(at, name string) string) []scene {
	var n atomic.Int32
	begun := func(t *testing.T, at string) (src, dst string, both []string) {
		name := fmt.Sprintf("q%d_%d", n.Add(1), time.Now().UnixNano()%1e6)
		src, dst = from.NewDatabase(t, "src"), to.NewDatabase(t, "dst")
		testdb.Load(t, src, strings.NewReader(postgresRows))
		both = []string{src, dst, "--name", name, "--queue", url(at, name), "--queue-size", "64MB", "--retry-for", "1s", "--until", "now"}
		testdb.Must(t, append([]string{"replicate"}, both...)...)
		testdb.Load(t, src, strings.NewReader("UPDATE t SET name = 'other' WHERE id < 50; DELETE FROM t WHERE id = 60; INSERT INTO t SELECT g, repeat('x', 1000), now(), 1, '[]' FROM generate_series(1000, 1300) g"))
		return src, dst, both
	}
	return []scene{
		{"replicate", func(t *testing.T, at string) []string {
			_, _, both := begun(t, at)
			return append([]string{"replicate"}, both...)
		}},
		{"peek", func(t *testing.T, at string) []string {
			_, _, both := begun(t, at)
			return []string{"peek", "--name", both[3], "--queue", both[5]}
		}},
		{"remove", func(t *testing.T, at string) []string {
			_, _, both := begun(t, at)
			return append([]string{"replicate", "--remove"}, both[:6]...)
		}},
	}
}

func TestNATS(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	srv := testdb.Postgres(t, 15)
	lies(t, natsWire, s.Addr().String(), halves(srv, srv, func(at, _ string) string { return "nats://" + at }), some(1), 300)
}

// kafkaWire is Kafka's protocol: a response has the kind of the request with its correlation ID.
var kafkaWire = protocol{
	asked: func(r *bufio.Reader, notes *sync.Map) ([]byte, error) {
		head := make([]byte, 4)
		if _, err := io.ReadFull(r, head); err != nil {
			return nil, err
		}
		n := int(binary.BigEndian.Uint32(head))
		all := append(head, make([]byte, n)...)
		_, err := io.ReadFull(r, all[4:])
		if err == nil && n >= 8 {
			notes.Store(binary.BigEndian.Uint32(all[8:]), int16(binary.BigEndian.Uint16(all[4:])))
		}
		return all, err
	},
	read: func(r *bufio.Reader, asked *sync.Map) (m message, err error) {
		m.head = make([]byte, 4)
		if _, err := io.ReadFull(r, m.head); err != nil {
			return m, err
		}
		m.body = make([]byte, binary.BigEndian.Uint32(m.head))
		if _, err := io.ReadFull(r, m.body); err != nil {
			return m, err
		}
		key, _ := asked.Load(binary.BigEndian.Uint32(m.body))
		m.kind = fmt.Sprintf("api %v", key)
		return m, nil
	},
	join: func(m message) []byte {
		out := append(bytes.Clone(m.head), m.body...)
		binary.BigEndian.PutUint32(out, uint32(len(m.body)))
		return out
	},
	lie: func(head []byte, rnd *rand.Rand) []byte {
		lengths := []uint32{0x7fffffff, 0x80000000, 0xffffffff, 0, 1, 3, 0x3fffffff, 1 << 16}
		return binary.BigEndian.AppendUint32(nil, lengths[rnd.IntN(len(lengths))])
	},
	// The broker advertises its own address when it lists its cluster.
	moved: func(m *message, from, to string) {
		var a, b int
		_, _ = fmt.Sscanf(from, "127.0.0.1:%d", &a)
		_, _ = fmt.Sscanf(to, "127.0.0.1:%d", &b)
		m.body = bytes.ReplaceAll(m.body, binary.BigEndian.AppendUint32([]byte("127.0.0.1"), uint32(a)), binary.BigEndian.AppendUint32([]byte("127.0.0.1"), uint32(b)))
	},
}

func TestKafka(t *testing.T) {
	t.Parallel()
	b := testdb.Kafka(t)
	srv := testdb.Postgres(t, 15)
	all := halves(srv, srv, func(at, name string) string { return "kafka://" + at + "/" + name })
	lies(t, kafkaWire, fmt.Sprintf("%s:%d", b.Host, b.Port), shorter(all, 1), some(1), 300)
}
