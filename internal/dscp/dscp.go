// Package dscp names the code points of differentiated services.
package dscp

import (
	"fmt"
	"strconv"
	"strings"
)

// names are the code points of the IANA registry: RFC 2474 (CS), RFC 2597 (AF),
// RFC 3246 (EF), RFC 5865 (VA), RFC 8622 (LE).
var names = map[string]int{
	"default": 0, "cs0": 0, "le": 1, "cs1": 8, "af11": 10, "af12": 12, "af13": 14, "cs2": 16, "af21": 18, "af22": 20, "af23": 22,
	"cs3": 24, "af31": 26, "af32": 28, "af33": 30, "cs4": 32, "af41": 34, "af42": 36, "af43": 38, "cs5": 40, "va": 44, "ef": 46, "cs6": 48, "cs7": 56,
}

// Usual returns the code point that a class of traffic has unless something else
// is said. Bulk is RFC 8622's lower effort; where a Wi-Fi driver or a kernel before
// 5.9 follows, which do not know it, cs1 (8) is to be given.
func Usual(class string) (point int, ok bool) {
	point, ok = map[string]int{"bulk": 1, "interactive": 18, "control": 46}[class]
	return point, ok
}

// Parse returns the code point, 0 to 63, of a name such as le, af21 or ef, in
// any case, or of a number.
func Parse(s string) (int, error) {
	if n, ok := names[strings.ToLower(s)]; ok {
		return n, nil
	}
	n, err := strconv.ParseUint(s, 0, 8)
	if err != nil || n > 63 {
		return 0, fmt.Errorf("%q is no DSCP: want a name such as le, cs1, af21, ef, or a number from 0 to 63", s)
	}
	return int(n), nil
}
