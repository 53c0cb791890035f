package envelope

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// check returns why a value breaks its rule, "" if it does not. The rules are
// the patterns of the schema, written out: a test holds the two together. Run
// as regular expressions they would cost more than all of the decoding.
type check func(string) string

var slotChecks = [slots]check{
	spotID:        checkSpotID,
	key:           checkKey,
	market:        checkMarket,
	station:       checkStation,
	airDate:       checkAirDate,
	houseNumber:   checkHouseNumber,
	adID:          checkAdID,
	airTime:       checkAirTime,
	duration:      checkDuration,
	breakNumber:   checkBreak,
	breakPosition: checkBreak,
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
func upper(c byte) bool { return 'A' <= c && c <= 'Z' }
func alnum(c byte) bool { return digit(c) || upper(c) || 'a' <= c && c <= 'z' }

// length checks the number of characters, not of bytes.
func length(s string, least, most int) string {
	n := utf8.RuneCountInString(s)
	switch {
	case n < least:
		return fmt.Sprintf("%d characters, at least %d needed", n, least)
	case n > most:
		return fmt.Sprintf("%d characters, at most %d allowed", n, most)
	}
	return ""
}

// word: a letter or digit, then letters, digits and the characters of more.
func word(s, more string) string {
	for i := range len(s) {
		if alnum(s[i]) || i > 0 && strings.IndexByte(more, s[i]) >= 0 {
			continue
		}
		if i == 0 {
			return "must begin with a letter or digit"
		}
		r, _ := utf8.DecodeRuneInString(s[i:])
		return fmt.Sprintf("character %+q is not allowed: letters, digits and %s are", r, more)
	}
	return ""
}

func checkSpotID(s string) string {
	if why := length(s, 1, 64); why != "" {
		return why
	}
	return word(s, "._:-")
}

func checkKey(s string) string {
	if why := length(s, 8, 255); why != "" {
		return why
	}
	return word(s, "._~:+=@/-")
}

// blank is \s of ECMA-262, the dialect of JSON Schema.
func blank(r rune) bool {
	return r == '\ufeff' || unicode.Is(unicode.Zs, r) || strings.ContainsRune("\t\n\v\f\r\u2028\u2029", r)
}

func checkMarket(s string) string {
	if why := length(s, 1, 64); why != "" {
		return why
	}
	first, _ := utf8.DecodeRuneInString(s)
	last, _ := utf8.DecodeLastRuneInString(s)
	if blank(first) || blank(last) {
		return "must not begin or end with a blank"
	}
	if strings.ContainsAny(s, "\n\r\u2028\u2029") {
		return "must be one line"
	}
	return ""
}

func checkStation(s string) string {
	const why = "is no call sign such as WXYZ, WXYZ-FM or K250BW"
	call, suffix, dash := strings.Cut(s, "-")
	if len(call) < 3 || len(call) > 7 || !upper(call[0]) || dash && (len(suffix) < 1 || len(suffix) > 4) {
		return why
	}
	for i := range len(call) + len(suffix) {
		c := (call + suffix)[i]
		if !upper(c) && !digit(c) {
			return why
		}
	}
	return ""
}

// shaped compares a value with a shape in which 0 stands for any digit.
func shaped(s, shape string) bool {
	if len(s) != len(shape) {
		return false
	}
	for i := range len(s) {
		if shape[i] == '0' && digit(s[i]) || shape[i] != '0' && shape[i] == s[i] {
			continue
		}
		return false
	}
	return true
}

func number(s string) (n int) {
	for i := range len(s) {
		n = n*10 + int(s[i]-'0')
	}
	return n
}

func checkAirDate(s string) string {
	if !shaped(s, "0000-00-00") {
		return "must be a date such as 2026-07-17"
	}
	year, month, day := number(s[:4]), number(s[5:7]), number(s[8:])
	days := []int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		days[1] = 29
	}
	if month < 1 || month > 12 || day < 1 || day > days[month-1] {
		return "is no day of the calendar"
	}
	return ""
}

func checkHouseNumber(s string) string {
	if why := length(s, 1, 32); why != "" {
		return why
	}
	if why := word(s, " ._/#-"); why != "" {
		return why
	}
	if !alnum(s[len(s)-1]) {
		return "must end with a letter or digit"
	}
	return ""
}

func checkAdID(s string) string {
	const why = "is no ISCI code of 8 characters, no Ad-ID of 11 and none of 12 that ends in H or D"
	all := func(s string, ok func(byte) bool) bool {
		for i := range len(s) {
			if !ok(s[i]) {
				return false
			}
		}
		return true
	}
	code := func(c byte) bool { return upper(c) || digit(c) }
	switch {
	case len(s) == 8 && all(s[:4], upper) && all(s[4:], digit),
		len(s) == 11 && s[0] != '0' && all(s, code),
		len(s) == 12 && s[0] != '0' && all(s[:11], code) && (s[11] == 'H' || s[11] == 'D'):
		return ""
	}
	return why
}

func checkAirTime(s string) string {
	if !shaped(s, "00:00:00") || s[:2] > "30" || s[3] > '5' || s[6] > '5' {
		return "must be HH:MM:SS with hours 00 to 30"
	}
	return ""
}

func checkDuration(s string) string {
	ok := shaped(s, "00:00:00") || (shaped(s, "00:00:00:00") || shaped(s, "00:00:00;00")) && s[9] <= '5'
	if !ok || s[3] > '5' || s[6] > '5' {
		return "must be HH:MM:SS, HH:MM:SS:FF or HH:MM:SS;FF"
	}
	return ""
}

func checkBreak(s string) string {
	if len(s) < 1 || len(s) > 4 || !shaped(s, "0000"[:len(s)]) {
		return "must be 1 to 4 digits"
	}
	return ""
}

// checkText is the rule for any payload value, on its unquoted bytes.
func checkText(s []byte) string {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < ' ' && c != '\t' || c == 0x7f:
			return fmt.Sprintf("control character U+%04X is not allowed", c)
		case c == 0xef && i+2 < len(s): // EF BF BD is U+FFFD, EF BB BF is U+FEFF
			if s[i+1] == 0xbf && s[i+2] == 0xbd {
				return "replacement character U+FFFD: the text was damaged before it came here"
			}
			if s[i+1] == 0xbb && s[i+2] == 0xbf {
				return "byte order mark U+FEFF is not allowed"
			}
		}
	}
	return ""
}

// checkName is the rule for payload member names, on their unquoted bytes.
func checkName(s []byte) string {
	if len(s) == 0 {
		return "empty member name"
	}
	if utf8.RuneCount(s) > 128 {
		return "member name longer than 128 characters"
	}
	for _, c := range s {
		if c < ' ' || c == 0x7f {
			return fmt.Sprintf("control character U+%04X in a member name", c)
		}
	}
	return ""
}
