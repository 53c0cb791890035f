package nightgen

import (
	"encoding/json/jsontext"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// member is one name and its text.
type member struct{ name, text string }

// record is one spot before it is written in some form. Order is the order of
// writing.
type record struct {
	head    []member // spot_id, idempotency_key, market, station, air_date
	payload []member
}

func (r record) clone() record {
	return record{slices.Clone(r.head), slices.Clone(r.payload)}
}

func (r record) field(name string) *string {
	for _, list := range [][]member{r.head, r.payload} {
		for i := range list {
			if list[i].name == name {
				return &list[i].text
			}
		}
	}
	panic("nightgen: no field " + name)
}

// json returns the record as one JSON object without blanks.
func (r record) json() []byte {
	b := []byte{'{'}
	// Payload stands third, as in the examples of the format.
	for i, m := range r.head {
		if i == 2 {
			b = append(b, `"payload":{`...)
			for j, p := range r.payload {
				b = appendMember(b, p, j < len(r.payload)-1)
			}
			b = append(b, "},"...)
		}
		b = appendMember(b, m, i < len(r.head)-1)
	}
	return append(b, '}')
}

func appendMember(b []byte, m member, more bool) []byte {
	b, _ = jsontext.AppendQuote(b, m.name) // all texts here are valid UTF-8
	b = append(b, ':')
	b, _ = jsontext.AppendQuote(b, m.text)
	if more {
		b = append(b, ',')
	}
	return b
}

// stationLog gives out the spots of one station in the order of airing.
type stationLog struct {
	rng     *rand.Rand
	market  market
	station string
	carts   []int // of spots, so that one cart number always carries one spot
	total   int
	made    int
	breakNo int
	place   int // position inside the break
	length  int // of the break
	at      int // air time of the next spot of the break, in seconds of the day
}

func newStationLog(rng *rand.Rand, m market, station string, total int) *stationLog {
	s := &stationLog{rng: rng, market: m, station: station, total: total, carts: make([]int, len(spots))}
	for i := range s.carts {
		s.carts[i] = 100 + rng.IntN(89_000)
	}
	return s
}

// The broadcast day runs from 05:00:00 to 29:59:59 (the group goes off the air
// late): spots after midnight keep the date of the day. The spots of a break
// follow each other, as they do on air.
const (
	dayStart = 5 * 3600
	dayEnd   = 30*3600 - 1 // seconds
)

func (s *stationLog) next() record {
	if s.place++; s.place > s.length {
		s.breakNo, s.place, s.length = s.breakNo+1, 1, 2+s.rng.IntN(4)
		s.at = max(s.at, dayStart+(dayEnd-dayStart)*(s.made+1)/(s.total+1)+s.rng.IntN(20))
	}
	s.made++
	at := min(s.at, dayEnd)
	which := s.rng.IntN(len(spots))
	sp, seconds := spots[which], []int{15, 30, 30, 30, 60, 10}[s.rng.IntN(6)]
	s.at += seconds
	spotID := s.spotID()
	return record{
		head: []member{
			{"spot_id", spotID},
			{"idempotency_key", s.key(spotID)},
			{"market", s.marketName()},
			{"station", s.station},
			{"air_date", AirDate},
		},
		payload: []member{
			{"house_number", s.house(s.carts[which], sp)},
			{"ad_id", s.adID(s.carts[which], sp)},
			{"title", sp.title},
			{"advertiser", sp.advertiser},
			{"air_time", clock(at)},
			{"duration", s.duration(seconds)},
			{"break_number", fmt.Sprint((s.breakNo-1)%9999 + 1)},
			{"break_position", fmt.Sprintf("%02d", s.place)},
		},
	}
}

func clock(seconds int) string {
	return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}

// marketName is what the traffic system calls the market: its code or its name.
func (s *stationLog) marketName() string {
	if s.market.style%2 == 0 {
		return s.market.code
	}
	return s.market.name
}

// spotID counts from 1 at every station: it is unique only with station and date.
func (s *stationLog) spotID() string {
	switch s.market.style {
	case 0, 1:
		return fmt.Sprintf("SP-2026-0717-%04d", s.made)
	case 2:
		return fmt.Sprintf("%06d", 260_000+s.made)
	default:
		return fmt.Sprintf("L0717.%d", s.made)
	}
}

func (s *stationLog) key(spotID string) string {
	switch s.market.style {
	case 0:
		return fmt.Sprintf("%s:%s:%s", s.station, AirDate, spotID)
	case 1:
		a, b := s.rng.Uint64(), s.rng.Uint64()
		return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0xfff, b&0xffffffffffff)
	case 2:
		return fmt.Sprintf("trf/%s/%s/20260717/%s", s.market.code, s.station, spotID)
	default:
		return fmt.Sprintf("%s.20260717.%s=r0", strings.ToLower(s.station), spotID)
	}
}

func (s *stationLog) house(cart int, sp spot) string {
	switch s.market.style {
	case 0:
		return fmt.Sprintf("%s-%07d", s.station, cart)
	case 1:
		return fmt.Sprintf("%06d", cart) // leading zeros matter
	case 2:
		return fmt.Sprintf("%d-%02d", cart/100, cart%100)
	default:
		return fmt.Sprintf("%s%05d", sp.prefix, cart)
	}
}

// adID is an ISCI code of 8 characters, an Ad-ID of 11, or 12 with a final H.
func (s *stationLog) adID(cart int, sp spot) string {
	switch s.market.style {
	case 0, 1:
		return fmt.Sprintf("%s%07d", sp.prefix, cart)
	case 2:
		return fmt.Sprintf("%s%04d", sp.prefix, cart%10_000)
	default:
		return fmt.Sprintf("%s%07dH", sp.prefix, cart)
	}
}

func (s *stationLog) duration(seconds int) string {
	switch s.market.style {
	case 1:
		return clock(seconds) + ":00"
	case 3:
		if seconds == 60 {
			return "00:01:00;02" // drop frame: labels ;00 and ;01 of minute 1 do not exist
		}
		return clock(seconds) + ";00"
	default:
		return clock(seconds)
	}
}
