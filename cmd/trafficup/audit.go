package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"trafficup/internal/uploader"
)

// auditLog writes one line per event. It is safe for concurrent use. When the
// log cannot be written the upload goes on.
type auditLog struct {
	w      io.Writer
	format string       // audit, json or logfmt
	level  atomic.Int32 // of uploader; what weighs less is left out

	failed func(error) // told once
	mu     sync.Mutex
	broken bool // guarded by mu
}

var levelNames = map[uploader.Level]string{
	uploader.Debug: "INFO", uploader.Info: "INFO", uploader.Warning: "WARNING", uploader.Error: "ERROR", uploader.Critical: "CRITICAL",
}

// levels are the names of the option log.level.
var levels = map[string]uploader.Level{"info": uploader.Debug, "warning": uploader.Warning, "error": uploader.Error, "critical": uploader.Critical}

func (l *auditLog) write(e uploader.Event) {
	if e.Level < uploader.Level(l.level.Load()) {
		return
	}
	fields := auditFields(e)
	message := printable(e.Message)
	if e.Bucket != "" && e.Bucket != uploader.Acked {
		message = string(e.Bucket) + " " + message
	}
	var line []byte
	switch l.format {
	case "json", "logfmt":
		line = structured(l.format, e, message, fields)
	default:
		var b strings.Builder
		fmt.Fprintf(&b, "%s | %s | uploader | %s | %s", e.At.UTC().Format(time.RFC3339), levelNames[e.Level], orDash(printable(e.SpotID)), message)
		for _, a := range fields {
			fmt.Fprintf(&b, " %s=%s", a.Key, a.Value)
		}
		line = append([]byte(b.String()), '\n')
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.w.Write(line); err != nil && !l.broken {
		l.broken = true
		l.failed(err)
	}
}

func auditFields(e uploader.Event) (fields []slog.Attr) {
	if e.Status != 0 {
		fields = append(fields, slog.Int("status", e.Status))
	}
	if e.Wait != 0 {
		fields = append(fields, slog.String("wait", fmt.Sprintf("%.2fs", e.Wait.Seconds())))
	}
	if e.Path != "" {
		fields = append(fields, slog.String("path", printable(e.Path)))
	}
	if e.Attempt != 0 {
		fields = append(fields, slog.Int("attempt", e.Attempt))
	}
	if e.File != "" {
		fields = append(fields, slog.String("at", quoteIfBlank(printable(e.File))+":"+strconv.FormatInt(e.Line, 10)))
	}
	return fields
}

// structured lets slog's own handlers form the line.
func structured(format string, e uploader.Event, message string, fields []slog.Attr) []byte {
	var b bytes.Buffer
	opts := &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.LevelKey {
			a.Value = slog.StringValue(levelNames[e.Level])
		}
		return a
	}}
	var h slog.Handler = slog.NewTextHandler(&b, opts)
	if format == "json" {
		h = slog.NewJSONHandler(&b, opts)
	}
	rec := slog.NewRecord(e.At.UTC(), slog.LevelInfo, message, 0)
	rec.AddAttrs(slog.String("component", "uploader"), slog.String("spot_id", orDash(printable(e.SpotID))))
	rec.AddAttrs(fields...)
	if h.Handle(context.Background(), rec) != nil {
		return nil
	}
	return b.Bytes()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func quoteIfBlank(s string) string {
	if strings.ContainsAny(s, " |=") {
		return strconv.Quote(s)
	}
	return s
}

// printable makes text safe for a terminal and a line of a log: control
// characters, line separators and what reorders text are escaped.
func printable(s string) string {
	safe := true
	for _, r := range s {
		if unsafeRune(r) {
			safe = false
			break
		}
	}
	if safe && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unsafeRune(r):
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}
