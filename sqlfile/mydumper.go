package sqlfile

import (
	"errors"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/tidemarkdb/tidemark"
)

// mydumper's folder has these files:
//
//	metadata                          where in the server's log the dump was made; metadata.partial until it is whole
//	DB-schema-create.sql              CREATE DATABASE
//	DB.TABLE-schema.sql               CREATE TABLE; for a view, a placeholder table
//	DB.TABLE.sql, DB.TABLE.00001.sql  rows, whose text names the table and not the database
//	DB.SEQUENCE-schema-sequence.sql   CREATE SEQUENCE
//	DB-schema-post.sql                routines and events
//	DB.VIEW-schema-view.sql           DROP and CREATE VIEW
//	DB.TABLE-schema-triggers.sql      triggers
//
// Each may be compressed. Statements end with a semicolon at the end of a line; in bodies mydumper
// writes a blank between the two. File names may differ from the names of databases and tables,
// which are then in the text.

// dumperKinds are the kinds of files in reading order. Views follow the functions that they may
// call.
var dumperKinds = []string{"-schema-create", "-schema-sequence", "-schema", "", "-schema-post", "-schema-view", "-schema-triggers"}

const (
	tableFile = 2 // index in dumperKinds
	rowsFile  = 3
)

// isMydumper reports whether mydumper wrote the folder.
func (f *folder) isMydumper() bool {
	for _, name := range f.names {
		if base, sql := stem(name); sql && strings.HasSuffix(base, dumperKinds[0]) {
			return true
		}
	}
	return f.files["metadata"] != nil || f.files["metadata.partial"] != nil
}

func (f *folder) mydumper() (*parts, error) {
	p := &parts{name: f.dir}
	if f.files["metadata"] == nil {
		return nil, &tidemark.Error{Kind: tidemark.BadInput, Op: "open", Object: f.dir, Err: errors.New("it has no file metadata, which mydumper writes last: the dump did not finish"), Hint: "Make the dump again."}
	}
	kinds := map[string][]string{}
	views := map[string]bool{}
	for _, name := range f.names {
		base, sql := stem(name)
		switch ext := filepath.Ext(strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")); {
		case ext == ".dat" || ext == ".csv":
			return nil, &tidemark.Error{Kind: tidemark.Unsupported, Op: "open", Object: filepath.Join(f.dir, name), Err: errors.New("it holds rows for LOAD DATA, which are not read"), Hint: "Make the dump without --load-data and --csv, or load it with myloader."}
		case !sql && name != "metadata":
			f.ignored = append(f.ignored, name)
			continue
		case !sql:
			continue
		}
		kind := dumperKind(base)
		if kind == "-schema-view" {
			views[strings.TrimSuffix(base, kind)] = true
		}
		kinds[kind] = append(kinds[kind], name)
	}
	databases, err := f.databases(kinds[dumperKinds[0]])
	if err != nil {
		return nil, err
	}
	for i, kind := range dumperKinds {
		for _, name := range kinds[kind] {
			base, _ := stem(name)
			base = strings.TrimSuffix(base, kind)
			if i == tableFile && views[base] {
				continue // the placeholder of a view
			}
			it := f.part(name)
			it.database, it.ends, it.rows = databaseOf(base, databases), ";\n", i <= rowsFile
			if i == rowsFile {
				it.ends = ";"
			}
			p.list = append(p.list, it)
		}
		if i < rowsFile {
			p.defined = len(p.list)
		}
	}
	if len(p.list) == 0 {
		return nil, &tidemark.Error{Kind: tidemark.NotFound, Op: "open", Object: f.dir, Err: errors.New("the folder of mydumper has no files but its metadata"), Hint: "Name the folder that holds the dump."}
	}
	p.findings = f.findings()
	return p, f.origin(p)
}

// dumperKind returns the kind at the end of a mydumper file's name.
func dumperKind(base string) string {
	for _, kind := range dumperKinds {
		if kind != "" && strings.HasSuffix(base, kind) {
			return kind
		}
	}
	return ""
}

