package screen

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"
)

// JSON prints a document. Empty lists in it are [].
func JSON(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(filled(v))
}

// As prints a report as JSON, or with print.
func As[T any](w io.Writer, asJSON bool, report T, print func(io.Writer, T)) {
	if asJSON {
		JSON(w, report)
	} else {
		print(w, report)
	}
}

// Event prints an object in one line, with the time at its end unless it has one.
func Event(w io.Writer, v any) {
	line, err := json.Marshal(filled(v))
	if err != nil { // all of our own types can be written
		return
	}
	var has struct {
		Time json.RawMessage `json:"time"`
	}
	if json.Unmarshal(line, &has) == nil && has.Time == nil {
		line = fmt.Appendf(bytes.TrimSuffix(line, []byte("}")), `,"time":%q}`, time.Now().UTC().Format(time.RFC3339Nano))
	}
	w.Write(append(line, '\n'))
}

// filled copies a value to print, with empty lists for nil ones. Others may be reading the original
// meanwhile.
func filled(v any) any {
	if v == nil {
		return nil
	}
	out := reflect.New(reflect.TypeOf(v)).Elem()
	out.Set(reflect.ValueOf(v))
	fill(out)
	return out.Interface()
}

func fill(v reflect.Value) {
	t := v.Type()
	if p := reflect.PointerTo(t); p.Implements(reflect.TypeFor[json.Marshaler]()) || p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); v.Field(i).CanSet() || f.Anonymous && f.Type.Kind() == reflect.Struct {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // a text
			return
		}
		out := reflect.MakeSlice(t, v.Len(), v.Len())
		reflect.Copy(out, v)
		for i := range v.Len() {
			fill(out.Index(i))
		}
		v.Set(out)
	case reflect.Pointer:
		if v.IsNil() || t.Elem().Kind() != reflect.Struct {
			return
		}
		out := reflect.New(t.Elem())
		out.Elem().Set(v.Elem())
		fill(out.Elem())
		v.Set(out)
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(reflect.ValueOf(filled(v.Interface())))
		}
	case reflect.Map:
		if v.IsNil() {
			return
		}
		out := reflect.MakeMapWithSize(t, v.Len())
		for key, of := range v.Seq2() {
			element := reflect.New(t.Elem()).Elem()
			element.Set(of)
			fill(element)
			out.SetMapIndex(key, element)
		}
		v.Set(out)
	}
}
