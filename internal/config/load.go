package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Sources are the layers, and what they are read with.
type Sources struct {
	// File is the file to read; "" stands for $TRAFFICUP_CONFIG, and when that is
	// not set for the first there is of ./trafficup.yaml,
	// $XDG_CONFIG_HOME/trafficup/trafficup.yaml and /etc/trafficup/trafficup.yaml.
	File    string
	Environ []string // as os.Environ
	Flags   []Setting
	Checks  []func(*Loaded) // of what this package does not know; they call Fault and Warn
}

// Setting is a value from the command line.
type Setting struct {
	Key, Text string
	Place     string // --backoff-cap
}

// Loaded is a configuration and where it came from.
type Loaded struct {
	Config
	Files    []string // that were read, in their order
	Warnings []Fault
	origins  map[string]Origin
	faults   []Fault
	looked   int    // files read so far
	denied   string // a file that may not be read
}

// Load merges the layers and checks the result. The error is an *Error with
// every mistake; what could be read is returned beside it.
func Load(src Sources) (*Loaded, error) {
	l := &Loaded{Config: Default(), origins: map[string]Origin{}}
	env := environment(src.Environ)
	l.readFiles(src.File, env)
	l.readEnvironment(env)
	for _, s := range src.Flags {
		l.set(s)
	}
	l.validate()
	for _, check := range src.Checks {
		check(l)
	}
	if len(l.faults) > 0 {
		slices.SortStableFunc(l.faults, func(a, b Fault) int { return a.Origin.order - b.Origin.order })
		return l, &Error{l.faults, l.denied}
	}
	return l, nil
}

// Origin is where the value of key came from; for a part of a list or map that
// has no place of its own, where the whole came from.
func (l *Loaded) Origin(key string) Origin {
	for k := key; k != ""; k = k[:max(0, strings.LastIndexAny(k, ".["))] {
		if o, ok := l.origins[k]; ok {
			return o
		}
	}
	return Origin{Layer: "default"}
}

// Fault notes that the value of key is wrong, unless it is known already.
func (l *Loaded) Fault(key, format string, a ...any) {
	known := func(f Fault) bool {
		return f.Key == key || strings.HasPrefix(f.Key, key) && strings.ContainsAny(f.Key[len(key):len(key)+1], ".[")
	}
	if !slices.ContainsFunc(l.faults, known) {
		l.faults = append(l.faults, Fault{l.Origin(key), key, fmt.Sprintf(format, a...)})
	}
}

// Warn notes what is allowed and hardly meant.
func (l *Loaded) Warn(key, format string, a ...any) {
	l.Warnings = append(l.Warnings, Fault{l.Origin(key), key, fmt.Sprintf(format, a...)})
}

func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			env[name] = value
		}
	}
	return env
}

// decoder reads one layer; what comes later goes over what came before.
func (l *Loaded) decoder(layer string, place func(n *yaml.Node) string) *decoder {
	order := len(l.origins) + len(l.faults)
	return &decoder{faults: &l.faults, origins: l.origins, place: func(n *yaml.Node) Origin {
		order++
		return Origin{layer, place(n), order}
	}}
}

func (l *Loaded) readFiles(named string, env map[string]string) {
	if named == "" {
		named = env["TRAFFICUP_CONFIG"]
	}
	if named != "" {
		l.readFile(named, nil)
		return
	}
	for _, path := range usualPlaces(env) {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			l.readFile(path, nil)
			return
		}
	}
}

// UsualPlaces are where a file is looked for when none is named.
func UsualPlaces(environ []string) []string { return usualPlaces(environment(environ)) }

func usualPlaces(env map[string]string) []string {
	places := []string{"trafficup.yaml"}
	if home := env["XDG_CONFIG_HOME"]; home != "" {
		places = append(places, filepath.Join(home, "trafficup/trafficup.yaml"))
	} else if home := env["HOME"]; home != "" {
		places = append(places, filepath.Join(home, ".config/trafficup/trafficup.yaml"))
	}
	return append(places, "/etc/trafficup/trafficup.yaml")
}

