package netshape

import (
	"fmt"
	"hash/fnv"
	"strings"
)

const maxName = 15 // IFNAMSIZ without the zero byte

// CheckName refuses what the kernel would not take for the name of an interface,
// and what only a shell would take for one.
func CheckName(name string) error {
	why := ""
	switch {
	case name == "":
		why = "is empty"
	case len(name) > maxName:
		why = fmt.Sprintf("has %d bytes", len(name))
	case name == "." || name == "..":
		why = "is a directory"
	default:
		i := strings.IndexFunc(name, func(r rune) bool { return !plainRune(r) })
		if i < 0 {
			return nil
		}
		why = fmt.Sprintf("has %q in it", []rune(name[i:])[0])
	}
	return fmt.Errorf("interface name %q %s: want 1 to %d letters, digits or any of . _ - @, such as eth1", name, why, maxName)
}

func plainRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-@", r)
}

// ifbName is the device through which what comes in at name is led, to be queued.
// Where the name does not fit its hash stands for it, with a sign that is in no name
// that [CheckName] takes: no other interface's ifb has that name.
func ifbName(name string) string {
	const prefix = "ifb4"
	if len(prefix)+len(name) <= maxName {
		return prefix + name
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return fmt.Sprintf("%s+%010x", prefix, h.Sum64()>>24)
}
