package envelope

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-playground/validator/v10"
)

// maxShown is how many bytes of the record's own text a message may hold.
const maxShown = 64

// syntax turns the decoder's error into ours.
func (d *decoding) syntax(err error) *Invalid {
	inv := &Invalid{Offset: -1, Reason: "not JSON: " + err.Error()}
	if errors.Is(err, io.EOF) {
		inv.Offset, inv.Reason = 0, "not JSON: nothing there"
	}
	s, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return inv
	}
	inv.Offset = s.ByteOffset
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		var path []string
		for tok := range s.JSONPointer.Tokens() {
			path = append(path, show(tok))
		}
		inv.Member = strings.Join(path, ".")
		inv.Reason = "duplicate member " + show(s.JSONPointer.LastToken())
	case errors.Is(err, io.ErrUnexpectedEOF):
		inv.Reason = fmt.Sprintf("not JSON: cut off at byte %d", s.ByteOffset)
	case errors.Is(err, errDepth):
		inv.Reason = s.Err.Error()
	default:
		inv.Reason = fmt.Sprintf("not JSON at byte %d: %s", s.ByteOffset, printable(s.Err.Error(), 4*maxShown))
	}
	return inv
}

// rules runs the field rules over the members that were read.
func (d *decoding) rules() *Invalid {
	p := func(s slot) *string {
		if d.at[s] < 0 {
			return nil
		}
		return &d.values[s]
	}
	err := d.v.struc.Struct(&form{
		p(spotID), p(key), p(market), p(station), p(airDate), p(houseNumber),
		p(adID), p(airTime), p(duration), p(breakNumber), p(breakPosition),
	})
	if err == nil {
		return nil
	}
	faults, ok := errors.AsType[validator.ValidationErrors](err)
	if !ok || len(faults) == 0 {
		return &Invalid{Offset: -1, Reason: err.Error()}
	}
	s := slotOf(faults[0].Field())
	inv := &Invalid{Member: members[s], Offset: d.at[s], Reason: "missing"}
	if check := d.v.checks[faults[0].Tag()]; check != nil {
		inv.Reason = check(d.values[s])
	}
	return inv
}

// shown is an identity member if it can be shown as it is, else "".
func (d *decoding) shown(s slot) string {
	v := d.values[s]
	if len(v) > 255 || strings.ContainsRune(v, utf8.RuneError) || printable(v, 255) != v {
		return ""
	}
	return v
}

// show makes a member name of the record fit for a message.
func show(name string) string {
	if len(name) <= maxShown && word(name, "_.-") == "" && name != "" {
		return name
	}
	if len(name) > maxShown {
		name = strings.ToValidUTF8(name[:maxShown], "") + "…"
	}
	return strconv.Quote(name)
}

// printable escapes what would break a line or drive a terminal.
func printable(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindFalse, jsontext.KindTrue:
		return "true or false"
	case jsontext.KindNumber:
		return "number"
	case jsontext.KindString:
		return "text"
	case jsontext.KindBeginObject:
		return "object"
	case jsontext.KindBeginArray:
		return "array"
	}
	return "nothing"
}

// invalidUTF8 is the offset of the first byte that is not UTF-8.
func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}