// maxFiles bounds how many files one configuration is made of.
const maxFiles = 100

// readFile reads what the file includes and then the file. within are the files
// that led to it.
func (l *Loaded) readFile(path string, within []string) {
	at := Origin{Layer: "file", Place: path, order: len(l.origins) + len(l.faults)}
	whole, err := filepath.Abs(path)
	if err != nil {
		whole = path
	}
	l.looked++
	switch {
	case slices.Contains(within, whole):
		l.faults = append(l.faults, Fault{at, "include", "the file includes itself: " + strings.Join(append(within, whole), ", ")})
		l.looked = maxFiles + 1 // one is enough
		return
	case l.looked > maxFiles:
		if l.looked == maxFiles+1 {
			l.faults = append(l.faults, Fault{at, "include", fmt.Sprintf("more than %d files are included, some of them again and again perhaps", maxFiles)})
		}
		return
	}
	data, err := readSmall(path)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			l.denied = whole
		}
		l.faults = append(l.faults, Fault{at, "", describe(err)})
		return
	}
	doc, err := parseYAML(data)
	if err != nil {
		l.faults = append(l.faults, yamlFault(at, err))
		return
	}
	if doc == nil {
		l.Files = append(l.Files, path)
		return // only comments
	}
	place := func(n *yaml.Node) string { return fmt.Sprintf("%s:%d", path, n.Line) }
	l.include(path, doc, l.decoder("file", place), append(within[:len(within):len(within)], whole))
	l.Files = append(l.Files, path)
	l.decoder("file", place).node(doc, reflect.ValueOf(&l.Config).Elem(), "", 0)
}

// include reads the files that doc names, which start where its own file is.
func (l *Loaded) include(path string, doc *yaml.Node, d *decoder, within []string) {
	if doc.Kind != yaml.MappingNode {
		return // is complained about later
	}
	for i := 0; i+1 < len(doc.Content); i += 2 {
		if doc.Content[i].Value != "include" {
			continue
		}
		var patterns []string
		var ignored []Fault
		d.faults = &ignored // the same mistakes are found when the file itself is read
		d.node(doc.Content[i+1], reflect.ValueOf(&patterns).Elem(), "include", 0)
		for _, p := range patterns {
			if !filepath.IsAbs(p) {
				p = filepath.Join(filepath.Dir(path), p)
			}
			files := []string{p}
			if strings.ContainsAny(p, "*?[") {
				var err error
				if files, err = filepath.Glob(p); err != nil || len(files) == 0 {
					l.faults = append(l.faults, Fault{d.place(doc.Content[i+1]), "include", fmt.Sprintf("no file matches %q", p)})
				}
			}
			for _, f := range files {
				if l.looked <= maxFiles {
					l.readFile(f, within)
				}
			}
		}
	}
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// yamlFault gives an error of the YAML reader its place.
func yamlFault(at Origin, err error) Fault {
	text := err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		if text = text[len(m[0]):]; m[1] != "" {
			at.Place += ":" + m[1]
		}
	}
	if strings.HasPrefix(text, "unknown anchor") { // its name may be a value that begins with *
		text = "a value that begins with * has to stand in quotes"
	}
	for part, help := range map[string]string{
		"cannot start any token":   "indent with blanks, not tabs, and put text with special characters into quotes",
		"unexpected end of stream": "a quote or a bracket is not closed",
		"did not find expected":    "see the indentation, quotes and brackets from there on",
		"more than one document":   "this is no YAML, or has lines of ---",
	} {
		if strings.Contains(text, part) {
			text += "; " + help
		}
	}
	return Fault{at, "", "no YAML: " + text}
}

func describe(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return "cannot be read: " + err.Error()
}

