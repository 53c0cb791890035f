package envelope

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	maxDepth   = 32 // only members that are ignored may nest at all beyond the payload
	maxMembers = 64
)

var errDepth = fmt.Errorf("nested deeper than %d", maxDepth)

// decoding is the work on one record.
type decoding struct {
	v      *Validator
	raw    []byte
	src    bytes.Buffer
	dec    *jsontext.Decoder
	text   []byte // scratch for unquoting
	values [slots]string
	at     [slots]int64 // offset of the value, -1 if absent
	body   []byte
	fault  *Invalid // the first fault; reading goes on to find the identity
}

var pool = sync.Pool{New: func() any { return &decoding{dec: jsontext.NewDecoder(new(bytes.Buffer))} }}

// Decode checks one record and returns its parts, which share raw's memory: raw
// must not be changed while the record is in use. The error is an *Invalid.
// The first fault is named, but one that makes the record no JSON goes first.
func (v *Validator) Decode(raw []byte) (Record, error) {
	d := pool.Get().(*decoding)
	defer d.release()
	d.v, d.raw = v, raw
	for i := range d.at {
		d.at[i] = -1
	}
	if err := d.decode(); err != nil {
		err.SpotID, err.Key = d.shown(spotID), d.shown(key)
		return Record{}, err
	}
	return Record{
		SpotID: d.values[spotID], Key: d.values[key],
		Market: d.values[market], Station: d.values[station], AirDate: d.values[airDate],
		Body: d.body, Raw: raw,
	}, nil
}

func (d *decoding) release() {
	d.src = bytes.Buffer{}
	d.dec.Reset(&d.src)
	*d = decoding{dec: d.dec, text: d.text[:0]}
	pool.Put(d)
}

func (d *decoding) decode() *Invalid {
	if len(d.raw) > MaxRecord {
		return &Invalid{Offset: MaxRecord, Reason: fmt.Sprintf("%d bytes, at most %d allowed", len(d.raw), MaxRecord)}
	}
	if !utf8.Valid(d.raw) {
		at := invalidUTF8(d.raw)
		d.read(jsontext.AllowInvalidUTF8(true)) // for the identity alone
		return &Invalid{Offset: int64(at), Reason: fmt.Sprintf("not UTF-8 at byte %d (0x%02X)", at, d.raw[at])}
	}
	if err := d.read(); err != nil {
		return d.syntax(err)
	}
	if d.fault != nil {
		return d.fault
	}
	return d.rules()
}

// read walks over the record once. Its error means that the record is no JSON;
// other faults are in d.fault.
func (d *decoding) read(opts ...jsontext.Options) error {
	d.src = *bytes.NewBuffer(d.raw)
	d.dec.Reset(&d.src, opts...)
	if k := d.dec.PeekKind(); k != jsontext.KindBeginObject {
		if err := d.skip(); err != nil {
			return err
		}
		d.blame("", 0, "must be an object, found "+kindName(k))
	} else if err := d.object(); err != nil {
		return err
	}
	end := d.dec.InputOffset()
	if rest := bytes.TrimLeft(d.raw[end:], " \t\r\n"); len(rest) > 0 {
		at := len(d.raw) - len(rest)
		return &jsontext.SyntacticError{ByteOffset: int64(at), Err: errors.New("more text after the record")}
	}
	return nil
}

