package bundle

import (
	"strings"
	"testing"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/load"
)

// Messages of servers and of our own, with a value of a row in each; the names stay.
var messages = []struct{ text, keeps string }{
	{`copy table shop.customer: duplicate key value violates unique constraint "customer_pkey": Key (mail)=(SECRET@x.org) already exists. (SQLSTATE 23505)`, "customer_pkey SQLSTATE 23505"},
	{`Key (mail, name)=(a, SECRET (the 2nd)) already exists.`, "mail"},
	{`null value in column "name" violates not-null constraint: Failing row contains (1, SECRET, null).`, `"name" not-null`},
	{`invalid input syntax for type integer: "SECRET": COPY customer, line 3, column name: "it ""SECRET"" x"`, "type integer"},
	{`invalid input syntax for type integer: SECRET: COPY customer, line 3, column name: SECRET`, "type integer"},
	{`Error 1062 (23000): Duplicate entry 'SECRET-7' for key 'customer.customer_pkey'`, "Error 1062 (23000) customer_pkey"},
	{`Incorrect integer value: 'it''s SECRET' for column 'name' at row 7`, "'name'"},
	{"write shop.customer: row id=4 SECRET: bad date", "write"},
	{"write shop.customer: row SECRET-4: bad date", "bad date"},
	{`an unfinished quote 'SECRET and the rest`, "unfinished"},
	{"row of \"customer\" with the key: SECRET", "row"},
	{`connect to postgres://me:SECRET@db/shop: refused`, "refused"},
	{`password=SECRET is wrong`, "is wrong"},
}

func TestVeil(t *testing.T) {
	customer := &tidemark.Table{TableID: tidemark.TableID{Schema: "shop", Name: "customer"}, Columns: []tidemark.Column{{Name: "name"}, {Name: "mail"}}, Indexes: []tidemark.Index{{Name: "customer_pkey"}}}
	v := newVeil(&load.Plan{Moves: []tidemark.Move{{From: customer, To: customer}}}, nil)
	for _, m := range messages {
		got := v.over(m.text)
		if strings.Contains(got, "SECRET") {
			t.Errorf("%s\nbecame %s", m.text, got)
		}
		for _, word := range strings.Fields(m.keeps) {
			if !strings.Contains(got, word) {
				t.Errorf("%s\nlost %s: %s", m.text, word, got)
			}
		}
	}
	for number, kept := range map[string]bool{"4711 rows": true, "took 12.5 s": true, "out of range: 123456789": false, "card 4111-1111-1111-1111": false} {
		if got := v.over(number); (got == number) != kept {
			t.Errorf("%s became %s", number, got)
		}
	}
	doc, err := v.overJSON([]byte(`{"failed":[{"object":{"id":"index shop.i","sql":["SELECT SECRET"]},"error":"Duplicate entry 'SECRET'"}],"rows":12345678901234567}`))
	if err != nil || strings.Contains(string(doc), "SECRET") || !strings.Contains(string(doc), "12345678901234567") || !strings.Contains(string(doc), "index shop.i") {
		t.Errorf("%v: %s", err, doc)
	}
	for _, key := range []string{"error", "text", "hint", "reason", "queue_stopped", "message"} {
		if doc, err := v.overJSON([]byte(`{"x":[{"` + key + `":"Duplicate entry 'SECRET'"}]}`)); err != nil || strings.Contains(string(doc), "SECRET") {
			t.Errorf("%s: %v: %s", key, err, doc)
		}
	}
	if got := typeName("enum('SECRET','x')"); strings.Contains(got, "SECRET") {
		t.Error(got)
	}
}
