// Package envelope decides whether the bytes of one record are an envelope
// that may be sent, and finds its identity and its body in them.
//
// The rules are those of the envelope's JSON Schema and five that a schema
// cannot state: valid UTF-8 before decoding, no repeated member at any depth,
// exact names, nothing after the value, a real calendar date. A body is never
// decoded and encoded again: what is sent is what was read, byte for byte.
package envelope

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/go-playground/validator/v10"
)

// MaxRecord is the size in bytes of the largest record.
const MaxRecord = 1 << 20

// Record is a valid envelope. Market, Station and AirDate are empty where the
// record does not have them.
type Record struct {
	SpotID, Key, Market, Station, AirDate string

	Body []byte // the exact bytes of the payload, a part of Raw
	Raw  []byte // the exact bytes that were decoded, not a copy
}

// Rules are the parts of the rules that a station group may set. The zero value
// is usable.
type Rules struct {
	IgnoreExtra bool              // let unknown top-level members pass; they are not looked into
	Require     []string          // optional members that must be there: market, station, air_date
	Fields      map[string]string // payload member -> required, checked (default) or off
}

// Invalid says why a record is no valid envelope. Its texts are printable and
// fit on one line, whatever the record holds.
type Invalid struct {
	SpotID, Key string // as far as they could be read; printable
	Member      string // "payload.house_number"; "" for the record as a whole
	Offset      int64  // of the fault, in bytes from the record's start; -1 unknown
	Reason      string
}

func (e *Invalid) Error() string {
	if e.Member == "" {
		return e.Reason
	}
	return e.Member + ": " + e.Reason
}

// form is what the field rules look at. A nil member is absent, which is not
// the same as empty.
type form struct {
	SpotID        *string `member:"spot_id"`
	Key           *string `member:"idempotency_key"`
	Market        *string `member:"market"`
	Station       *string `member:"station"`
	AirDate       *string `member:"air_date"`
	HouseNumber   *string `member:"payload.house_number"`
	AdID          *string `member:"payload.ad_id"`
	AirTime       *string `member:"payload.air_time"`
	Duration      *string `member:"payload.duration"`
	BreakNumber   *string `member:"payload.break_number"`
	BreakPosition *string `member:"payload.break_position"`
}

// slot numbers the members of form, in its order.
type slot int

const (
	spotID slot = iota
	key
	market
	station
	airDate
	houseNumber
	adID
	airTime
	duration
	breakNumber
	breakPosition
	slots
)

// members names the slots as form does.
var members = func() (m [slots]string) {
	t := reflect.TypeFor[form]()
	for i := range m {
		m[i] = t.Field(i).Tag.Get("member")
	}
	return m
}()

// Validator checks records by one set of rules. Safe for concurrent use.
type Validator struct {
	rules  Rules
	struc  *validator.Validate
	checks map[string]check // by tag
}

// NewValidator returns a validator, or an error that names the member or mode
// that does not exist.
func NewValidator(r Rules) (*Validator, error) {
	modes := map[string]string{"spot_id": "required", "idempotency_key": "required"}
	for _, name := range r.Require {
		switch name {
		case "market", "station", "air_date", "spot_id", "idempotency_key":
			modes[name] = "required"
		default:
			return nil, fmt.Errorf("require: %q is no optional member: market, station, air_date", name)
		}
	}
	for name, mode := range r.Fields {
		if slotOf("payload."+name) < 0 {
			return nil, fmt.Errorf("fields: no rule is known for %q", name)
		}
		switch mode {
		case "required", "checked", "off":
			modes["payload."+name] = mode
		case "":
		default:
			return nil, fmt.Errorf("fields: %s is %q, not required, checked or off", name, mode)
		}
	}

	v := &Validator{rules: r, struc: validator.New(), checks: map[string]check{}}
	v.struc.RegisterTagNameFunc(func(f reflect.StructField) string { return f.Tag.Get("member") })
	rules := map[string]string{}
	t := reflect.TypeFor[form]()
	for i, member := range members {
		tag := strings.TrimPrefix(member, "payload.")
		check := slotChecks[i]
		v.checks[tag] = check
		err := v.struc.RegisterValidation(tag, func(fl validator.FieldLevel) bool {
			return check(fl.Field().String()) == ""
		})
		if err != nil {
			return nil, fmt.Errorf("register rule %s: %w", tag, err)
		}
		switch modes[member] {
		case "required":
			rules[t.Field(i).Name] = "required," + tag
		case "off":
			rules[t.Field(i).Name] = "-"
		default:
			rules[t.Field(i).Name] = "omitnil," + tag
		}
	}
	v.struc.RegisterStructValidationMapRules(rules, form{})
	return v, nil
}

// slotOf returns the slot of a member, -1 for others.
func slotOf(member string) slot {
	for i, m := range members {
		if m == member {
			return slot(i)
		}
	}
	return -1
}

// DeriveKey makes the idempotency key of a record from a format without keys:
// "tu1-" and the first 32 characters of the lower-case base32 (RFC 4648
// section 6, no padding) of the SHA-256 over station, air date, spot id and body,
// each preceded by its length as 8 bytes, big-endian.
func DeriveKey(station, airDate, spotID string, body []byte) string {
	h := sha256.New()
	part := func(n int, write func()) {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(n))
		h.Write(size[:])
		write()
	}
	for _, s := range []string{station, airDate, spotID} {
		part(len(s), func() { io.WriteString(h, s) })
	}
	part(len(body), func() { h.Write(body) })
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
	return "tu1-" + strings.ToLower(text)[:32]
}