// Of a service named trafficup, Kubernetes and Docker tell every container, in
// variables that look like ours.
var injected = regexp.MustCompile(`^TRAFFICUP_(PORT(_\d+_(TCP|UDP)(_\w+)?)?|SERVICE_(HOST|PORT(_\w+)?)|(ENV_\w+|NAME))$`)

func (l *Loaded) readEnvironment(env map[string]string) {
	known := map[string]Option{}
	names := []string{"TRAFFICUP_CONFIG"}
	for _, o := range Options() {
		if !o.FileOnly() {
			known[o.Env()], names = o, append(names, o.Env())
		}
	}
	for _, o := range Options() { // in the order of the tree, so that messages are
		if text, ok := env[o.Env()]; ok && text != "" && !o.FileOnly() {
			l.decoder("environment", func(*yaml.Node) string { return "$" + o.Env() }).text(text, o.in(&l.Config), o.Key)
		}
	}
	for _, name := range sorted(env) {
		if _, ok := known[name]; ok || !strings.HasPrefix(name, envPrefix) || name == "TRAFFICUP_CONFIG" || injected.MatchString(name) {
			continue
		}
		hint := "; trafficup config init lists all"
		if n := nearestVariable(name, names); n != "" {
			hint = "; did you mean $" + n + "?"
		}
		// No error: others may set variables with our prefix.
		l.Warnings = append(l.Warnings, Fault{Origin{Layer: "environment", Place: "$" + name}, "", "unknown variable, which sets nothing" + hint})
	}
}

// nearestVariable is the variable that name was meant to be: the ends of names say
// more than what they have in common.
func nearestVariable(name string, names []string) string {
	own := strings.TrimPrefix(name, envPrefix)
	for _, n := range names {
		if strings.HasSuffix(n, "_"+own) {
			return n
		}
	}
	short := make([]string, len(names))
	for i, n := range names {
		short[i] = strings.TrimPrefix(n, envPrefix)
	}
	if n := Nearest(own, short); n != "" {
		return envPrefix + n
	}
	for _, n := range names { // TRAFFICUP_PATHS_CELL_DSCP
		if strings.HasPrefix(own, strings.TrimPrefix(n, envPrefix)+"_") {
			return n
		}
	}
	return ""
}

// set takes one value from the command line.
func (l *Loaded) set(s Setting) {
	d := l.decoder("flag", func(*yaml.Node) string { return s.Place })
	d.public = true
	l.walk(d, reflect.ValueOf(&l.Config).Elem(), "", s.Key, s.Text)
}

// walk sets the value at rest, a key below section, whose value is v.
func (l *Loaded) walk(d *decoder, v reflect.Value, section, rest, text string) {
	if rest == "" && section == "include" {
		d.fault(d.place(nil), section, "is read in files only")
		return
	}
	if rest == "" {
		d.text(text, v, section)
		return
	}
	name, deeper, _ := strings.Cut(rest, ".")
	key := join(section, name)
	switch {
	case isSection(v.Type()):
		known := fields(v.Type())
		n, ok := known[name]
		if !ok {
			d.fault(d.place(nil), "", "unknown key %s%s", keyShown(key), suggestion(section, name, sorted(known)))
			return
		}
		l.walk(d, v.Field(n), key, deeper, text)
	case v.Kind() == reflect.Map:
		merged := reflect.MakeMap(v.Type())
		for _, k := range v.MapKeys() {
			merged.SetMapIndex(k, v.MapIndex(k))
		}
		element := reflect.New(v.Type().Elem()).Elem()
		if old := merged.MapIndex(reflect.ValueOf(name)); old.IsValid() {
			element.Set(old)
		}
		l.walk(d, element, key, deeper, text)
		merged.SetMapIndex(reflect.ValueOf(name), element)
		v.Set(merged)
	default:
		d.fault(d.place(nil), section, "has no keys of its own, such as %s", keyShown(rest))
	}
}
