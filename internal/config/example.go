package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

const exampleHead = `# Settings of trafficup. A flag goes over the environment, the environment over
# this file, this file over what is built in. Durations and sizes have units,
# times of day stand in quotes. Every line that is commented out shows a default
# or, where there is none, an example. What is wrong here is told with its line:
#   trafficup config check
`

// WriteExample writes a file with every option, commented out.
func WriteExample(w io.Writer) error {
	var b strings.Builder
	b.WriteString(exampleHead)
	defaults := Default()
	exampleSection(&b, reflect.ValueOf(defaults), "", 0)
	_, err := io.WriteString(w, b.String())
	return err
}

func exampleSection(b *strings.Builder, v reflect.Value, prefix string, depth int) {
	indent := strings.Repeat("  ", depth)
	for n := range v.NumField() {
		f := v.Type().Field(n)
		name := f.Tag.Get("key")
		key := join(prefix, name)
		if isSection(f.Type) {
			if depth == 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(b, "%s# %s\n%s%s:\n", indent, f.Tag.Get("help"), indent, name)
			exampleSection(b, v.Field(n), key, depth+1)
			continue
		}
		o, _ := Lookup(key)
		if depth == 0 {
			b.WriteByte('\n')
		}
		for _, line := range wrap(o.Help+layers(o), 78-len(indent)) {
			fmt.Fprintf(b, "%s# %s\n", indent, line)
		}
		value := o.Default()
		if v.Field(n).IsZero() && o.Example != "" {
			value = o.Example
		}
		if o.Type == secretType {
			value = "…"
		}
		fmt.Fprintf(b, "%s#%s: %s\n", indent, name, value)
	}
}

// layers names the option's flag and variable.
func layers(o Option) string {
	switch {
	case o.FileOnly():
		return ""
	case o.Flag == "":
		return "; $" + o.Env()
	}
	return "; --" + o.Flag + ", $" + o.Env()
}

// wrap breaks text into lines of at most width letters where words allow it.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for w := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(w) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(lines, line)
}
