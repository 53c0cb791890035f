package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"trafficup/internal/secret"
)

// maxDepth bounds how deep values are nested, aliases included; the tree itself
// has five levels.
const maxDepth = 16

// maxNodes bounds what aliases can make of a small file.
const maxNodes = 100_000

// decoder sets values of the tree from one layer, and keeps where they came
// from. A mistake is noted, and the rest is read all the same.
type decoder struct {
	place   func(n *yaml.Node) Origin // of a node of the layer
	faults  *[]Fault
	origins map[string]Origin
	public  bool // everybody can see the layer: no place for secrets
	nodes   int
}

func (d *decoder) fault(o Origin, key, format string, a ...any) {
	*d.faults = append(*d.faults, Fault{o, key, fmt.Sprintf(format, a...)})
}

// node sets v, which belongs to key, from n.
func (d *decoder) node(n *yaml.Node, v reflect.Value, key string, depth int) {
	d.nodes++
	at := d.place(n)
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if depth > maxDepth || d.nodes > maxNodes {
		if d.nodes <= maxNodes+1 {
			d.fault(at, key, "is nested too deep or refers to too much")
		}
		return
	}
	switch {
	case isSection(v.Type()):
		d.section(n, v, key, depth, at)
	case v.Kind() == reflect.Map:
		d.mapping(n, v, key, depth, at)
	case v.Kind() == reflect.Slice:
		d.list(n, v, key, depth, at)
	case n.Kind != yaml.ScalarNode:
		d.fault(at, key, "is a %s; %s", kindOf(n), wanted(v.Type()))
	case n.Tag == "!!null":
		d.fault(at, key, "has no value; leave the line out to have the default, and put a blank after the colon")
	case v.Type() == clockType && n.Style == 0 && numeric.MatchString(n.Value):
		d.fault(at, key, "%s has to stand in quotes: write %q", n.Value, n.Value)
	default:
		d.scalar(n.Value, v, key, at)
	}
}

func (d *decoder) section(n *yaml.Node, v reflect.Value, key string, depth int, at Origin) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // all its lines are comments
	}
	known := fields(v.Type())
	for k, value := range d.pairs(n, key, at) {
		field, ok := known[k.Value]
		if !ok {
			d.fault(d.place(k), "", "unknown key %s%s", keyShown(join(key, k.Value)), suggestion(key, k.Value, slices.Sorted(maps.Keys(known))))
			continue
		}
		d.node(value, v.Field(field), join(key, k.Value), depth+1)
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, key string, depth int, at Origin) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return
	}
	// What an earlier layer said stays; its map is not written to.
	merged := reflect.MakeMap(v.Type())
	for _, k := range v.MapKeys() {
		merged.SetMapIndex(k, v.MapIndex(k))
	}
	for k, value := range d.pairs(n, key, at) {
		name, element := reflect.ValueOf(k.Value), reflect.New(v.Type().Elem()).Elem()
		if old := merged.MapIndex(name); old.IsValid() {
			element.Set(old)
		}
		d.origins[join(key, k.Value)] = d.place(k)
		d.node(value, element, join(key, k.Value), depth+1)
		merged.SetMapIndex(name, element)
	}
	d.origins[key] = at
	v.Set(merged)
}

// pairs yields keys with their values. A key that comes twice is a mistake.
func (d *decoder) pairs(n *yaml.Node, key string, at Origin) func(yield func(k, v *yaml.Node) bool) {
	return func(yield func(k, v *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			d.fault(at, key, "is a %s; write keys with their values", kindOf(n))
			return
		}
		seen := map[string]*yaml.Node{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			switch first := seen[k.Value]; {
			case k.Kind != yaml.ScalarNode || k.Tag == "!!merge":
				d.fault(d.place(k), key, "a key is one word; merging with << is not read, see include")
			case first != nil:
				d.fault(d.place(k), join(key, k.Value), "is there twice, first on line %d", first.Line)
			default:
				seen[k.Value] = k
				if !yield(k, n.Content[i+1]) {
					return
				}
			}
		}
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, key string, depth int, at Origin) {
	elem := v.Type().Elem()
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!null" && !isScalar(elem):
		return
	case n.Kind == yaml.ScalarNode && isScalar(elem):
		d.words(n.Value, v, key, at)
		return
	case n.Kind != yaml.SequenceNode:
		d.fault(at, key, "is a %s; write a list, such as [%s]", kindOf(n), exampleOf(elem))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		element := key + "[" + strconv.Itoa(i) + "]"
		d.origins[element] = d.place(c)
		d.node(c, list.Index(i), element, depth+1)
	}
	d.origins[key] = at
	v.Set(list)
}

// words sets a list from words with commas between them.
func (d *decoder) words(text string, v reflect.Value, key string, at Origin) {
	list := reflect.MakeSlice(v.Type(), 0, 0)
	for w := range strings.SplitSeq(text, ",") {
		if w = strings.TrimSpace(w); w == "" {
			continue
		}
		element := reflect.New(v.Type().Elem()).Elem()
		d.scalar(w, element, key+"["+strconv.Itoa(list.Len())+"]", at)
		list = reflect.Append(list, element)
	}
	d.origins[key] = at
	v.Set(list)
}

func (d *decoder) scalar(text string, v reflect.Value, key string, at Origin) {
	d.origins[key] = at
	if v.Type() == secretType && d.public {
		d.fault(at, key, "a secret on the command line is seen by everybody on this machine; put it into a file or the environment")
		return
	}
	if v.Type() == secretType {
		s, err := secret.Clean([]byte(text))
		if err != nil {
			d.fault(at, key, "%s (the value is not shown)", err)
			return
		}
		v.Set(reflect.ValueOf(s))
		return
	}
	if err := parseScalar(v, text); err != nil {
		d.fault(at, key, "%s: %s", shown(text), err)
	}
}

// text sets v from what stands in the environment or on the command line: a
// word, words with commas between them, name=value pairs, or YAML.
func (d *decoder) text(text string, v reflect.Value, key string) {
	at := d.place(nil)
	trimmed := strings.TrimSpace(text)
	isYAML := strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")
	switch {
	case isScalar(v.Type()):
		d.scalar(text, v, key, at)
	case v.Kind() == reflect.Slice && isScalar(v.Type().Elem()) && !isYAML:
		d.words(text, v, key, at)
	case v.Kind() == reflect.Map && isScalar(v.Type().Elem()) && !isYAML:
		d.assignments(text, v, key, at)
	default:
		doc, err := parseYAML([]byte(text))
		if err != nil || doc == nil {
			d.fault(at, key, "is no YAML; write %s", exampleOf(v.Type()))
			return
		}
		d.node(doc, v, key, 0)
	}
}

// assignments reads a=1,b=2.
func (d *decoder) assignments(text string, v reflect.Value, key string, at Origin) {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			d.fault(at, key, "write NAME=VALUE, with commas between several, or YAML: {NAME: VALUE}")
			return
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
	}
	d.mapping(n, v, key, 0, at)
}

// parseYAML returns the one document of data, nil when it holds nothing.
func parseYAML(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(strings.NewReader(strings.TrimPrefix(string(data), "\ufeff")))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("yaml: more than one document")
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, nil
	}
	return doc.Content[0], nil
}
