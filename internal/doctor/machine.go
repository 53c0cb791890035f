package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"
)

// Zone judges the zone of the machine, of which the times in reports for people
// are. Windows name their own. tz is the value of $TZ.
func Zone(tz string, now time.Time) Finding {
	const what = "time zone"
	if _, err := time.LoadLocation("America/New_York"); err != nil {
		return failed(what, "install tzdata", "there is no time zone database: %v", err)
	}
	name := strings.TrimPrefix(tz, ":")
	_, err := time.LoadLocation(name)
	if filepath.IsAbs(name) {
		var data []byte
		if data, err = os.ReadFile(name); err == nil {
			_, err = time.LoadLocationFromTZData(name, data)
		}
	}
	if err != nil {
		return warning(what, "set it to a name of the database, such as TZ=America/New_York, or unset it", "$TZ is %q, which is no zone; UTC is used", tz)
	}
	return ok(what, "it is %s here", now.Format("15:04 MST (-07:00)"))
}

// Environment is what cron and service managers give a program otherwise than a
// shell does.
type Environment struct {
	Getenv     func(name string) string
	Stdin      *os.File // nil: not of the system
	StateDir   string   // "": none can be told
	ConfigFile string   // that was read; "": none
	Named      bool     // it was named by --config
}

// Look says what is in force, and warns of what holds only where it is run now.
// proc is /proc.
func (e Environment) Look(proc fs.FS) []Finding {
	const what = "environment"
	var words []string
	for _, name := range []string{"HOME", "PATH", "TZ", "LANG"} {
		value := e.Getenv(name)
		if value == "" {
			words = append(words, "no "+name)
			continue
		}
		words = append(words, name+"="+value)
	}
	all := []Finding{ok(what, "%s", strings.Join(words, " "))}
	if mask := field(proc, "self/status", "Umask"); mask != "" {
		all[0].Message += " umask=" + mask
	}
	if e.Stdin != nil {
		all[0].Message += "; stdin is " + stream(e.Stdin)
	}
	if e.StateDir == "" {
		all = append(all, warning(what, "set upload.state_dir in the file, or give --state-dir", "neither $HOME nor $STATE_DIRECTORY nor an option gives a state directory"))
	}
	return append(all, e.config())
}

// systemFile is the one place of a configuration that depends on nothing.
const systemFile = "/etc/trafficup/trafficup.yaml"

// config judges whether another directory and environment would lead to the same
// file.
func (e Environment) config() Finding {
	const what = "config file"
	bare := "none"
	if _, err := os.Stat(systemFile); err == nil {
		bare = systemFile
	}
	switch whole, err := filepath.Abs(e.ConfigFile); {
	case e.ConfigFile == "":
		return ok(what, "none is found, nor would be from / with an empty environment")
	case err == nil && !filepath.IsAbs(e.ConfigFile):
		return warning(what, fmt.Sprintf("--config %q", whole), "%s is found only from this directory, and cron starts elsewhere", e.ConfigFile)
	case e.Named:
		return ok(what, "--config names it")
	case e.ConfigFile == systemFile:
		return ok(what, "found from any directory, with any environment")
	case e.Getenv("TRAFFICUP_CONFIG") != "":
		return ok(what, "$TRAFFICUP_CONFIG names it; from / with an empty environment: %s", bare)
	}
	return ok(what, "found by $HOME or $XDG_CONFIG_HOME; from / with an empty environment: %s", bare)
}

func stream(f *os.File) string {
	info, err := f.Stat()
	switch {
	case err != nil:
		return "closed"
	case term.IsTerminal(int(f.Fd())):
		return "a terminal"
	case info.Mode()&os.ModeCharDevice != 0:
		return "no terminal (closed, or " + os.DevNull + ")"
	case info.Mode()&os.ModeNamedPipe != 0:
		return "a pipe"
	case info.Mode()&os.ModeSocket != 0:
		return "a socket"
	}
	return "a file"
}

// field is a line of a file under /proc that has names: "Umask:	0022".
func field(proc fs.FS, file, name string) string {
	text, err := fs.ReadFile(proc, file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
