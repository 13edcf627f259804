package testdb

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const kafkaVersion = "4.4.0" // as in script/install-test-deps.sh

// A Broker is a Kafka server for tests: a single node with three ports.
type Broker struct {
	*Server // Port requires no login
	// On SASLPort and TLSPort, User logs in with Password by PLAIN, SCRAM-SHA-256 and
	// SCRAM-SHA-512. TLSPort also requires a client certificate.
	SASLPort, TLSPort int
	// Files for TLSPort: the server's certificate authority, which also signs trusted clients, and
	// a client certificate it has signed with its key.
	CA, Cert, Key string
}

// Kafka returns the Kafka 4.4 server.
func Kafka(tb testing.TB) *Broker {
	tb.Helper()
	return broker(shared(tb, "kafka", func(name string) (*Server, error) { return startKafka(name, name) }))
}

// OwnKafka is OwnPostgres for Kafka.
func OwnKafka(tb testing.TB) *Broker {
	tb.Helper()
	return broker(alone(tb, "kafka", startKafka))
}

func broker(s *Server) *Broker {
	file := func(name string) string { return filepath.Join(s.Dir, name) }
	return &Broker{Server: s, SASLPort: s.more[0], TLSPort: s.more[1], CA: file("ca.pem"), Cert: file("cert.pem"), Key: file("key.pem")}
}

func startKafka(kind, name string) (*Server, error) {
	java, err := program("Java 17", "/usr/lib/jvm/java-17-openjdk-amd64/bin/java", "/usr/lib/jvm/java-17-openjdk-arm64/bin/java", "java")
	if err != nil {
		return nil, err
	}
	libs := filepath.Join(cacheDir(), "kafka-"+kafkaVersion, "libs")
	jar := filepath.Join(libs, "kafka_2.13-"+kafkaVersion+".jar")
	if _, err := os.Stat(jar); err != nil {
		return nil, &missingError{"Kafka " + kafkaVersion + " (" + jar + ")"}
	}
	run := func(class string, args ...string) *exec.Cmd {
		return exec.Command(java, append([]string{"-cp", libs + "/*", "-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", class}, args...)...)
	}
	more := make([]int, 3) // ports: with login, with TLS, and of the controller
	for i := range more {
		if more[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	return start(kind, name, spec{
		server:  Server{Engine: "kafka", User: "tidemark", Password: password, more: more},
		runAs:   "nobody",
		quit:    syscall.SIGKILL,
		program: jar,
		initdb: func(data string) []*exec.Cmd {
			return []*exec.Cmd{
				// The settings name the data folder, which is a copy later.
				exec.Command("sh", "-c", `printf '%s' "$0" >server.properties`, kafkaProperties(data, 9092, []int{9093, 9094, 9095})),
				run("kafka.tools.StorageTool", "format", "--cluster-id", "dGlkZW1hcmstdGVzdC0wMQ", "--config", filepath.Join(data, "server.properties"),
					"--add-scram", "SCRAM-SHA-256=[name=tidemark,password="+password+"]", "--add-scram", "SCRAM-SHA-512=[name=tidemark,password="+password+"]"),
			}
		},
		config: writeCertificates,
		run: func(data string, port int) *exec.Cmd {
			const write = `printf '%s' "$0" >"$1/server.properties" && shift && exec "$@"`
			server := run("kafka.Kafka", filepath.Join(data, "server.properties"))
			return exec.Command("sh", append([]string{"-c", write, kafkaProperties(data, port, more), data}, server.Args...)...)
		},
		ready: kafkaReady,
	})
}

func kafkaProperties(data string, port int, more []int) string {
	users := `user_tidemark="` + password + `"`
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:%[5]d
controller.listener.names=CONTROLLER
inter.broker.listener.name=BARE
listeners=BARE://127.0.0.1:%[2]d,LOGIN://127.0.0.1:%[3]d,TLS://127.0.0.1:%[4]d,CONTROLLER://127.0.0.1:%[5]d
advertised.listeners=BARE://127.0.0.1:%[2]d,LOGIN://127.0.0.1:%[3]d,TLS://127.0.0.1:%[4]d
listener.security.protocol.map=BARE:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SASL_SSL,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
ssl.keystore.type=PEM
ssl.keystore.location=%[1]s/server.pem
ssl.truststore.type=PEM
ssl.truststore.location=%[1]s/ca.pem
listener.name.tls.ssl.client.auth=required
log.dirs=%[1]s/log
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
auto.create.topics.enable=false
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
add.partitions.to.txn.retry.backoff.ms=1
group.initial.rebalance.delay.ms=0
`, data, port, more[0], more[1], more[2])
	for _, l := range []string{"login", "tls"} {
		text += "listener.name." + l + ".plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required " + users + ";\n"
		for _, m := range []string{"256", "512"} {
			text += "listener.name." + l + ".scram-sha-" + m + ".sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;\n"
		}
	}
	return text
}

// kafkaReady reports an error until the server is ready, and then returns its version.
func kafkaReady(s *Server) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprintf("%s:%d", s.Host, s.Port)), kgo.RequestRetries(0), kgo.DisableClientMetrics())
	if err != nil {
		return "", err
	}
	defer c.Close()
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, c)
	if err == nil && len(meta.Brokers) == 0 {
		err = errors.New("no broker has registered")
	}
	return kafkaVersion, err
}

// Certificates returns a folder with ca.pem, and cert.pem and key.pem for 127.0.0.1.
func Certificates(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	if err := writeCertificates(dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// writeCertificates creates a certificate authority, and the certificates it signs for the server
// and a client.
func writeCertificates(data string) error {
	write := func(name, kind string, der []byte) ([]byte, error) {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		mode := os.FileMode(0o644) // the server is another user's
		if kind == "PRIVATE KEY" {
			mode = 0o600 // the program refuses keys that others can read
		}
		return text, os.WriteFile(filepath.Join(data, name), text, mode)
	}
	signed := func(serial int64, parent *x509.Certificate, signer *ecdsa.PrivateKey) (cert *x509.Certificate, key *ecdsa.PrivateKey, der, keyDER []byte, err error) {
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return nil, nil, nil, nil, err
		}
		cert = &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "tidemark"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
			IsCA: parent == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
		if parent == nil {
			parent, signer = cert, key
		}
		if der, err = x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer); err != nil {
			return nil, nil, nil, nil, err
		}
		keyDER, err = x509.MarshalPKCS8PrivateKey(key)
		return cert, key, der, keyDER, err
	}
	root, rootKey, der, _, err := signed(1, nil, nil)
	if err != nil {
		return err
	}
	if _, err := write("ca.pem", "CERTIFICATE", der); err != nil {
		return err
	}
	_, _, der, keyDER, err := signed(2, root, rootKey)
	if err != nil {
		return err
	}
	cert, err := write("cert.pem", "CERTIFICATE", der)
	if err != nil {
		return err
	}
	key, err := write("key.pem", "PRIVATE KEY", keyDER)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, "server.pem"), append(key, cert...), 0o644)
}
