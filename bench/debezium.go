package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// The measured versions of Debezium. One of them runs on Java 17.
const (
	debeziumPostgres = "3.6.1.Final"
	debeziumMySQL    = "3.5.0.Final"
	copyDependencies = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
)

// debezium captures into nothing with Debezium embedded in a small program, bench/debezium. Its
// batches are larger than by default, and it does not wait between them.
func debezium(b *bench, a *arena) tool {
	connector := map[string]string{"postgres": "postgres", "maria": "mariadb", "mysql": "mysql"}[a.source.engine]
	dir := filepath.Join(b.dir, "debezium-"+connector)
	return tool{name: "Debezium", rival: true, figures: printedFigures,
		before: func(ctx context.Context) error {
			if err := buildDebezium(ctx, connector, dir); err != nil {
				return err
			}
			return a.rewind(seed)(ctx)
		},
		steps: func(scratch string) ([][]step, error) {
			var text strings.Builder
			for name, value := range debeziumProperties(a) {
				fmt.Fprintf(&text, "%s=%s\n", name, value)
			}
			file := filepath.Join(scratch, "debezium.properties")
			return [][]step{one("java", "-cp", filepath.Join(dir, "classes")+":"+filepath.Join(dir, "lib", "*"), "Capture", file)}, os.WriteFile(file, []byte(text.String()), 0o600)
		}}
}

// buildDebezium downloads the libraries and compiles the program, unless that is done.
func buildDebezium(ctx context.Context, connector, dir string) error {
	classes := filepath.Join(dir, "classes")
	if _, err := os.Stat(filepath.Join(classes, "Capture.class")); err == nil {
		return nil
	}
	version := debeziumMySQL
	if connector == "postgres" {
		version = debeziumPostgres
	}
	if err := command(ctx, "mvn", "-q", "-B", "-Dstyle.color=never", "-f", "bench/debezium/pom.xml", "-Ddebezium="+version, "-Dconnector="+connector,
		copyDependencies, "-DoutputDirectory="+filepath.Join(dir, "lib")); err != nil {
		return err
	}
	return command(ctx, "javac", "-cp", filepath.Join(dir, "lib", "*"), "-d", classes, "bench/debezium/Capture.java")
}

func debeziumProperties(a *arena) map[string]string {
	log := a.backlog
	p := map[string]string{
		"bench.rows": strconv.Itoa(log.rows), "name": "bench", "topic.prefix": "bench",
		"offset.storage": "Capture$Offsets", "offset.flush.interval.ms": "1000",
		"database.hostname": "127.0.0.1", "database.port": strconv.Itoa(a.source.port), "database.user": account, "database.password": password,
		"tombstones.on.delete": "false", "max.batch.size": "8192", "max.queue.size": "32768", "poll.interval.ms": "10",
	}
	if a.source.engine == "postgres" {
		p["connector.class"] = "io.debezium.connector.postgresql.PostgresConnector"
		p["database.dbname"], p["plugin.name"], p["slot.name"] = database, "pgoutput", "tidemark_main"
		p["publication.name"], p["publication.autocreate.mode"] = publication, "disabled"
		// No snapshot: start at the slot's position.
		p["snapshot.mode"], p["snapshot.mode.configuration.based.start.stream"] = "configuration_based", "true"
		return p
	}
	p["connector.class"] = map[string]string{"maria": "io.debezium.connector.mariadb.MariaDbConnector", "mysql": "io.debezium.connector.mysql.MySqlConnector"}[a.source.engine]
	p["database.server.id"], p["database.include.list"], p["database.ssl.mode"] = "5001", database, map[string]string{"maria": "disable", "mysql": "disabled"}[a.source.engine]
	// It reads the current schema, and the log from the start of the backlog.
	p["snapshot.mode"], p["bench.offset"] = "recovery", fmt.Sprintf(`{"file":"%s","pos":%d,"gtids":"%s"}`, log.file, log.pos, log.gtid)
	p["schema.history.internal"], p["include.schema.changes"] = "io.debezium.relational.history.MemorySchemaHistory", "false"
	return p
}