var createdDatabase = regexp.MustCompile("(?is)CREATE\\s+(?:DATABASE|SCHEMA)\\s+(?:/\\*.*?\\*/\\s*)?(?:IF\\s+NOT\\s+EXISTS\\s+)?`((?:[^`]|``)+)`")

// databases returns the databases by the prefixes of file names.
func (f *folder) databases(creates []string) (map[string]string, error) {
	out := map[string]string{}
	for _, name := range creates {
		base, _ := stem(name)
		prefix := strings.TrimSuffix(base, dumperKinds[0])
		text, err := beginning(filepath.Join(f.dir, name))
		if err != nil {
			return nil, err
		}
		out[prefix] = prefix
		if m := createdDatabase.FindStringSubmatch(text); m != nil {
			out[prefix] = strings.ReplaceAll(m[1], "``", "`")
		}
	}
	return out, nil
}

// databaseOf returns the database of a file: the longest name that it begins with, followed by a
// dot; else the text before the first dot.
func databaseOf(base string, databases map[string]string) string {
	if name, ok := databases[base]; ok {
		return name
	}
	longest, name := -1, ""
	for prefix, database := range databases {
		if strings.HasPrefix(base, prefix+".") && len(prefix) > longest {
			longest, name = len(prefix), database
		}
	}
	if longest < 0 {
		name, _, _ = strings.Cut(base, ".")
	}
	return name
}

// origin reads the log position from metadata, and guesses the kind of server, which mydumper does
// not record.
func (f *folder) origin(p *parts) error {
	text, err := beginning(filepath.Join(f.dir, "metadata"))
	if err != nil {
		return err
	}
	p.position = metadataPosition(text)
	switch {
	case oneOrMoreDomains.MatchString(p.position.gtids):
		p.server = "MariaDB"
	case p.position.gtids != "":
		p.server = "MySQL"
	}
	for _, it := range p.list[:p.defined] {
		if p.server != "" {
			break
		}
		create, err := beginning(it.path)
		switch {
		case err != nil:
			return err
		case strings.Contains(create, "_0900_"), strings.Contains(create, "/*!80"):
			p.server = "MySQL"
		case strings.Contains(create, "_uca1400_"), strings.Contains(create, " CHECK (json_valid("), strings.Contains(create, " DEFAULT current_timestamp()"):
			p.server = "MariaDB"
		}
	}
	return nil
}

var (
	oneOrMoreDomains = regexp.MustCompile(`^\d+-\d+-\d+(,\d+-\d+-\d+)*$`)
	metadataLine     = regexp.MustCompile(`(?i)^#?\s*(log|file|source_log_file|pos|position|source_log_pos|gtid|executed_gtid_set)\s*[:=]\s*"?([^"]*)"?$`)
)

// metadataPosition parses the file metadata in its two forms: lines below SHOW MASTER STATUS, and
// since 0.14 sections, of which [master] or [source] is the dumped server's own.
func metadataPosition(text string) logPosition {
	var out logPosition
	own, gtids := false, false
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		section := strings.ToLower(line)
		if strings.HasPrefix(section, "[") || strings.HasPrefix(section, "show ") {
			own, gtids = section == "[master]" || section == "[source]" || strings.HasPrefix(section, "show master") || strings.HasPrefix(section, "show binary"), false
			continue
		}
		if !own {
			continue
		}
		m := metadataLine.FindStringSubmatch(line)
		if m == nil {
			if gtids && strings.HasSuffix(out.gtids, ",") { // a set of MySQL may span several lines
				out.gtids += strings.Join(strings.Fields(strings.Trim(line, `"`)), "")
			}
			continue
		}
		value := strings.TrimSpace(m[2])
		switch gtids = false; strings.ToLower(m[1]) {
		case "log", "file", "source_log_file":
			out.file = value
		case "gtid", "executed_gtid_set":
			out.gtids, gtids = strings.Join(strings.Fields(value), ""), true
		default:
			out.offset, _ = strconv.ParseUint(value, 10, 63)
		}
	}
	if out.offset == 0 {
		out.file = ""
	}
	return out
}
