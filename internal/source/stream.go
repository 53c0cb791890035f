package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// maxWindow bounds what a zstd frame may ask for: 8 MiB is what every level up
// to 19 needs, 32 MiB what --ultra needs without --long.
const maxWindow = 32 << 20

// kinds are contents that are no text, by their first bytes.
var kinds = []struct {
	magic string
	name  string
	hint  string
}{
	{"\x1f\x8b\x08", "gzip", ""},
	{"\x28\xb5\x2f\xfd", "zstd", ""},
	{"BZh", "bzip2", "bunzip2"},
	{"\xfd7zXZ\x00", "xz", "unxz"},
	{"PK\x03\x04", "zip", "unzip"},
	{"\x1f\x9d", "compress (.Z)", "uncompress"},
}

func kindOf(head []byte) int {
	for i, k := range kinds {
		if bytes.HasPrefix(head, []byte(k.magic)) {
			return i
		}
	}
	if len(head) >= 4 && head[0]&0xf0 == 0x50 && string(head[1:4]) == "\x2a\x4d\x18" {
		return 1 // zstd may begin with a skippable frame (RFC 8878 section 3.1.2)
	}
	return -1
}

// decompress tells the container by its first bytes, whatever the name says.
func decompress(src *bufio.Reader) (plain io.Reader, stop func(), err error) {
	stop = func() {}
	head, err := src.Peek(8)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	if len(head) == 0 {
		return nil, nil, &FileError{Reason: "empty: no bytes", Err: ErrEmpty}
	}
	switch k := kindOf(head); k {
	case -1:
		return src, stop, nil
	case 0:
		plain = &members{src: src}
	case 1:
		z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, err
		}
		plain, stop = compressed{z}, z.Close
	default:
		return nil, nil, refused("unpack it first: "+kinds[k].hint, "is %s, not text", kinds[k].name)
	}
	inner := bufio.NewReaderSize(plain, 1<<16)
	head, _ = inner.Peek(8) // an error comes again when it is reached
	if k := kindOf(head); k >= 0 {
		stop()
		return nil, nil, refused("unpack it first", "is packed twice: %s inside", kinds[k].name)
	}
	return inner, stop, nil
}

// compressed gives zstd's errors one wording.
type compressed struct{ r io.Reader }

func (c compressed) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	switch {
	case err == nil, err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		return n, err
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return n, refused("pack it again without --long", "zstd window larger than %d MiB", maxWindow>>20)
	}
	return n, fmt.Errorf("zstd: %w", err)
}

// members reads gzip (RFC 1952) with all its members. Zeros behind a member are
// padding of tapes and blocks; anything else there is an error, after all data.
type members struct {
	src *bufio.Reader // a ByteReader, so that gzip takes no byte of the next member
	z   *gzip.Reader
	err error
}

func (m *members) Read(p []byte) (int, error) {
	for m.err == nil {
		if m.z == nil {
			if m.z, m.err = gzip.NewReader(m.src); m.err != nil {
				m.err = gzipError(m.err, true)
				break
			}
			m.z.Multistream(false)
		}
		n, err := m.z.Read(p)
		if err == io.EOF {
			m.err = m.more()
		} else if err != nil {
			m.err = gzipError(err, false)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, m.err
}

// more goes on to the next member.
func (m *members) more() error {
	for {
		b, err := m.src.ReadByte()
		if err != nil {
			return err
		}
		if b != 0 {
			break
		}
	}
	m.src.UnreadByte()
	if head, _ := m.src.Peek(3); len(head) < 3 && head[0] == 0x1f {
		return io.ErrUnexpectedEOF
	} else if kindOf(head) != 0 {
		return refused("", "data behind the gzip stream is not gzip")
	}
	if err := m.z.Reset(m.src); err != nil {
		return gzipError(err, true)
	}
	m.z.Multistream(false)
	return nil
}

func gzipError(err error, header bool) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || header && err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("gzip: %w", err)
}

// decodeText strips the byte order mark and makes UTF-8 of UTF-16.
func decodeText(r io.Reader) (io.Reader, error) {
	br, ok := r.(*bufio.Reader)
	if !ok {
		br = bufio.NewReaderSize(r, 1<<16)
	}
	head, _ := br.Peek(4)
	has := func(prefix string) bool { return bytes.HasPrefix(head, []byte(prefix)) }
	zero := func(i int) bool { return head[i] == 0 }
	switch {
	case has("\xef\xbb\xbf"):
		return br, nil // stripped with those at line starts
	case has("\xff\xfe\x00\x00"), has("\x00\x00\xfe\xff"):
		return nil, refused("convert it: iconv -f UTF-32 -t UTF-8", "is UTF-32, not UTF-8")
	case has("\xff\xfe"), has("\xfe\xff"):
		dec := unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM).NewDecoder()
		return transform.NewReader(br, dec), nil
	case len(head) == 4 && (zero(0) && !zero(1) && zero(2) && !zero(3)):
		return nil, refused("convert it: iconv -f UTF-16BE -t UTF-8", "is UTF-16 without a byte order mark")
	case len(head) == 4 && (!zero(0) && zero(1) && !zero(2) && zero(3)):
		return nil, refused("convert it: iconv -f UTF-16LE -t UTF-8", "is UTF-16 without a byte order mark")
	}
	return br, nil
}
