package config

import (
	"fmt"
	"io"
	"strings"
)

const referenceHead = `# Options

Made from the program by ` + "`go test ./internal/config -update`" + `. What layers are and how values are written: [configuration.md](configuration.md).
Options without a flag are set on the command line with ` + "`--set KEY=VALUE`" + `. The variable of a key is the key in capitals with TRAFFICUP_ before it and _ for each dot: ` + "`retry.cap` is `TRAFFICUP_RETRY_CAP`" + `.
`

// WriteReference writes a page of every option with its flag, default and help.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString(referenceHead)
	section := ""
	for _, o := range Options() {
		if s, _, _ := strings.Cut(o.Key, "."); s != section {
			section = s
			title := section
			if help := SectionHelp(section); strings.Contains(o.Key, ".") {
				title += ": " + help
			}
			fmt.Fprintf(&b, "\n## %s\n\n| key | flag | default | |\n|---|---|---|---|\n", title)
		}
		flag, def := "", o.Default()
		if o.Flag != "" {
			flag = "`--" + o.Flag + "`"
		}
		if def == `""` || def == "{}" || def == "[]" {
			def = ""
		}
		if def != "" {
			def = "`" + def + "`"
		}
		help := o.Help
		if o.Example != "" && !isScalar(o.Type) {
			help += ": `" + o.Example + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", o.Key, flag, def, strings.ReplaceAll(help, "|", `\|`))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
