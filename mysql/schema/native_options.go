package schema

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/mysqltype"
	"github.com/tidemarkdb/tidemark/sqltext"
)

// versioning removes system versioning for MySQL, with the columns that it fills.
func (w *rewriter) versioning() {
	if w.r.to.mariadb || !w.r.from.mariadb {
		return
	}
	var rows []string
	w.c.items = slices.DeleteFunc(w.c.items, func(it tableItem) bool {
		n := sqltext.Find(it.tokens, "row")
		edge := it.kind == sqltext.Column && n >= 0 && sqltext.Find(it.tokens, "generated") >= 0 && (sqltext.At(it.tokens, sqltext.Skip(it.tokens, n+1)).Is("start") || sqltext.At(it.tokens, sqltext.Skip(it.tokens, n+1)).Is("end"))
		if edge {
			rows = append(rows, it.name)
		}
		return edge || it.kind == sqltext.Period && sqltext.Find(it.tokens, "system_time") >= 0
	})
	for i := range w.c.items { // the server adds the time when a row went to unique keys
		if it := &w.c.items[i]; it.isKey() {
			it.withoutParts(rows)
		}
	}
	before := len(w.c.options)
	w.c.options = dropWords(w.c.options, "with", "system", "versioning")
	if len(w.c.options) != before || len(rows) > 0 {
		w.r.find(tidemark.Warning, w.object, "is system-versioned: on MySQL it is an ordinary table without history", "")
	}
}

// key adapts a key and reports whether to keep it.
func (w *rewriter) key(it *tableItem) bool {
	name := "index " + w.m.From.String() + "." + it.name
	drop := func(why string) bool {
		if it.kind == sqltext.UniqueKey {
			why += "; it was unique, which nothing ensures now"
		}
		w.r.find(tidemark.Warning, name, "is left out: "+why, "")
		return false
	}
	if w.r.to.mariadb {
		expression := slices.Contains(it.keyColumns(), "")
		parser := ""
		it.tokens = mapComments(it.tokens, func(inside []sqltext.Token) []sqltext.Token {
			if sqltext.Find(inside, "invisible") >= 0 {
				return []sqltext.Token{{Kind: sqltext.Word, Text: "IGNORED"}}
			}
			if i := sqltext.Find(inside, "parser"); i >= 0 {
				parser = sqltext.At(inside, sqltext.Skip(inside, i+1)).Name()
			}
			return nil
		})
		if expression {
			return drop("MariaDB has no indexes on expressions")
		}
		for _, c := range it.keyColumns() {
			if w.r.unkeyed(w.m, w.m.To.Column(c)) != "" {
				return drop(notForKeys(c))
			}
		}
		if c := w.computedIn(it); c != "" {
			it.tokens[sqltext.Find(it.tokens, "primary")] = sqltext.Token{Kind: sqltext.Word, Text: "UNIQUE"}
			*it = newTableItem(it.tokens)
			w.r.find(tidemark.Warning, "primary key "+w.m.From.String(), w.r.to.uniqueInstead(c), "")
		}
		if parser != "" {
			w.r.find(tidemark.Warning, name, "is made without the parser "+parser, "")
		}
		return true
	}
	switch wide := w.tooWide(it); {
	case it.kind == sqltext.VectorKey:
		return drop("MySQL has no vector indexes")
	case strings.Contains(strings.ToLower(it.String()), "without overlaps"):
		return drop("MySQL has no WITHOUT OVERLAPS")
	case wide != "":
		return drop(wide)
	case it.kind != sqltext.SpatialKey && w.hasPart(it, func(_ tidemark.IndexPart, t *tidemark.Type) bool { return t.Kind == tidemark.Geometry }):
		return drop("MySQL has only spatial indexes on geometries")
	case w.hasPart(it, func(_ tidemark.IndexPart, t *tidemark.Type) bool { return t.Kind == tidemark.JSON }):
		return drop("MySQL has no indexes on JSON")
	case w.hasPart(it, prefixTooLong):
		return drop(tooLongPrefix)
	case w.hasPart(it, func(_ tidemark.IndexPart, t *tidemark.Type) bool { return onlyEmpty(t.Native) }):
		return drop(onlyEmptyKey)
	case it.kind == sqltext.FulltextKey && partitioned(w.m.From):
		return drop(textInParts)
	}
	if !strings.EqualFold(w.engineName(), "InnoDB") {
		before := len(it.tokens)
		for range it.keyColumns() {
			it.tokens = dropWords(it.tokens, "desc")
		}
		if len(it.tokens) != before {
			w.r.find(tidemark.Note, name, "is ascending here: MySQL has descending keys of InnoDB tables only", "")
		}
	}
	for i, t := range it.tokens {
		if t.Is("ignored") {
			it.tokens[i] = sqltext.Token{Kind: sqltext.Word, Text: "INVISIBLE"}
		}
	}
	return true
}

// computedIn returns a generated column of a primary key; "" if there is none.
func (w *rewriter) computedIn(it *tableItem) string {
	if it.kind != sqltext.PrimaryKey {
		return ""
	}
	for _, name := range it.keyColumns() {
		if c := w.m.From.Column(name); c != nil && c.Generated != "" {
			return name
		}
	}
	return ""
}

