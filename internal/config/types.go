package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Concurrency is how many requests may be in flight; 0 is auto.
type Concurrency int

// Auto tells that the number is to be found out.
func (c Concurrency) Auto() bool { return c == 0 }

func (c *Concurrency) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if string(text) == "auto" {
		n, err = 0, nil
	} else if n == 0 {
		err = errors.New("0")
	}
	if err != nil {
		return errors.New("write auto, or a number from 1 to 1024")
	}
	*c = Concurrency(n)
	return nil
}

func (c Concurrency) MarshalText() ([]byte, error) {
	if c.Auto() {
		return []byte("auto"), nil
	}
	return strconv.AppendInt(nil, int64(c), 10), nil
}

// Clock is a time of day, HH:MM, where a zone may follow. In a file it stands
// in quotes: YAML has more than one opinion on what 02:00 is.
type Clock string

var (
	clock   = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]( .*)?$|^24:00$`)
	numeric = regexp.MustCompile(`^[0-9:._+-]+$`) // what some reader of YAML takes for a number or a time
)

func (c *Clock) UnmarshalText(text []byte) error {
	if len(text) > 0 && !clock.Match(text) {
		return errors.New(`write HH:MM, such as "02:00"`)
	}
	*c = Clock(text)
	return nil
}

func (c Clock) MarshalText() ([]byte, error) { return []byte(c), nil }

// Share is a part of one, written as a percentage. Set tells that it was given.
type Share struct {
	Part float64 // 0 to 1
	Set  bool
}

func (s *Share) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*s = Share{}
		return nil
	}
	number, percent := strings.CutSuffix(string(text), "%")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !percent || err != nil || math.IsNaN(n) || n < 0 || n > 100 {
		return errors.New("write a percentage such as 0.1%, at most 100%")
	}
	*s = Share{n / 100, true}
	return nil
}

func (s Share) MarshalText() ([]byte, error) {
	if !s.Set {
		return nil, nil
	}
	return append(strconv.AppendFloat(nil, s.Part*100, 'g', 12, 64), '%'), nil
}

// Size is a number of bytes, written with its unit.
type Size int64

// units are the powers of a thousand, and those of 1024.
var units = []struct {
	name string
	size float64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
}

func (s *Size) UnmarshalText(text []byte) error {
	for _, u := range units {
		if number, ok := strings.CutSuffix(string(text), u.name); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err == nil && n >= 0 && n*u.size < math.MaxInt64 {
				*s = Size(n * u.size)
				return nil
			}
			break
		}
	}
	return errors.New("write a size with its unit, such as 500kB, 50MB or 1GiB")
}

func (s Size) MarshalText() ([]byte, error) {
	for _, u := range units {
		if n := float64(s) / u.size; n >= 1 && n == math.Trunc(n) {
			return append(strconv.AppendFloat(nil, n, 'f', -1, 64), u.name...), nil
		}
	}
	return []byte("0B"), nil
}

// Quota is a part of the requests or a number of their bytes; the zero Quota
// is none.
type Quota struct {
	Bytes Size
	Share Share
}

func (q *Quota) UnmarshalText(text []byte) (err error) {
	var read Quota
	switch {
	case len(text) == 0:
	case text[len(text)-1] == '%':
		err = read.Share.UnmarshalText(text)
	default:
		err = read.Bytes.UnmarshalText(text)
	}
	switch {
	case err != nil:
		return errors.New("write 50MB (bytes of requests) or 5% (of the requests)")
	case len(text) > 0 && read.Bytes == 0 && read.Share.Part == 0:
		return errors.New("that is nothing at all: leave the path out instead")
	}
	*q = read
	return nil
}

func (q Quota) MarshalText() ([]byte, error) {
	if q.Share.Set {
		return q.Share.MarshalText()
	}
	if q.Bytes == 0 {
		return nil, nil
	}
	return q.Bytes.MarshalText()
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	clockType    = reflect.TypeFor[Clock]()
)

// ParseDuration reads what [time.ParseDuration] does, and days. The error says what
// would be right.
func ParseDuration(s string) (time.Duration, error) {
	if number, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseFloat(number, 64); err == nil && math.Abs(n) < 1e5 {
			return time.Duration(n * 24 * float64(time.Hour)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err == nil {
		return d, nil
	}
	if _, ferr := strconv.ParseFloat(s, 64); ferr == nil {
		return 0, fmt.Errorf("has no unit: write %sms, %ss or %sm", s, s, s)
	}
	return 0, errors.New("write a duration such as 500ms, 20s, 5m or 30d")
}

// FormatDuration writes d as it is read: without the 0s that Go puts behind it.
func FormatDuration(d time.Duration) string {
	if day := 24 * time.Hour; d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// parseScalar sets v, which is no list, map or section, from text. The error
// says what would be right.
func parseScalar(v reflect.Value, text string) error {
	text = strings.TrimSpace(text)
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch {
	case v.Type() == durationType:
		d, err := ParseDuration(text)
		if err == nil {
			v.SetInt(int64(d))
		}
		return err
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("write a whole number")
		}
		v.SetInt(int64(n))
	case v.Kind() == reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return errors.New("write a number such as 0.5")
		}
		v.SetFloat(n)
	case v.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return errors.New("write true or false")
		}
		v.SetBool(text == "true")
	default:
		panic("config: no way to read a " + v.Type().String())
	}
	return nil
}

// formatScalar writes v as parseScalar reads it.
func formatScalar(v reflect.Value) string {
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, _ := m.MarshalText() // these types cannot fail
		return string(text)
	}
	if v.Type() == durationType {
		return FormatDuration(time.Duration(v.Int()))
	}
	return fmt.Sprint(v.Interface())
}
