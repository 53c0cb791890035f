package sandbox

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestSyntaxErrors(t *testing.T) {
	for _, tt := range []struct{ line, got, want string }{
		{"anser 503", `"anser"`, "a statement: seed"},
		{"answer", "the line ends", "300 to 599"},
		{"answer 200", `"200"`, "what happens anyway"},
		{"answer 503 for 2%", "the line ends", "of calls"},
		{"answer 503 for 200% of calls", `"200%"`, "up to 100%"},
		{"answer 503 for 3 calls", "the line ends", "then 200"},
		{"answer 503 retry after 1500ms", `"1.5s"`, "whole seconds"},
		{"answer 503 retry after 5", `"5"`, "with a unit"},
		{"answer 503 jitter 5s", `"jitter"`, `"retry after 1s"`},
		{"answer 503 as Hello!", `"hello!"`, "letters, digits"},
		{"answer 503 retry after 1s retry after 2s", `"retry"`, "each once"},
		{"reject 503", `"503"`, "400 to 499"},
		{"lose 1% of sleep", `"sleep"`, `"calls"`},
		{"lose some", `"some"`, "a share"},
		{"hold 1% of answers", "the line ends", "how long"},
		{"limit 200", "the line ends", "per second"},
		{"limit 0 per second", `"0"`, "from 1"},
		{"limit 5 per fortnight", `"fortnight"`, "minute"},
		{"delay 230", `"230"`, "with a unit"},
		{"delay -1s", `"-1s"`, "with a unit"},
		{"from 25s to 10s: portal", `"10s"`, "later than 25s"},
		{"from 5s portal", `"portal"`, `":"`},
		{"after some calls: answer 401", `"some"`, "a number of calls"},
		{"after 5: answer 401", `":"`, `"calls"`},
		{"each record: ", "the line ends", "steps"},
		{"each record 503", `"record"`, "each record:"},
		{"each record: 503, 99", `"99"`, "steps such as"},
		{"seed many", `"many"`, "whole number"},
		{"seed 1 2", `"2"`, "end of the line"},
	} {
		_, err := ParseScenario([]byte("# a story\n" + tt.line))
		syntax, ok := errors.AsType[*SyntaxError](err)
		if !ok || !errors.Is(err, ErrScenario) || syntax.Line != 2 ||
			!strings.Contains(err.Error(), tt.got) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n\t%v\n\twant %s … %s", tt.line, err, tt.got, tt.want)
		}
	}
	_, err := ParseScenario([]byte("seed 1\nfoo\n\nbar"))
	if err == nil || !strings.Contains(err.Error(), "line 2") || !strings.Contains(err.Error(), "line 4") {
		t.Errorf("not every wrong line is named: %v", err)
	}
}

const everything = `
# the night the satellite modem rebooted
seed 7
forget keys
answer 503 for 2% of calls
Answer 503 for 1 call, then 200
each record: 503, lose, reset, portal, 200 retry after 2s
lose 1% of answers until 20s
reset 0.5% of calls
hold 1% of answers for 12s
limit 200 per second, burst 50, retry after 1s
limit 100 per minute, burst 5, published, retry after 2s
limit 10 per minute
from 10s to 25s: answer 503 retry after 5s   # the modem
after 100 calls: answer 401
for the first 3 calls: answer 409 as in-progress
delay 230ms jitter 20ms
portal from 5s to 8s
reject 422 for 1% of records
`

func FuzzParseScenario(f *testing.F) {
	f.Add(everything)
	for line := range strings.Lines(everything) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScenario([]byte(text))
		if err != nil {
			if !errors.Is(err, ErrScenario) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		again, err := ParseScenario([]byte(s.String()))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("canonical form\n%s\nparses to %+v (%v), want %+v", s, again, err, s)
		}
		srv := New(s)
		for range 3 {
			srv.decide(call{key: "k", attempt: 1, number: 1}) // must not panic
		}
	})
}
