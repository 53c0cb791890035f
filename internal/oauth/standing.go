package oauth

import "time"

// standing is how one path of the API stands to the tokens it was shown.
type standing struct {
	passed  uint64    // the generation it did not refuse last
	took    uint64    // the generation with which it took a record last
	at      time.Time // when it took that
	refused uint64    // the generation it refused last
}

// standings tells the fault of a token from that of a path. A token that one path
// takes is good; the path that refuses it would refuse the next as well, and each
// next one takes the place of the token that the others are taking.
type standings map[string]standing

func (s standings) accept(path string, generation uint64, took bool, now time.Time) {
	p := s[path]
	p.passed = generation
	if took {
		p.took, p.at = generation, now
	}
	s[path] = p
}

// refuse notes a refusal. It returns whether another path takes the token: it took
// a record with it, or with the one before, not longer than fresh ago, and has not
// refused it since. A path that took this very token itself is believed: the
// token has ended in between.
func (s standings) refuse(path string, generation uint64, fresh time.Duration, now time.Time) bool {
	if s == nil {
		return false // no path has taken anything
	}
	mine := s[path]
	mine.refused = generation
	s[path] = mine
	if mine.took == generation {
		return false
	}
	for name, p := range s {
		if name != path && p.took > 0 && p.took+1 >= generation && p.refused < generation && now.Sub(p.at) < fresh {
			return true
		}
	}
	return false
}
