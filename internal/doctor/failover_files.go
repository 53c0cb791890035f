package doctor

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// text is a file's; what cannot be read is not there.
func text(root fs.FS, name string) string {
	data, _ := fs.ReadFile(root, name)
	return string(data)
}

// listed are those that there are by some patterns, in their order.
func listed(root fs.FS, patterns ...string) (all []string) {
	for _, p := range patterns {
		names, _ := fs.Glob(root, p) // only a bad pattern is an error
		all = append(all, names...)
	}
	return all
}

func there(root fs.FS, patterns ...string) bool { return len(listed(root, patterns...)) > 0 }

// layered are the files of a configuration that several directories hold, the one
// that counts most last: the first main file of all directories, then drop-ins by
// their names, of which that in the first directory hides the others.
func layered(root fs.FS, dirs []string, main, dropIns string) (all []string) {
	for _, d := range dirs {
		if name := d + "/" + main; there(root, name) {
			all = append(all, name)
			break
		}
	}
	places := map[string]string{}
	for _, d := range slices.Backward(dirs) {
		for _, n := range listed(root, d+"/"+dropIns+"/*.conf") {
			places[path.Base(n)] = n
		}
	}
	var names []string
	for base := range places {
		names = append(names, base)
	}
	slices.Sort(names)
	for _, base := range names {
		all = append(all, places[base])
	}
	return all
}

// sections reads the keys of a file by section; before the first one it is "".
func sections(root fs.FS, file string) map[string]map[string]string {
	all, section := map[string]map[string]string{"": {}}, ""
	for line := range strings.Lines(text(root, file)) {
		line = strings.TrimSpace(line)
		switch key, value, is := strings.Cut(line, "="); {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
			if all[section] == nil {
				all[section] = map[string]string{}
			}
		case is:
			all[section][strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
	}
	return all
}

// no tells that a value of such files is the word for it.
func no(value string) bool {
	return slices.Contains([]string{"no", "false", "off", "0", "n", "f"}, strings.ToLower(value))
}
