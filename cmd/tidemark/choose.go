package main

import (
	"github.com/tidemarkdb/tidemark/cmd/tidemark/holdings"
	"github.com/tidemarkdb/tidemark/cmd/tidemark/option"
)

// serverOptions tell which backups are meant, in a repository with those of several servers and
// databases.
type serverOptions struct {
	holdings.Choice
}

func (o *serverOptions) table() option.Table {
	return option.Table{
		option.New("server", "text", "", "The server, in a repository with backups of several. Give the name from backup --server, the system identifier, or host and port. For backup: the name to store.", option.Text(&o.Server)).For("backup restore verify backups").CommonTo("restore backups verify"),
	}.In(option.Backups)
}

// databaseTable has what is for restore alone.
func (o *serverOptions) databaseTable() option.Table {
	return option.Table{
		option.New("database", "list", "", "Restore only this database of a server. The system's databases come too; the others can only be dropped afterwards. May be repeated. For logical backups: restore the latest backup of this database.", option.List(&o.Databases)).For("restore").CommonTo("restore"),
	}.In(option.Restores)
}
