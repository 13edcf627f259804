package jetstream

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/queue"
)

// certificates creates a CA and a certificate for this host signed by it, for both sides.
func certificates(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	make := func(serial int64, isCA bool, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
		own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "tidemark"}, NotAfter: time.Now().Add(time.Hour), IsCA: isCA, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
		if parent == nil {
			parent, signer = c, own
		}
		der, err := x509.CreateCertificate(rand.Reader, c, parent, &own.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		return c, own, der
	}
	root, rootKey, rootDER := make(1, true, nil, nil)
	_, leafKey, leafDER := make(2, false, root, rootKey)
	keyDER, err := x509.MarshalECPrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	return write("ca.pem", "CERTIFICATE", rootDER), write("cert.pem", "CERTIFICATE", leafDER), write("key.pem", "EC PRIVATE KEY", keyDER)
}

// Other processes reach an embedded queue by TLS, and only with a certificate that it trusts.
func TestTLS(t *testing.T) {
	ca, cert, key := certificates(t)
	s := open(t, Options{Queue: "q", Dir: t.TempDir(), Listen: "127.0.0.1:0", User: "tide", Password: "s3cret", CA: ca, Cert: cert, Key: key})
	l := openLog(t, s, queue.Options{})
	if _, _, err := l.Begin(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	appendPlaces(t, l, 1, 3, 1000)
	url := "tls://tide:s3cret@" + s.Addr()
	for _, o := range []Options{{Queue: "q", URL: url}, {Queue: "q", URL: url + "?ca=" + ca}} {
		if _, err := Open(t.Context(), o); tidemark.KindOf(err) != tidemark.Unreachable {
			t.Fatalf("with the wrong certificates: %v (%v)", err, tidemark.KindOf(err))
		}
	}
	far := openLog(t, open(t, Options{Queue: "q", URL: url + "?ca=" + ca + "&cert=" + cert + "&key=" + key}), queue.Options{})
	if _, err := readPlaces(far, t.Context(), 0, 3, 1000); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"?cert=" + cert, "?password=s3cret", "?a=%zz"} {
		if Check(url+bad) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
