package dscpmark

import "testing"

func TestTagsAreReadBack(t *testing.T) {
	want := tag{"bulk", 0x100, 3, 20, "0123456789abcdef"}
	data := want.userData()
	if got, ok := parseTag(append([]byte{7, 2, 1, 1}, data...)); !ok || got != want {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, other := range [][]byte{nil, {0}, {0, 9}, {0, 0}, {1, 1, 1}, data[:len(data)-3], tag{}.userData(),
		append([]byte{0, 3}, "hi\x00"...), append([]byte{0, 30}, "bulk 256 3/20 0123456789abcdef"...)} {
		if got, ok := parseTag(other); ok {
			t.Errorf("%q was taken for %+v", other, got)
		}
	}
}

func FuzzParseTag(f *testing.F) {
	f.Add(tag{"bulk", 0x100, 3, 20, "0123456789abcdef"}.userData())
	f.Add([]byte{7, 2, 1, 1, 0, 3, 'h', 'i', 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := parseTag(data)
		if !ok || len(got.String()) > 250 {
			return
		}
		if again, ok := parseTag(got.userData()); !ok || again != got {
			t.Errorf("%+v is read back as %+v, %v", got, again, ok)
		}
	})
}