const textInParts = "MySQL has no FULLTEXT keys in partitioned tables"

const onlyEmptyKey = "MySQL has no keys on columns that can only be empty"

// onlyEmpty reports whether a type such as varchar(0) has no value but the empty one.
func onlyEmpty(native string) bool {
	native = strings.TrimPrefix(native, "var")
	return strings.HasPrefix(native, "char(0)") || strings.HasPrefix(native, "binary(0)")
}

const tooLongPrefix = "MySQL has no prefix that is longer than its column can be"

// prefixTooLong reports whether MySQL refuses a part for its prefix, which MariaDB does not.
func prefixTooLong(p tidemark.IndexPart, t *tidemark.Type) bool {
	return (t.Kind == tidemark.Text || t.Kind == tidemark.Blob) && t.Length > 0 && int64(p.Prefix)*mysqltype.SetWidth(t.Charset) > t.Length
}

// tooWide says why MySQL has no such unique key; "" if it has.
func (w *rewriter) tooWide(it *tableItem) string {
	for i := range w.m.From.Indexes {
		if x := &w.m.From.Indexes[i]; it.kind == sqltext.UniqueKey && x.Name == it.name {
			return tooWide(w.m.From, x, w.engineName())
		}
	}
	return ""
}

func (w *rewriter) engineName() string { return cmp.Or(w.engine, w.c.option("engine"), "InnoDB") }

// hasPart reports whether a part of a key, on a column of a type, is such a one.
func (w *rewriter) hasPart(it *tableItem, such func(tidemark.IndexPart, *tidemark.Type) bool) bool {
	keys := w.m.From.Indexes
	if k := w.m.From.Key; it.kind == sqltext.PrimaryKey && k != nil {
		keys = []tidemark.Index{*k}
	}
	for _, x := range keys {
		if x.Name != it.name && it.kind != sqltext.PrimaryKey {
			continue
		}
		for _, p := range x.Parts {
			if c := w.m.From.Column(p.Column); c != nil && such(p, &c.Type) {
				return true
			}
		}
	}
	return false
}

// A tableOption is one option of a CREATE TABLE, such as ENGINE=InnoDB.
type tableOption struct {
	name   string // in upper case, words separated by one blank
	tokens []sqltext.Token
}

// Options of both families, options of MySQL only, and the storage engines.
var (
	commonOptions = setOf("ENGINE,TYPE,AUTO_INCREMENT,AVG_ROW_LENGTH,CHARSET,CHARACTER SET,DEFAULT CHARSET,DEFAULT CHARACTER SET,CHECKSUM,COLLATE,DEFAULT COLLATE,COMMENT," +
		"CONNECTION,DELAY_KEY_WRITE,INSERT_METHOD,KEY_BLOCK_SIZE,MAX_ROWS,MIN_ROWS,PACK_KEYS,ROW_FORMAT,STATS_AUTO_RECALC,STATS_PERSISTENT,STATS_SAMPLE_PAGES,UNION")
	mysqlOptions   = setOf("COMPRESSION,ENCRYPTION,TABLESPACE,AUTOEXTEND_SIZE,ENGINE_ATTRIBUTE,SECONDARY_ENGINE,SECONDARY_ENGINE_ATTRIBUTE")
	pathOptions    = setOf("DATA DIRECTORY,INDEX DIRECTORY")
	mariadbEngines = setOf("innodb,myisam,memory,csv,archive,blackhole,mrg_myisam,aria,rocksdb,s3,federated,connect,spider,mroonga,oqgraph,sphinx,columnstore,sequence")
	mysqlEngines   = setOf("innodb,myisam,memory,csv,archive,blackhole,mrg_myisam,federated,ndb,ndbcluster,rocksdb")
)

func setOf(list string) map[string]bool {
	out := map[string]bool{}
	for s := range strings.SplitSeq(list, ",") {
		out[s] = true
	}
	return out
}

// isOption reports whether words name an option that takes a value.
func isOption(words string) bool {
	return commonOptions[words] || mysqlOptions[words] || pathOptions[words]
}

// options adapts the options after the column list. It never copies paths on the source's disks.
func (w *rewriter) options() {
	list := splitOptions(w.c.options)
	var keep []string
	for _, o := range list {
		switch {
		case pathOptions[o.name]:
			w.r.find(tidemark.Warning, w.object, o.name+" is left out: it is a path on the source's disks", "")
		case o.name == "TYPE": // obsolete name of ENGINE
			keep = append(keep, "ENGINE="+sqltext.At(o.tokens, len(o.tokens)-1).Text)
		case w.r.same && !w.lacks():
			keep = append(keep, sqltext.Join(o.tokens))
		default:
			if text := w.option(o); text != "" {
				keep = append(keep, text)
			}
		}
	}
	w.c.options = sqltext.Scan(strings.Join(keep, " "))
}

