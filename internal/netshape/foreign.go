package netshape

import (
	"fmt"
	"strings"

	"trafficup/internal/tc"
)

// String is for people.
func (f foreign) String() string {
	words, _ := f.words()
	return strings.TrimSpace(fmt.Sprintf("%s %x: %s", f.Kind, f.Handle>>16, words))
}

// words are the options as they are given to tc. ok is false where these are not all
// there is to it.
func (f foreign) words() (words string, ok bool) {
	o, ok := tc.Options(f.Kind, f.Raw)
	switch o := o.(type) {
	case tc.Cake:
		return strings.Join(cakeWords(o), " "), ok && o.ATM == tc.NoATM && o.FwMark == 0
	case tc.FqCodel:
		list := leafWords(o)
		if !o.ECN {
			list = append(list, "noecn")
		}
		return strings.Join(list, " "), ok
	case tc.TBF:
		words = fmt.Sprintf("rate %s burst %d limit %d", FormatRate(o.Rate), o.Burst, o.Limit)
		if o.Peak > 0 {
			words += fmt.Sprintf(" peakrate %s mtu %d", FormatRate(o.Peak), o.MTU)
		}
		if !ok {
			words = ""
		}
		return words, ok
	case tc.FIFO:
		return fmt.Sprintf("limit %d", o.Limit), ok
	}
	return "", ok && !f.Classes
}

// commands are what a person would type to put f back. There are none where tc's words
// do not say all of it.
func (f foreign) commands(dev string) []string {
	words, ok := f.words()
	if !ok {
		return nil
	}
	return []string{strings.TrimSpace(fmt.Sprintf("tc qdisc replace dev %s root handle %x: %s %s", dev, f.Handle>>16, f.Kind, words))}
}
