package nightgen

import (
	"bytes"
	"compress/gzip"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// ExpectedPath is the file that holds the [Counts] of the night in dir: beside
// it, so that the directory holds logs and nothing else.
func ExpectedPath(dir string) string { return filepath.Clean(dir) + ".expected.json" }

// Write makes the directory if need be and writes the files of a night and
// their counts beside it. Other files there are left alone.
func Write(dir string, c Config) (Counts, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Counts{}, fmt.Errorf("write night: %w", err)
	}
	var total Counts
	for f := range Files(c) {
		data, err := f.Packed()
		if err != nil {
			return Counts{}, fmt.Errorf("compress %s: %w", f.Name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name), data, 0o644); err != nil {
			return Counts{}, fmt.Errorf("write night: %w", err)
		}
		total.add(f.Counts)
	}
	data, err := json.Marshal(total, jsontext.WithIndent("  "))
	if err != nil {
		return Counts{}, err
	}
	if err := os.WriteFile(ExpectedPath(dir), append(data, '\n'), 0o644); err != nil {
		return Counts{}, fmt.Errorf("write night: %w", err)
	}
	return total, nil
}

// Packed returns the content as it is stored. The gzip header carries neither
// a name nor a time.
func (f File) Packed() ([]byte, error) {
	var (
		b   bytes.Buffer
		w   io.WriteCloser
		err error
	)
	switch f.Pack {
	case Gzip:
		w, err = gzip.NewWriterLevel(&b, gzip.BestCompression)
	case Zstd:
		w, err = zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	default:
		return f.Content, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(f.Content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
