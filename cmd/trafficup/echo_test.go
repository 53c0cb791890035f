package main

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server that repeats the login, as it is or escaped, in its answer or in an
// address, does not bring it into what is printed or kept.
func TestLoginIsNotRepeated(t *testing.T) {
	const token = "CANARY/and&more"
	escaped := strings.NewReplacer("/", `\/`, "&", `\u0026`).Replace(token)
	js := "application/json"
	for name, tc := range map[string]struct {
		answer string
		code   int
	}{
		"a detail":     {answered("403 No", js, `{"detail":"bad login Bearer `+escaped+`"}`), exitPerson},
		"any member":   {answered("422 No", js, `{"seen":"Bearer `+escaped+`"}`), exitPerson},
		"one cut off":  {answered("422 No", "text/plain", strings.Repeat("x", 190)+token), exitPerson},
		"a receipt":    {answered("201 Created", js, `{"id":"`+escaped+`"}`), exitOK},
		"a redirect":   {"HTTP/1.1 307 Moved\r\nLocation: /login/" + token + "\r\nContent-Length: 0\r\n\r\n", exitUsage},
		"an encoded":   {"HTTP/1.1 307 Moved\r\nLocation: /login/" + url.PathEscape(token) + "\r\nContent-Length: 0\r\n\r\n", exitUsage},
		"no HTTP":      {"login " + token + " unknown\r\n\r\n", exitWaiting},
		"an odd value": {"HTTP/1.1 200 OK\r\nContent-Length: " + token + "\r\n\r\n", exitWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newLiar(t, answers(always(tc.answer)))
			d := lying{
				url: api.url(), records: 2, args: []string{"--max-attempts", "2"},
				env: map[string]string{"TRAFFICUP_API_AUTH_TOKEN": token},
			}.upload(t)
			if d.ExitCode != tc.code {
				t.Errorf("exit %d, want %d\n%s%s", d.ExitCode, tc.code, d.stdout, d.stderr)
			}
			told := map[string]string{"stdout": d.stdout, "stderr": d.stderr}
			err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				text, err := os.ReadFile(path)
				told[path] = string(text)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for where, text := range told {
				if strings.Contains(text, "CANARY") {
					t.Errorf("%s repeats the login:\n%s", where, text)
				}
			}
		})
	}
}
