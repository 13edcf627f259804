package drda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// login begins the conversation: first who we are and how we would log in, then the login and the
// database.
func (c *Conn) login(ctx context.Context, cfg Config) error {
	done := c.watch(ctx)
	return done((&login{c}).run(cfg))
}

// A login is a Conn that has not logged in yet.
type login struct{ *Conn }

func (c *login) run(cfg Config) error {
	if len(cfg.Accept) == 0 {
		return errors.New("no way to log in is accepted")
	}
	way := cfg.Accept[0]
	offered, key, err := c.hello(cfg, way)
	if err != nil {
		return err
	}
	if c.Server.Class != "" && !c.Server.supported() {
		return fmt.Errorf("the server is of class %s, release %s: only Db2 for Linux, UNIX and Windows is supported", c.Server.Class, c.Server.Release)
	}
	if !slices.Contains(offered, way) {
		if way, err = choose(cfg.Accept[1:], offered); err != nil {
			return err
		}
		if offered, key, err = c.offer(cfg, way); err != nil {
			return err
		}
		if !slices.Contains(offered, way) {
			_, err := choose(nil, offered)
			return err
		}
	}
	return c.access(cfg, way, key)
}

// supported reports whether the server is Db2 for Linux, UNIX or Windows, or Derby. Others have
// names of their own: QDB2 without more is z/OS, QAS is IBM i, QDB2/VM is VM.
func (s Server) supported() bool {
	return s.Derby() || strings.HasPrefix(s.Class, "QDB2/") && !strings.HasPrefix(s.Class, "QDB2/VM") && !strings.HasPrefix(s.Class, "QDB2/VSE")
}

// choose returns the first of our ways that the server has offered.
func choose(ours, offered []Security) (Security, error) {
	for _, way := range ours {
		if slices.Contains(offered, way) {
			return way, nil
		}
	}
	names := make([]string, len(offered))
	for i, w := range offered {
		names[i] = fmt.Sprint(uint16(w))
		switch w {
		case Plain:
			names[i] = "a plain password"
		case Encrypted:
			names[i] = "an encrypted user and password"
		case 4:
			names[i] = "a user without a password"
		case 7:
			names[i] = "an encrypted password"
		case 8:
			names[i] = "a substitute of the password"
		case 11:
			names[i] = "Kerberos"
		case 15:
			names[i] = "a plug-in"
		}
	}
	return 0, fmt.Errorf("%w: the server accepts %s", ErrNoWay, strings.Join(names, ", "))
}

// padded returns the database's name as requests have it: at least 18 characters long.
func (c *login) padded(database string) ([]byte, error) {
	return c.spell(fmt.Sprintf("%-18s", database))
}

// hello says who we are, and offers a way to log in.
func (c *login) hello(cfg Config, way Security) (offered []Security, key *exchange, err error) {
	f := &c.out
	f.begin(dssRequest)
	m := f.open(cpEXCSAT)
	program, err := ebcdic(cfg.Program)
	if err != nil {
		return nil, nil, err
	}
	f.param(cpEXTNAM, program...)
	f.param(cpSRVNAM, program...)
	release, _ := ebcdic("TDM01000")
	f.param(cpSRVRLSLV, release...)
	levels := f.open(cpMGRLVLLS)
	for _, v := range managers {
		f.body = append(f.body, byte(v>>8), byte(v))
	}
	f.close(levels)
	class, _ := ebcdic("QTIDEMARK")
	f.param(cpSRVCLSNM, class...)
	f.close(m)
	f.end()
	return c.offer(cfg, way)
}

// offer offers a way to log in, after what has been collected, and returns the ways that the server
// accepts.
func (c *login) offer(cfg Config, way Security) (offered []Security, key *exchange, err error) {
	f := &c.out
	rdb, err := c.padded(cfg.Database)
	if err != nil {
		return nil, nil, err
	}
	f.begin(dssRequest)
	m := f.open(cpACCSEC)
	f.param16(cpSECMEC, uint16(way))
	f.param(cpRDBNAM, rdb...)
	if way == Encrypted {
		if key, err = newExchange(); err != nil {
			return nil, nil, err
		}
		f.param(cpSECTKN, key.token()...)
	}
	f.close(m)
	f.end()
	if err := c.send(); err != nil {
		return nil, nil, err
	}
	for {
		code, err := c.next()
		switch {
		case err != nil:
			return nil, nil, err
		case code == 0:
			return offered, key, nil
		}
		switch code {
		case cpEXCSATRD:
			err = c.attributes()
		case cpACCSECRD:
			offered, err = c.ways(key)
		default:
			err = c.other(code)
			if code == cpRDBNFNRM && err != nil {
				err = fmt.Errorf("%w (%v)", ErrNoDatabase, err)
			}
		}
		if err != nil {
			return nil, nil, c.broken(err)
		}
	}
}

// attributes reads who the server is.
func (c *login) attributes() error {
	body, err := c.whole()
	if err != nil {
		return err
	}
	return params(body, func(code uint16, v []byte) error {
		switch code {
		case cpSRVCLSNM:
			c.Server.Class = ofEBCDIC(v)
		case cpSRVRLSLV:
			c.Server.Release = ofEBCDIC(v)
		case cpMGRLVLLS:
			for ; len(v) >= 4; v = v[4:] {
				if be.Uint16(v) == mgrUnicode && be.Uint16(v[2:]) == 1208 {
					c.unicode = true
				}
			}
		}
		return nil
	})
}

