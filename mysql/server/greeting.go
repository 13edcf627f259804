package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// A greeting is a server's first packet, HandshakeV10: its version, its capabilities, and the
// challenge for proving the password.
type greeting struct {
	version    string
	id         uint32 // of the session, for KILL
	capability uint32
	mariadb    uint32 // MariaDB's own capabilities, in bytes that are zero elsewhere
	charset    byte
	status     uint16
	plugin     string
	salt       []byte // usually 20 bytes
}

// protocolVersion is the only version that servers of this century speak.
const protocolVersion = 10

// readGreeting decodes a greeting. For any p, the result is a greeting or an error.
func readGreeting(p []byte) (g greeting, err error) {
	if len(p) == 0 {
		return g, ErrMalformed
	}
	if p[0] == PacketErr {
		return g, ErrorIn(p)
	}
	if p[0] != protocolVersion {
		return g, fmt.Errorf("%w: protocol version %d", errForeign, p[0])
	}
	end := bytes.IndexByte(p[1:], 0)
	if end < 0 || len(p) < 1+end+1+4+8+1+2 {
		return g, ErrMalformed
	}
	g.version, p = string(p[1:1+end]), p[1+end+1:]
	g.id = binary.LittleEndian.Uint32(p)
	g.salt = append(g.salt, p[4:12]...)
	g.capability = uint32(binary.LittleEndian.Uint16(p[13:]))
	if p = p[15:]; len(p) >= 16 {
		g.charset = p[0]
		g.status = binary.LittleEndian.Uint16(p[1:])
		g.capability |= uint32(binary.LittleEndian.Uint16(p[3:])) << 16
		if g.capability&gomysql.CLIENT_LONG_PASSWORD == 0 {
			g.mariadb = binary.LittleEndian.Uint32(p[12:])
		}
		rest := max(int(p[5])-8, 13)
		if p = p[16:]; g.capability&gomysql.CLIENT_SECURE_CONNECTION != 0 {
			if len(p) < rest {
				return g, ErrMalformed
			}
			g.salt, p = append(g.salt, p[:rest-1]...), p[rest:]
		}
		if g.capability&gomysql.CLIENT_PLUGIN_AUTH != 0 {
			name, _, _ := bytes.Cut(p, []byte{0})
			g.plugin = string(name)
		}
	}
	if g.capability&gomysql.CLIENT_PROTOCOL_41 == 0 || g.capability&gomysql.CLIENT_SECURE_CONNECTION == 0 {
		return g, errForeign
	}
	if len(g.salt) < 20 {
		return g, ErrMalformed
	}
	return g, nil
}

// errForeign reports a first packet that no current MySQL or MariaDB server sends.
var errForeign = errors.New("the server speaks another protocol than MySQL's")

// append writes the greeting as a packet's payload, for readers of the same protocol.
func (g *greeting) append(dst []byte) []byte {
	salt := make([]byte, 20)
	copy(salt, g.salt)
	dst = append(append(append(dst, protocolVersion), g.version...), 0)
	dst = binary.LittleEndian.AppendUint32(dst, g.id)
	dst = append(append(dst, salt[:8]...), 0)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(g.capability))
	dst = append(dst, g.charset)
	dst = binary.LittleEndian.AppendUint16(dst, g.status)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(g.capability>>16))
	dst = append(append(dst, 21), make([]byte, 6)...)
	dst = binary.LittleEndian.AppendUint32(dst, g.mariadb)
	dst = append(append(dst, salt[8:]...), 0)
	return append(append(dst, g.plugin...), 0)
}

// handshakeLimit bounds a packet before login: the largest that servers send are RSA keys
// and error messages.
const handshakeLimit = 64 << 10

// packets reads and writes the few packets of a login. It never reads ahead of what it returns, so
// that TLS or a Wire can continue on the connection.
type packets struct {
	conn net.Conn
	seq  byte
}

func (p *packets) read() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(p.conn, head[:]); err != nil {
		return nil, err
	}
	n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	if n > handshakeLimit || head[3] != p.seq {
		return nil, ErrMalformed
	}
	p.seq++
	payload := make([]byte, n)
	if _, err := io.ReadFull(p.conn, payload); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, ErrMalformed
	}
	return payload, nil
}

func (p *packets) write(payload []byte) error {
	_, err := p.conn.Write(appendPacket(nil, p.seq, payload))
	p.seq++
	return err
}

// appendPacket appends one packet; the payload is short.
func appendPacket(dst []byte, seq byte, payload []byte) []byte {
	n := len(payload)
	return append(append(dst, byte(n), byte(n>>8), byte(n>>16), seq), payload...)
}
