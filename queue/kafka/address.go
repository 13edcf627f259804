package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// An address is a parsed URL.
type address struct {
	brokers        []string
	topic          string
	user, password string
	sasl           string
	tls            bool
	ca, cert, key  string // files
}

// Schemes of URLs of queues in Kafka.
const (
	scheme    = "kafka://"
	schemeTLS = "kafka+tls://"
)

// Is reports whether a text looks like the URL of a queue in Kafka.
func Is(text string) bool {
	return strings.HasPrefix(text, scheme) || strings.HasPrefix(text, schemeTLS)
}

// Check validates a URL. The error contains no credentials.
func Check(text string) error {
	_, err := parse(text)
	return err
}

// Exposed returns which data of a queue anyone on the network path can read; "" if TLS prevents
// that, or the servers are on this machine.
func Exposed(text string) string {
	a, err := parse(text)
	if err != nil || a.tls {
		return ""
	}
	for _, broker := range a.brokers {
		host, _, _ := net.SplitHostPort(broker)
		if host == "localhost" || net.ParseIP(host).IsLoopback() {
			continue
		}
		if a.user != "" && (a.sasl == "" || a.sasl == "plain") {
			return "without TLS the password and all changes can be read by anyone on the network path"
		}
		return "without TLS all changes can be read by anyone on the network path"
	}
	return ""
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)

// parse reads
// kafka[+tls]://[user:password@]host[:port][,host...][/topic][?sasl=...&ca=...&cert=...&key=...].
// Its errors do not repeat the URL, any part of which could then be a secret.
func parse(text string) (a *address, err error) {
	a = &address{tls: strings.HasPrefix(text, schemeTLS)}
	rest, ok := strings.CutPrefix(text, scheme)
	if !ok {
		if rest, ok = strings.CutPrefix(text, schemeTLS); !ok {
			return a, errors.New("it does not begin with kafka:// or kafka+tls://")
		}
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, topic, _ := strings.Cut(rest, "/")
	if a.topic = topic; topic != "" && (!topicName.MatchString(topic) || topic == "." || topic == "..") {
		return a, errors.New("the part after the hosts is not a topic name (letters, digits, . - and _)")
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, password, _ := strings.Cut(authority[:at], ":")
		var err2 error
		a.user, err = url.PathUnescape(user)
		a.password, err2 = url.PathUnescape(password)
		if err != nil || err2 != nil || a.user == "" || a.password == "" {
			return a, errors.New("the part before @ is not user:password, with % and what follows it for characters such as / and @")
		}
		authority = authority[at+1:]
	}
	for _, host := range strings.Split(authority, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "9092")
		}
		if name, port, err := net.SplitHostPort(host); err != nil || name == "" || strings.Trim(port, "0123456789") != "" {
			return a, errors.New("it has no hosts such as host:9092, or host1:9092,host2:9092")
		}
		a.brokers = append(a.brokers, host)
	}
	return a, a.options(query)
}

func (a *address) options(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the part after ? is not of the form name=value&name=value")
	}
	for name, v := range values {
		to, ok := map[string]*string{"sasl": &a.sasl, "ca": &a.ca, "cert": &a.cert, "key": &a.key}[name]
		if !ok {
			return errors.New("after ? it takes sasl, ca, cert and key")
		}
		*to = v[0]
	}
	a.sasl = strings.ToLower(a.sasl)
	switch {
	case a.sasl != "" && !slices.Contains([]string{"plain", "scram-sha-256", "scram-sha-512"}, a.sasl):
		return errors.New("sasl is plain, scram-sha-256 or scram-sha-512")
	case a.sasl != "" && a.user == "":
		return errors.New("sasl needs a user and a password")
	case !a.tls && (a.ca != "" || a.cert != "" || a.key != ""):
		return errors.New("ca, cert and key are for kafka+tls://")
	case (a.cert == "") != (a.key == ""):
		return errors.New("cert and key come together")
	}
	return nil
}

// client returns options for a client.
func (a *address) client() ([]kgo.Opt, error) {
	out := []kgo.Opt{kgo.SeedBrokers(a.brokers...), kgo.ClientID("tidemark"), kgo.DisableClientMetrics(),
		kgo.DialTimeout(5 * time.Second), kgo.MetadataMinAge(100 * time.Millisecond),
		// A restarting server is back in seconds, and waiting calls should notice that soon.
		kgo.RetryBackoffFn(func(try int) time.Duration { return min(time.Second, time.Duration(50<<min(try, 5))*time.Millisecond) })}
	if a.user != "" {
		login := scram.Auth{User: a.user, Pass: a.password}
		switch a.sasl {
		case "scram-sha-256":
			out = append(out, kgo.SASL(login.AsSha256Mechanism()))
		case "scram-sha-512":
			out = append(out, kgo.SASL(login.AsSha512Mechanism()))
		default:
			out = append(out, kgo.SASL(plain.Auth{User: a.user, Pass: a.password}.AsMechanism()))
		}
	}
	if !a.tls {
		return out, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.ca != "" {
		text, err := plainfile.Read(a.ca, plainfile.Large)
		if err != nil {
			return nil, err
		}
		if conf.RootCAs = x509.NewCertPool(); !conf.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", a.ca)
		}
	}
	if a.cert != "" {
		pair, err := plainfile.KeyPair(a.cert, a.key)
		if err != nil {
			return nil, err
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return append(out, kgo.DialTLSConfig(conf)), nil
}

// hide removes credentials from a text.
func (a *address) hide(text string) string {
	if a.password != "" {
		text = strings.ReplaceAll(text, a.password, "***")
	}
	return text
}