// ways reads which ways to log in the server accepts.
func (c *login) ways(key *exchange) (offered []Security, err error) {
	body, err := c.whole()
	if err != nil {
		return nil, err
	}
	var refused error
	err = params(body, func(code uint16, v []byte) error {
		switch code {
		case cpSECMEC:
			for ; len(v) >= 2; v = v[2:] {
				offered = append(offered, Security(be.Uint16(v)))
			}
		case cpSECTKN:
			if key != nil {
				key.theirs = append([]byte(nil), v...)
			}
		case cpSECCHKCD:
			refused = fmt.Errorf("%w: %s", ErrRefused, whyRefused(v))
		}
		return nil
	})
	if err == nil && len(offered) == 0 { // with a list, it refuses the way that we have offered
		err = refused
	}
	return offered, err
}

// access logs in and opens the database.
func (c *login) access(cfg Config, way Security, key *exchange) error {
	rdb, err := c.padded(cfg.Database)
	if err != nil {
		return err
	}
	c.rdb = rdb
	user, err := c.spell(cfg.User)
	if err != nil {
		return err
	}
	password, err := c.spell(cfg.Password)
	if err != nil {
		return errors.New("the password cannot be spelled in EBCDIC, and the server does not know UTF-8")
	}
	f := &c.out
	f.begin(dssRequest)
	m := f.open(cpSECCHK)
	f.param16(cpSECMEC, uint16(way))
	f.param(cpRDBNAM, rdb...)
	if way == Encrypted {
		for _, secret := range [][]byte{user, password} {
			sealed, err := key.seal(secret)
			if err != nil {
				return err
			}
			f.param(cpSECTKN, sealed...)
		}
	} else {
		f.param(cpUSRID, user...)
		f.param(cpPASSWORD, password...)
	}
	f.close(m)
	f.end()
	if err := c.askDatabase(rdb); err != nil {
		return err
	}
	if err := c.send(); err != nil {
		return err
	}
	return c.accessed()
}

// askDatabase opens the database, and says how we send data.
func (c *login) askDatabase(rdb []byte) error {
	product := "SQL12010" // as other clients of a recent Db2 have it
	if c.Server.Derby() {
		product = "DNC10160" // Derby refuses clients that are not its own
	}
	parts := make([][]byte, 3)
	for i, s := range []string{product, "QTDSQLASC", "T1DEMARK.0001"} {
		b, err := c.spell(s)
		if err != nil {
			return err
		}
		parts[i] = b
	}
	f := &c.out
	f.begin(dssRequest)
	m := f.open(cpACCRDB)
	f.param(cpRDBNAM, rdb...)
	f.param16(cpRDBACCCL, 0x2407)
	f.param(cpPRDID, parts[0]...)
	f.param(cpTYPDEFNAM, parts[1]...)
	f.param(cpCRRTKN, append(parts[2], make([]byte, 6)...)...)
	o := f.open(cpTYPDEFOVR)
	f.param16(cpCCSIDSBC, 1208)
	f.param16(cpCCSIDDBC, 1200)
	f.param16(cpCCSIDMBC, 1208)
	f.close(o)
	f.close(m)
	f.end()
	return nil
}

// accessed reads the replies to the login and the opening.
func (c *login) accessed() error {
	opened := false
	var first error
	for {
		code, err := c.next()
		if err != nil {
			return errorOf(first, err)
		}
		if code == 0 {
			break
		}
		switch code {
		case cpSECCHKRM:
			err = c.checked()
		case cpACCRDBRM:
			opened = true
			err = c.opened()
		case cpRDBNFNRM:
			if err = c.other(code); err != nil {
				err = fmt.Errorf("%w (%v)", ErrNoDatabase, err)
			}
		default:
			err = c.other(code)
		}
		if first = errorOf(first, err); c.Broken {
			return first
		}
	}
	if first == nil && !opened {
		first = errors.New("the server did not open the database")
	}
	if first == nil && c.single == pageNone { // one without mixed text does not name its code page
		first = errors.New("the database has a code page that is not supported: UTF-8 (1208) and ISO 8859-1 (819) are")
	}
	return first
}

func (c *login) checked() error {
	body, err := c.whole()
	if err != nil {
		return err
	}
	return params(body, func(code uint16, v []byte) error {
		if code == cpSECCHKCD && (len(v) != 1 || v[0] != 0) {
			return fmt.Errorf("%w: %s", ErrRefused, whyRefused(v))
		}
		return nil
	})
}

// whyRefused explains a SECCHKCD.
func whyRefused(v []byte) string {
	if len(v) != 1 {
		return "no reason given"
	}
	reasons := map[byte]string{0x01: "this way to log in is not supported", 0x0A: "the server's security service has an error", 0x0B: "its security service is not available for now",
		0x0E: "the password has expired", 0x0F: "wrong user or password", 0x10: "no password was given", 0x12: "no user was given",
		0x13: "wrong user or password", 0x14: "the account is revoked", 0x15: "the new password is not accepted"}
	if r := reasons[v[0]]; r != "" {
		return r
	}
	return fmt.Sprintf("reason %02X", v[0])
}

func (c *login) opened() error {
	body, err := c.whole()
	if err != nil {
		return err
	}
	var override []byte
	err = params(body, func(code uint16, v []byte) error {
		switch code {
		case cpPRDID:
			c.Server.Product = c.name(v)
		case cpTYPDEFNAM:
			return c.typedef(code, v)
		case cpTYPDEFOVR:
			override = v
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.typedef(cpTYPDEFOVR, override)
}
