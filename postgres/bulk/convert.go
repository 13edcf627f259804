package bulk

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidemarkdb/tidemark"
	"github.com/tidemarkdb/tidemark/postgres/schema"
	"github.com/tidemarkdb/tidemark/postgres/server"
)

// A conversion turns the canonical text of one kind of value into that of another. Most pairs of
// kinds need none, because PostgreSQL accepts both.
type conversion uint8

const (
	asIs       conversion = iota
	intToBool             // anything but 0 is t
	boolToInt             // t is 1
	bitToInt              // binary digits to decimal
	hexToBytes            // a geometry's hex to \x and hex
	bytesToHex            // \x and hex to hex, which uuid accepts
)

func conversionOf(from, to tidemark.Type) conversion {
	number := func(k tidemark.TypeKind) bool {
		return k == tidemark.Int || k == tidemark.Decimal || k == tidemark.Year || k == tidemark.Float
	}
	switch {
	case to.Kind == tidemark.Bool && (number(from.Kind) || from.Kind == tidemark.Bit):
		return intToBool
	case from.Kind == tidemark.Bool && (number(to.Kind) || to.Kind == tidemark.Bit):
		return boolToInt
	case from.Kind == tidemark.Bit && number(to.Kind):
		return bitToInt
	case from.Kind == tidemark.Geometry && to.Kind.Bytes():
		return hexToBytes
	case from.Kind.Bytes() && to.Kind == tidemark.UUID:
		return bytesToHex
	}
	return asIs
}

// converted wraps take with the conversions that a move needs.
func converted(w tidemark.Write, take func() (*tidemark.Batch, error)) (func() (*tidemark.Batch, error), error) {
	m := w.Move
	if w.Format == tidemark.LoadData {
		return nil, &tidemark.Error{Kind: tidemark.Bug, Op: "write", Object: server.QuoteTable(m.To.TableID), Err: errors.New("PostgreSQL does not support the format " + w.Format.String())}
	}
	to := m.To.Stored()
	how, any := make([]conversion, len(to)), false
	for i := range to {
		if i >= len(m.Source) {
			break
		}
		if c := m.From.Column(m.Source[i]); c != nil && !m.Direct {
			how[i] = conversionOf(c.Type, schema.AsWritten(to[i].Type))
			any = any || how[i] != asIs
		}
	}
	if !any {
		return take, nil
	}
	if w.Format != tidemark.CopyText {
		return nil, &tidemark.Error{Kind: tidemark.Bug, Op: "write", Object: server.QuoteTable(m.To.TableID), Err: fmt.Errorf("columns need a conversion, which the format %s does not allow", w.Format)}
	}
	c := &converter{how: how}
	return func() (*tidemark.Batch, error) {
		b, err := take()
		if err != nil {
			return nil, err
		}
		return c.batch(b), nil
	}, nil
}

// A converter walks over COPY text. Between batches it remembers its position in a row, since a
// large row arrives in pieces.
type converter struct {
	how   []conversion
	col   int
	begun bool   // some of the field has been seen
	held  []byte // of a field that is converted as a whole
}

// batch converts in, and releases it.
func (c *converter) batch(in *tidemark.Batch) *tidemark.Batch {
	out := tidemark.NewBatch(in.Range, in.Format)
	out.Rows, out.More, out.Last = in.Rows, in.More, in.Last
	data, dst := in.Data, out.Data
	for at := 0; at < len(data); {
		end := at
		for end < len(data) && data[end] != '\t' && data[end] != '\n' {
			end++
		}
		dst = c.field(dst, data[at:end], end < len(data))
		if end < len(data) {
			dst = append(dst, data[end])
			c.col++
			if data[end] == '\n' {
				c.col = 0
			}
			c.begun = false
		}
		at = end + 1
	}
	out.Data = dst
	in.Release()
	return out
}

// field appends a piece of the current field; whole: the field ends with it.
func (c *converter) field(dst, p []byte, whole bool) []byte {
	how := asIs
	if c.col < len(c.how) {
		how = c.how[c.col]
	}
	switch how {
	case asIs:
		return append(dst, p...)
	case hexToBytes:
		if !c.begun && len(p) > 0 {
			c.begun = true
			if p[0] != '\\' { // not NULL
				dst = append(dst, `\\x`...)
			}
		}
		return append(dst, p...)
	}
	if !whole {
		c.held = append(c.held, p...)
		return dst
	}
	if len(c.held) > 0 {
		p = append(c.held, p...)
		c.held = c.held[:0]
	}
	return convertValue(dst, p, how)
}

// convertValue appends a value in its other form. A value of an unexpected form stays as it is: the
// server will report what is wrong with it.
func convertValue(dst, p []byte, how conversion) []byte {
	if string(p) == `\N` {
		return append(dst, p...)
	}
	switch how {
	case intToBool:
		if string(p) == "t" || string(p) == "f" || len(p) == 0 {
			break
		}
		for _, d := range p {
			if d >= '1' && d <= '9' {
				return append(dst, 't')
			}
		}
		return append(dst, 'f')
	case boolToInt:
		switch string(p) {
		case "t":
			return append(dst, '1')
		case "f":
			return append(dst, '0')
		}
	case bitToInt:
		var v uint64
		for _, d := range p {
			if d != '0' && d != '1' || v>>63 != 0 {
				return append(dst, p...)
			}
			v = v<<1 | uint64(d-'0')
		}
		return fmt.Appendf(dst, "%d", v)
	case bytesToHex:
		if len(p) > 3 && string(p[:3]) == `\\x` {
			return append(dst, p[3:]...)
		}
	}
	return append(dst, p...)
}

// ConvertedText returns a value of type from in the form that the copy writes into a column of type
// to.
func ConvertedText(value string, from, to tidemark.Type) string {
	switch how := conversionOf(from, schema.AsWritten(to)); how {
	case asIs:
		return value
	case hexToBytes:
		return `\x` + strings.TrimPrefix(value, `\x`)
	default:
		// As a field of COPY text, in which a backslash is escaped.
		field := convertValue(nil, []byte(strings.ReplaceAll(value, `\`, `\\`)), how)
		return strings.ReplaceAll(string(field), `\\`, `\`)
	}
}