func (d *decoding) object() error {
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	payload := false
	for d.dec.PeekKind() != jsontext.KindEndObject {
		q, err := d.dec.ReadValue()
		if err != nil {
			return err
		}
		nameAt := d.dec.InputOffset() - int64(len(q))
		var s slot
		switch string(d.unquote(q)) {
		case "payload":
			payload = true
			if err := d.payload(); err != nil {
				return err
			}
			continue
		case "spot_id":
			s = spotID
		case "idempotency_key":
			s = key
		case "market":
			s = market
		case "station":
			s = station
		case "air_date":
			s = airDate
		default:
			if !d.v.rules.IgnoreExtra {
				d.blame("", nameAt, "unknown member "+show(string(d.unquote(q))))
			}
			if err := d.skip(); err != nil {
				return err
			}
			continue
		}
		if err := d.member(s, members[s]); err != nil {
			return err
		}
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	if !payload {
		d.blame("payload", -1, "missing")
	}
	return nil
}

// member reads a text into its slot.
func (d *decoding) member(s slot, name string) error {
	text, at, err := d.value(func() string { return name })
	if err == nil && at >= 0 {
		d.values[s], d.at[s] = string(text), at
	}
	return err
}

// value reads a text; at is -1 if there was another kind of value, which is
// blamed on the member.
func (d *decoding) value(member func() string) (text []byte, at int64, err error) {
	if k := d.dec.PeekKind(); k != jsontext.KindString {
		start := d.next()
		if err := d.skip(); err != nil {
			return nil, -1, err
		}
		d.blame(member(), start, "must be text, found "+kindName(k))
		return nil, -1, nil
	}
	q, err := d.dec.ReadValue()
	if err != nil {
		return nil, -1, err
	}
	return d.unquote(q), d.dec.InputOffset() - int64(len(q)), nil
}

func (d *decoding) payload() error {
	if k := d.dec.PeekKind(); k != jsontext.KindBeginObject {
		start := d.next()
		if err := d.skip(); err != nil {
			return err
		}
		d.blame("payload", start, "must be an object of texts, found "+kindName(k))
		return nil
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	start := d.dec.InputOffset() - 1
	n := 0
	for ; d.dec.PeekKind() != jsontext.KindEndObject; n++ {
		q, err := d.dec.ReadValue()
		if err != nil {
			return err
		}
		nameAt := d.dec.InputOffset() - int64(len(q))
		raw := d.raw[nameAt : nameAt+int64(len(q))]
		name := d.unquote(q)
		if why := checkName(name); why != "" {
			d.blame("payload", nameAt, why)
		}
		s := payloadSlot(name)
		// The name is made only for a fault: most values have none.
		member := func() string { return "payload." + show(string(d.unquote(raw))) }
		text, at, err := d.value(member)
		if err != nil {
			return err
		}
		if at < 0 {
			continue
		}
		if why := checkText(text); why != "" {
			text = bytes.Clone(text) // member uses the scratch buffer
			d.blame(member(), at, why)
		}
		if s >= 0 {
			d.values[s], d.at[s] = string(text), at
		}
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	d.body = d.raw[start:d.dec.InputOffset():d.dec.InputOffset()]
	switch {
	case n == 0:
		d.blame("payload", start, "must not be empty")
	case n > maxMembers:
		d.blame("payload", start, fmt.Sprintf("%d members, at most %d allowed", n, maxMembers))
	}
	return nil
}

func payloadSlot(name []byte) slot {
	switch string(name) {
	case "house_number":
		return houseNumber
	case "ad_id":
		return adID
	case "air_time":
		return airTime
	case "duration":
		return duration
	case "break_number":
		return breakNumber
	case "break_position":
		return breakPosition
	}
	return -1
}

// skip passes over one value, token by token so that depth is bounded.
func (d *decoding) skip() error {
	base := d.dec.StackDepth()
	for {
		if _, err := d.dec.ReadToken(); err != nil {
			return err
		}
		switch depth := d.dec.StackDepth(); {
		case depth > maxDepth:
			return &jsontext.SyntacticError{ByteOffset: d.dec.InputOffset(), Err: errDepth}
		case depth <= base:
			return nil
		}
	}
}

// next is the offset of the value that follows a colon.
func (d *decoding) next() int64 {
	at := int(d.dec.InputOffset())
	for at < len(d.raw) && strings.IndexByte(" \t\r\n:,", d.raw[at]) >= 0 {
		at++
	}
	return int64(at)
}

// unquote returns the text of a valid JSON string, good until the next call.
func (d *decoding) unquote(q []byte) []byte {
	if bytes.IndexByte(q, '\\') < 0 && len(q) >= 2 {
		return q[1 : len(q)-1]
	}
	d.text, _ = jsontext.AppendUnquote(d.text[:0], q)
	return d.text
}

func (d *decoding) blame(member string, at int64, why string) {
	if d.fault == nil {
		d.fault = &Invalid{Member: member, Offset: at, Reason: why}
	}
}
