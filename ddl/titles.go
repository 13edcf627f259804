package ddl

// titles are the manual's names for kinds that are not self-explanatory.
var titles = map[Kind]string{
	AddColumn:      "a new column, without a default or with a plain value",
	AddExpression:  "a new column whose default is an expression",
	AddGenerated:   "a new generated column",
	AddIdentity:    "a new column with automatic numbers (identity, AUTO_INCREMENT)",
	DropColumn:     "a column is dropped",
	DropGenerated:  "a generated column is dropped",
	RenameColumn:   "a column is renamed",
	ReplaceColumn:  "a column is dropped and added again under its name",
	MoveColumn:     "a column moves to another position",
	ChangeType:     "a column gets another type",
	MakeGenerated:  "a plain column becomes a generated one",
	DropExpression: "a generated column becomes a plain one",
	SetExpression:  "a generated column gets another expression",
	SetDefault:     "a column gets another default",
	DropDefault:    "a default is dropped",
	SetNotNull:     "SET NOT NULL",
	LoseNull:       "SET NOT NULL in a session without strict mode (MySQL, MariaDB)",
	DropNotNull:    "DROP NOT NULL",
	AddLabel:       "a new label of an enumeration",
	RenameLabel:    "a label is renamed",
	DropLabel:      "a label is dropped",
	NewPartition:   "a new, empty partition",
	FillPartition:  "a table is attached as a partition, or exchanged with one",
	DetachedPart:   "a partition is detached",
	DropPartition:  "a partition is dropped",
	EmptyPartition: "a partition alone is truncated",
	Repartition:    "partitions are split, merged or get other bounds, and keep their rows",
	AddKey:         "a new primary or unique key",
	DropKey:        "a key is dropped",
	AddIndex:       "an index is made or dropped",
	AddCheck:       "a CHECK is added or dropped",
	AddForeignKey:  "a foreign key is added or dropped",
	RenameTable:    "the table is renamed",
	MoveTable:      "the table moves to another schema or database",
	DropTable:      "the table is dropped",
	ReplaceTable:   "another table gets its name: by gh-ost, pt-online-schema-change or other renaming, or dropped and created again",
	NewTable:       "a new table that the rules select",
	Rewrite:        "storage, engine, tablespace, character set for new columns, comments",
	SwapFiles:      "DISCARD, IMPORT TABLESPACE",
	Statement:      "a statement instead of rows in the log",
	Inherit:        "INHERIT, NO INHERIT",
	Unsure:         "several changes, and the log does not show which of them its rows have",
	Unknown:        "anything else that changes a table",
	Beside:         "views, functions, triggers, rights",
}

// Title returns the manual's name for a kind.
func Title(k Kind) string { return titles[k] }

// RulesOf returns a kind's rules; the first match applies.
func RulesOf(k Kind) (out []Rule) {
	for _, r := range rules {
		if r.Kind == k {
			out = append(out, r)
		}
	}
	return out
}
