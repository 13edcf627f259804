package relay

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tidemarkdb/tidemark"
)

// version is that of the protocol: of what follows a hello too. Hello and answer keep their form
// and their field relay in all versions, so that each version can tell the other which one it is.
const version = 1

// mostGreeting is the largest hello or answer in bytes: an error's text must fit.
const mostGreeting = 16 << 10

// A hello is the first message of the connecting side.
type hello struct {
	Relay   int    `json:"relay"`   // version
	Program string `json:"program"` // the version of tidemark, for messages
	Want    string `json:"want"`
}

// An answer is the relay's. Kind and Hint are those of the error in Refused.
type answer struct {
	Relay   int           `json:"relay"`
	Program string        `json:"program"`
	Refused string        `json:"refused,omitempty"` // "": welcome
	Kind    tidemark.Kind `json:"kind,omitempty"`
	Hint    string        `json:"hint,omitempty"`
}

var errGreeting = errors.New("received something else than a greeting of a relay")

func writeGreeting(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// readGreeting reads no byte more than the greeting.
func readGreeting(r io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > mostGreeting {
		return errGreeting
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	if json.Unmarshal(text, v) != nil {
		return errGreeting
	}
	return nil
}

// refusal is the answer with an error, cut to what fits.
func refusal(program string, err error) answer {
	const most = (mostGreeting - 1<<10) / 2 / 6 // two texts, of which JSON needs up to six bytes for one
	cut := func(s string) string { return s[:min(len(s), most)] }
	kind := tidemark.KindOf(err)
	text := err.Error()
	var own *tidemark.Error
	if errors.As(err, &own) && own.Err != nil {
		text = own.Err.Error() // Op and Object are those of the side that asks
	}
	return answer{Relay: version, Program: program, Refused: cut(text), Kind: kind, Hint: cut(tidemark.HintOf(err))}
}

// otherVersion explains that the two sides do not speak the same version.
func otherVersion(theirs int, program string) error {
	return &tidemark.Error{Kind: tidemark.Unsupported, Op: "connect",
		Err:  fmt.Errorf("it speaks version %d of the protocol (tidemark %.40q), and this program version %d", theirs, program, version),
		Hint: "Run the same version of tidemark on both hosts."}
}
