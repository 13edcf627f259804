package jetstream

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/queue"
)

// A server that knows users by an operator's signature, and a queue there with a credentials file
// named in the URL.
func TestCredentials(t *testing.T) {
	pair := func(kp nkeys.KeyPair, err error) (nkeys.KeyPair, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		public, err := kp.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return kp, public
	}
	operator, operatorID := pair(nkeys.CreateOperator())
	account, accountID := pair(nkeys.CreateAccount())
	_, systemID := pair(nkeys.CreateAccount())
	accounts := &server.MemAccResolver{}
	for _, id := range []string{accountID, systemID} {
		claims := jwt.NewAccountClaims(id)
		if id == accountID {
			claims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: jwt.NoLimit, MemoryStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
		}
		text, err := claims.Encode(operator)
		if err == nil {
			err = accounts.Store(id, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	credentials := func(signer nkeys.KeyPair) string {
		user, userID := pair(nkeys.CreateUser())
		text, err := jwt.NewUserClaims(userID).Encode(signer)
		if err != nil {
			t.Fatal(err)
		}
		seed, err := user.Seed()
		if err != nil {
			t.Fatal(err)
		}
		file, err := jwt.FormatUserConfig(text, seed)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "user.creds")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	url := "nats://" + startServer(t, &server.Options{TrustedKeys: []string{operatorID}, AccountResolver: accounts, SystemAccount: systemID}).Addr().String()
	stranger, _ := pair(nkeys.CreateAccount())
	for _, query := range []string{"", "?creds=" + credentials(stranger)} {
		if _, err := Open(t.Context(), Options{Queue: "q", URL: url + query}); tidemark.KindOf(err) != tidemark.Denied {
			t.Fatalf("%q: %v (%v)", query, err, tidemark.KindOf(err))
		}
	}
	l := openLog(t, open(t, Options{Queue: "q", URL: url + "?creds=" + credentials(account)}), queue.Options{})
	if _, _, err := l.Begin(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	appendPlaces(t, l, 1, 3, 1000)
	if _, err := readPlaces(l, t.Context(), 0, 3, 1000); err != nil {
		t.Fatal(err)
	}
}
