package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemarkdb/tidemark/cmd/tidemark/address"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
	"github.com/tidemarkdb/tidemark/queue/jetstream"
	"github.com/tidemarkdb/tidemark/relay"
	"github.com/tidemarkdb/tidemark/relay/far"
)

// relayOptions are the options of relay.
type relayOptions struct {
	stateOptions
	listen string // --listen; none: all addresses, since it is there for other hosts
	dir    string // --dir; none: beside the catalogue
	id     relay.Identity
	secret string // --secret-file; none: TIDEMARK_RELAY_SECRET
	target []string
}

func (o *relayOptions) own() option.Table {
	return option.Table{
		option.New("listen", "text", ":"+relay.DefaultPort, "Listen at this address, [HOST]:PORT. Without a host: at all addresses.", option.Text(&o.listen)).CommonTo("relay"),
		option.New("dir", "file", "", "Folder of the queues; default: relay, beside the catalogue.", option.Text(&o.dir)).CommonTo("relay"),
		option.New("secret-file", "file", "", "File with the secret that both sides share. At least 16 bytes; default: TIDEMARK_RELAY_SECRET.", option.Text(&o.secret)).CommonTo("relay"),
		option.New("tls-ca", "file", "", "Certificates instead of a secret: the CA that both sides trust.", option.Text(&o.id.CA)).CommonTo("relay"),
		option.New("tls-cert", "file", "", "The relay's certificate, for the name of its host.", option.Text(&o.id.Cert)).CommonTo("relay"),
		option.New("tls-key", "file", "", "The key of that certificate.", option.Text(&o.id.Key)).CommonTo("relay"),
		option.New("target", "list", "", "Connect to this server for copies with --relay: postgres://localhost, mariadb://localhost:3306, or with a database. May be repeated; without it, the relay serves no copies.", option.Each(&o.target, far.ParseTarget)).For("relay").CommonTo("relay"),
	}.In(option.Queues)
}

func (o *relayOptions) Table() option.Table { return option.Join(o.own(), o.stateOptions.table()) }

func relayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Run beside a far server: keep queues of streams, write copies",
		Long: `Run beside a far server. Rows and changes cross the distance once, compressed, through one
port, inside TLS. Streams with --queue relay:HOST:PORT keep their queue on this disk; the source
may discard its log as soon as the changes are in it. Copies with --relay HOST:PORT are written
by this process, to servers that --target names.

Both sides share a secret, in a file (--secret-file; relay:HOST:PORT?secret-file=FILE) or in
TIDEMARK_RELAY_SECRET; or they have certificates of one CA. It runs until it is stopped.`,
		Example: `  # beside the target
  tidemark relay --listen :7456 --dir /var/lib/tidemark --secret-file relay.secret
  tidemark apply postgres://me@old/shop postgres://me@new/shop --queue 'relay:localhost:7456?secret-file=relay.secret'

  # beside the source
  tidemark capture postgres://me@old/shop postgres://new/shop --queue 'relay:new:7456?secret-file=relay.secret'`,
		Args: args(0, 0, "relay --listen [HOST]:PORT"),
	}
	read := flags[relayOptions](cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := read(nil)
		if err != nil {
			return err
		}
		return o.relay(cmd.Context(), func(text string) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s %s\n", time.Now().Format("15:04:05"), text)
		})
	}
	return cmd
}

func (o *relayOptions) relay(ctx context.Context, note func(string)) error {
	if err := address.Identify(&o.id, o.secret); err != nil {
		return err
	}
	if o.dir == "" {
		path, err := o.statePath()
		if err != nil {
			return err
		}
		o.dir = filepath.Join(filepath.Dir(path), "relay")
	}
	queues, err := jetstream.Serve(ctx, o.dir, note)
	if err != nil {
		return err
	}
	defer queues.Close()
	copies := &far.Server{Program: versionText(), Targets: o.target, Note: note}
	defer copies.Close()
	return relay.Listen(ctx, relay.Spec{Addr: o.listen, Identity: o.id, Program: versionText(), Note: note, Open: copies.Or(queues.Open)})
}
