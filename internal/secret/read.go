package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"trafficup/internal/disk"
)

// maxFile bounds a file that holds a secret, in bytes.
const maxFile = 64 << 10

// Longest bounds a secret, in bytes: it goes into a header, and servers that take
// more than that in one are rare.
const Longest = 8 << 10

// ErrEmpty tells that nothing was left of a value after cleaning.
var ErrEmpty = errors.New("is empty")

// Clean returns the secret in raw, freed of what editors, shells and copying put
// around it: a byte order mark, blanks and line ends, one pair of quotes. What is
// left goes into headers, so anything but printable ASCII is refused, and more than
// 8 KiB; the error says where it is and never what is there.
func Clean(raw []byte) (Secret, error) {
	if bytes.HasPrefix(raw, []byte("\xff\xfe")) || bytes.HasPrefix(raw, []byte("\xfe\xff")) {
		return Secret{}, errors.New("is UTF-16; save it as UTF-8")
	}
	const blanks = " \t\r\n"
	v := bytes.Trim(bytes.TrimPrefix(raw, []byte("\ufeff")), blanks)
	if n := len(v); n >= 2 && v[0] == v[n-1] && (v[0] == '"' || v[0] == '\'') {
		v = bytes.Trim(v[1:n-1], blanks)
	}
	if len(v) == 0 {
		return Secret{}, ErrEmpty
	}
	if len(v) > Longest {
		return Secret{}, fmt.Errorf("is longer than %d KiB", Longest>>10)
	}
	for i, c := range v {
		switch {
		case c == '\n' || c == '\r':
			return Secret{}, fmt.Errorf("has more than one line: a line end at byte %d", i+1)
		case c < ' ' || c == 0x7f:
			return Secret{}, fmt.Errorf("has a control character at byte %d", i+1)
		case c > 0x7f:
			return Secret{}, fmt.Errorf("has a character at byte %d that is not ASCII", i+1)
		}
	}
	return New(string(v)), nil
}

// ReadFile returns the cleaned content of a regular file of at most 64 KiB.
// Anything else of that name is refused; a pipe is not waited for. The warning,
// if any, is for people: others can get at the file.
func ReadFile(path string) (s Secret, warning string, err error) {
	f, err := disk.OS{}.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return Secret{}, "", err // names the file
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	info, err := f.Stat()
	if err != nil {
		return Secret{}, "", err
	}
	if !info.Mode().IsRegular() {
		return Secret{}, "", fmt.Errorf("read %s: %w", path, disk.ErrNotRegular)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return Secret{}, "", err
	}
	if len(raw) > maxFile {
		return Secret{}, "", fmt.Errorf("read %s: more than %d KiB", path, maxFile>>10)
	}
	if s, err = Clean(raw); err != nil {
		return Secret{}, "", fmt.Errorf("read %s: %w", path, err)
	}
	if mode := info.Mode().Perm(); mode&^0o600 != 0 && runtime.GOOS != "windows" {
		warning = fmt.Sprintf("%s holds a secret and has mode %04o; chmod 600 %q", path, mode, path)
	}
	return s, warning, nil
}

// Find returns the path of the credential that the service manager passes under
// name ($CREDENTIALS_DIRECTORY, systemd's LoadCredential); ok tells that it is
// there. The manager guards these files with access lists, which show in their
// mode: the warning of ReadFile says nothing about them.
func Find(name string, getenv func(string) string) (path string, ok bool) {
	dir := getenv("CREDENTIALS_DIRECTORY")
	if dir == "" || name == "" || name == "." || name == ".." || filepath.Base(name) != name {
		return "", false
	}
	path = filepath.Join(dir, name)
	_, err := os.Lstat(path)
	return path, err == nil
}
