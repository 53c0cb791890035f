package netshape

import (
	"encoding/hex"
	"strings"
	"testing"

	"trafficup/internal/tc"
)

// The commands for others' queues can be pasted, or there are none.
func TestForeignCommands(t *testing.T) {
	tbf, err := hex.DecodeString("28000100" + "00010000" + "00000000" + "68890900" + strings.Repeat("0", 24) + "c0c10000" + "00e80300" + "00000000")
	if err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]foreign{
		"tc qdisc replace dev eth1 root handle 8003: tbf rate 5mbit burst 10240 limit 49600": {Kind: "tbf", Raw: tbf},
		"tc qdisc replace dev eth1 root handle 8003: pfifo limit 1000":                       {Kind: "pfifo", Raw: []byte{0xe8, 3, 0, 0}},
		"tc qdisc replace dev eth1 root handle 8003: pfifo_fast":                             {Kind: "pfifo_fast"},
		"": {Kind: "sfq", Raw: tbf},
	} {
		f.Handle = 0x8003 << 16
		if got := strings.Join(f.commands("eth1"), "\n"); got != want {
			t.Errorf("%s: %s, want %s", f.Kind, got, want)
		}
	}
	if text := (stand{Foreign: foreign{Kind: "tbf", Handle: 0x8003 << 16, Raw: tbf}}).String(); !strings.HasPrefix(text, "tbf 8003: rate 5mbit") {
		t.Error(text)
	}
	if f := (foreign{Kind: "htb", Classes: true}); f.commands("eth1") != nil || f.String() != "htb 0:" {
		t.Error(f)
	}
	if _, ok := tc.Options("tbf", tbf[:20]); ok {
		t.Error("half of a tbf")
	}
}