// option returns one option for the target; empty to omit it.
func (w *rewriter) option(o tableOption) string {
	value := sqltext.At(o.tokens, len(o.tokens)-1)
	switch {
	case o.name == "WITH SYSTEM VERSIONING":
		return sqltext.Join(o.tokens) // versioning decides about it
	case o.name == "ENGINE":
		return "ENGINE=" + w.storageEngine(value.Name())
	case o.name == "ROW_FORMAT" && !w.r.to.mariadb && strings.EqualFold(value.Text, "page"):
		return ""
	case o.name == "PAGE_CHECKSUM" || o.name == "TRANSACTIONAL":
		return "" // an Aria option; InnoDB does this anyway
	case commonOptions[o.name] || !w.r.to.mariadb && mysqlOptions[o.name]:
		return sqltext.Join(o.tokens)
	case w.r.to.mariadb && w.r.from.mariadb:
		return sqltext.Join(o.tokens)
	}
	w.r.once(tidemark.Note, "table option "+o.name+" is left out: "+w.r.to.name()+" does not have it")
	return ""
}

// storageEngine returns the storage engine to use on the target.
func (w *rewriter) storageEngine(name string) string {
	known := mysqlEngines
	if w.r.to.mariadb {
		known = mariadbEngines
	}
	out := name
	if !known[strings.ToLower(name)] {
		out = "InnoDB"
	}
	if !w.r.to.mariadb && len(w.c.partition) > 0 && !strings.HasPrefix(strings.ToLower(name), "ndb") {
		out = "InnoDB" // MySQL 8 partitions only InnoDB
	}
	if !w.r.to.mariadb && computesIn(w.m.From, name) {
		out = "InnoDB"
	}
	if !strings.EqualFold(out, name) {
		w.engine = out
		w.r.find(tidemark.Warning, w.object, "its storage engine "+name+" becomes "+out, "")
	}
	return out
}

// computesIn reports whether a table has computed columns or defaults that MySQL does not have in a
// storage engine.
func computesIn(t *tidemark.Table, engine string) bool {
	return !strings.EqualFold(engine, "InnoDB") && !strings.EqualFold(engine, "MyISAM") && slices.ContainsFunc(t.Columns, func(c tidemark.Column) bool {
		return c.Generated != "" || c.Default != nil && (c.Default.Kind == tidemark.Expression || c.Default.Kind == tidemark.NewUUID)
	})
}

// splitOptions splits table options, without MySQL's versioned comments around them.
func splitOptions(tokens []sqltext.Token) []tableOption {
	var out []tableOption
	var name []string
	from := 0
	end := func(i int) {
		text := sqltext.Trim(slices.DeleteFunc(slices.Clone(tokens[from:i]), func(t sqltext.Token) bool { return t.Kind == sqltext.Open || t.Kind == sqltext.Close }))
		out = append(out, tableOption{strings.ToUpper(strings.Join(name, " ")), text})
		name, from = nil, i
	}
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if t.Kind != sqltext.Word && t.Kind != sqltext.Name && t.Kind != sqltext.Punct {
			continue
		}
		words := ""
		if len(name) < 4 { // no option's name has more words
			words = strings.ToUpper(strings.Join(append(name, t.Name()), " "))
		}
		next := sqltext.Skip(tokens, i+1)
		value := -1
		switch {
		case t.Punct(','), t.Punct(';'):
			if len(name) == 0 {
				from = i + 1
			}
			continue
		case t.Punct('='):
			value = next
		case words == "WITH SYSTEM VERSIONING" || words == "START TRANSACTION":
			name = []string{words}
			end(i + 1)
			continue
		case isOption(words) && !sqltext.At(tokens, next).Punct('=') && !isOption(words+" "+strings.ToUpper(sqltext.At(tokens, next).Name())):
			name = append(name, t.Name())
			value = next
		default:
			name = append(name, t.Name())
			continue
		}
		if sqltext.At(tokens, value).Punct('(') {
			value = sqltext.Closing(tokens, value)
		}
		end(min(value+1, len(tokens)))
		i = value
	}
	if len(name) > 0 {
		end(len(tokens))
	}
	return out
}

// partition adapts the PARTITION BY clause, and removes it if the target has no such partitions:
// the rows stay the same.
func (w *rewriter) partition() {
	p := w.c.partition
	if len(p) == 0 {
		return
	}
	if !w.r.to.mariadb && (sqltext.Find(p, "system_time") >= 0 || hasDefaultPartition(p)) {
		w.r.find(tidemark.Warning, w.object, "is not partitioned on the target: MySQL does not have such partitions", "")
		w.c.partition = nil
		return
	}
	p = slices.Clone(p)
	for i, t := range p {
		if w.engine != "" && t.Is("engine") {
			if j := sqltext.Skip(p, i+1); sqltext.At(p, j).Punct('=') {
				p[sqltext.Skip(p, j+1)] = sqltext.Token{Kind: sqltext.Word, Text: w.engine}
			}
		}
	}
	w.c.partition = p
}

// hasDefaultPartition reports whether a LIST partition has VALUES IN (DEFAULT) or DEFAULT.
func hasDefaultPartition(p []sqltext.Token) bool {
	for i, t := range p {
		if t.Is("default") && !sqltext.At(p, sqltext.Skip(p, i+1)).Punct('=') {
			return true
		}
	}
	return false
}
