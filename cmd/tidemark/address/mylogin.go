package address

import (
	"crypto/aes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tidemarkdb/tidemark/internal/plainfile"
)

// loginFile is where mysql_config_editor keeps its login paths.
func loginFile(home string) string {
	switch file := os.Getenv("MYSQL_TEST_LOGIN_FILE"); {
	case file != "":
		return file
	case runtime.GOOS == "windows":
		return filepath.Join(os.Getenv("APPDATA"), "MySQL", ".mylogin.cnf")
	}
	return filepath.Join(home, ".mylogin.cnf")
}

// loginKey is how many bytes of the file its key is made of, behind four that are unused.
const loginKey = 20

// readLogins reads the groups of a file of mysql_config_editor, which calls them login paths. It is
// obfuscated rather than secret: the key stands at its beginning. Each line has its length and is
// encrypted by itself, by AES-128 in ECB mode, with padding as of PKCS #7.
func readLogins(file string) (map[string]settings, error) {
	b, err := plainfile.ReadSecret(file)
	if err != nil {
		return nil, err
	}
	damaged := fmt.Errorf("%s is not a file of mysql_config_editor, or is damaged", file)
	if len(b) < 4+loginKey {
		return nil, damaged
	}
	key := make([]byte, aes.BlockSize)
	for i, c := range b[4 : 4+loginKey] {
		key[i%len(key)] ^= c
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	for b = b[4+loginKey:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, damaged
		}
		n := binary.LittleEndian.Uint32(b)
		b = b[4:]
		if n == 0 || n%aes.BlockSize != 0 || uint64(n) > uint64(len(b)) {
			return nil, damaged
		}
		line := b[:n]
		for i := 0; i < len(line); i += aes.BlockSize {
			block.Decrypt(line[i:], line[i:])
		}
		pad := int(line[n-1])
		if pad == 0 || pad > aes.BlockSize {
			return nil, damaged
		}
		text.Write(line[:int(n)-pad])
		b = b[n:]
	}
	r := groupReader{groups: map[string]settings{}}
	return r.groups, r.read(strings.NewReader(text.String()), maxIncludes)
}
