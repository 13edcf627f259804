package functions

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tidemarkdb/tidemark/sqltext"
)

// A Family is one of servers that calls are written for, from the other one.
type Family struct {
	Name    string
	only    map[string]bool // functions of the other family
	atMost  map[string]int  // arguments of functions that may have more there
	session map[string]bool // functions that are not stored, nor checked by
	varying map[string]bool // functions that no generated column may call
	program map[string]bool // functions that programs alone may call
	casts   []string        // types of the other family
	rewrite func(name string, args [][]sqltext.Token) []sqltext.Token
	differs map[string]bool // all functions looked at
}

// Calls writes the calls among the tokens of a definition as the family has them, if it does.
func (f *Family) Calls(tokens []sqltext.Token) []sqltext.Token {
	for i := 0; i < len(tokens); i++ {
		name, args, end := f.call(tokens, i)
		if name == "" {
			continue
		}
		if by := f.rewrite(name, args); by != nil {
			tokens = slices.Concat(tokens[:i], by, tokens[end:])
			i-- // it may contain further calls
		}
	}
	return tokens
}

// call reads a call at index i of a function that differs; "" if there is none. Others are not
// read, which costs too much where they are nested.
func (f *Family) call(tokens []sqltext.Token, i int) (name string, args [][]sqltext.Token, end int) {
	if tokens[i].Kind != sqltext.Word || !f.differs[strings.ToLower(tokens[i].Text)] || sqltext.At(tokens, i-1).Punct('.') {
		return "", nil, 0
	}
	open := sqltext.Skip(tokens, i+1)
	if !sqltext.At(tokens, open).Punct('(') {
		return "", nil, 0
	}
	if end = sqltext.Closing(tokens, open); end == len(tokens) {
		return "", nil, 0
	}
	return strings.ToLower(tokens[i].Text), sqltext.SplitList(tokens[open+1 : end]), end + 1
}

// inMariaDB returns a call as MariaDB has it; nil if it is the same there, or has no counterpart.
func inMariaDB(name string, args [][]sqltext.Token) []sqltext.Token {
	swapped := false
	if (name == "uuid_to_bin" || name == "bin_to_uuid") && len(args) == 2 {
		flag := strings.ToLower(text(args[1]))
		if swapped = flag == "1" || flag == "true"; !swapped && flag != "0" && flag != "false" {
			return nil
		}
		args = args[:1]
	}
	switch {
	case name == "regexp_like" && len(args) == 2: // what MySQL makes of a REGEXP b
		return sqltext.Scan("(" + text(args[0]) + " regexp " + text(args[1]) + ")")
	case name == "uuid_to_bin" && len(args) == 1:
		digits := "replace(replace(replace(" + text(args[0]) + ",'-',''),'{',''),'}','')"
		if swapped { // the argument, perhaps uuid(), is written once
			digits = "regexp_replace(" + digits + `,'^(.{8})(.{4})(.{4})','\\3\\2\\1')`
		}
		return sqltext.Scan("unhex(" + digits + ")")
	case name == "bin_to_uuid" && len(args) == 1:
		digits := "hex(" + text(args[0]) + ")"
		if swapped {
			digits = fmt.Sprintf("concat(substr(%[1]s,9,8),substr(%[1]s,5,4),substr(%[1]s,1,4),substr(%[1]s,17))", digits)
		}
		return sqltext.Scan("lower(insert(insert(insert(insert(" + digits + ",9,0,'-'),14,0,'-'),19,0,'-'),24,0,'-'))")
	case name == "cast" && len(args) == 1:
		if value, typ := cast(args[0]); typ == "json" {
			return sqltext.Scan("json_loose(" + sqltext.Join(value) + ")")
		}
	case name == "json_value" && len(args) == 2: // which MySQL writes so if it is left out
		if short, ok := strings.CutSuffix(text(args[1]), " returning char(512)"); ok {
			return sqltext.Scan("json_value(" + text(args[0]) + "," + short + ")")
		}
	case name == "date_format" && len(args) == 2 && numbersOnly.MatchString(text(args[1])): // else it depends on the session, as MariaDB sees it
		return sqltext.Scan("date_format(" + text(args[0]) + "," + text(args[1]) + ",'en_US')")
	}
	return nil
}

// inMySQL returns a call of MariaDB as MySQL has it; nil if it is the same there, or has no
// counterpart.
func inMySQL(name string, args [][]sqltext.Token) []sqltext.Token {
	switch {
	case name == "nvl2" && len(args) == 3:
		return sqltext.Scan("if(" + text(args[0]) + " is not null," + text(args[1]) + "," + text(args[2]) + ")")
	case (name == "lpad" || name == "rpad") && len(args) == 2:
		return sqltext.Scan(name + "(" + text(args[0]) + "," + text(args[1]) + ",' ')")
	case name == "date_format" && len(args) == 3 && strings.EqualFold(text(args[2]), "'en_US'"):
		return sqltext.Scan("date_format(" + text(args[0]) + "," + text(args[1]) + ")")
	case name == "json_loose" && len(args) == 1:
		return sqltext.Scan("cast(" + text(args[0]) + " as json)")
	case name == "json_exists" && len(args) == 2:
		return sqltext.Scan("json_contains_path(" + text(args[0]) + ",'one'," + text(args[1]) + ")")
	}
	return nil
}

func text(arg []sqltext.Token) string { return strings.TrimSpace(sqltext.Join(arg)) }

// numbersOnly matches a literal format without names of days and months.
var numbersOnly = regexp.MustCompile(`^(_\w+)?'([^%'\\]|%[^WMabpr'\\])*'$`)

// cast returns the value of a cast and the type, in lower case.
func cast(arg []sqltext.Token) (value []sqltext.Token, typ string) {
	as := -1
	for i := range arg {
		if arg[i].Is("as") {
			as = i
		}
	}
	if as < 0 {
		return nil, ""
	}
	return sqltext.Trim(arg[:as]), strings.ToLower(text(arg[as+1:]))
}
