package config

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// What is read is right by the schema, too, and what an editor can see of the
// mistakes it sees.
func TestSchemaAgrees(t *testing.T) {
	var b bytes.Buffer
	if err := WriteSchema(&b); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("trafficup.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("trafficup.json")
	if err != nil {
		t.Fatal(err)
	}
	holds := func(text string) error {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(v)
	}
	var example strings.Builder
	if err := WriteExample(&example); err != nil {
		t.Fatal(err)
	}
	if err := holds(example.String()); err != nil {
		t.Error("the example:", err)
	}
	// Which words these take, the schema leaves to the program.
	lenient := map[string]bool{
		"api.primary": true, "api.fallback": true, "api.auth.oauth.token_url": true,
	}
	for _, o := range Options() {
		good, bad := goodAndBad(o)
		if err := holds(nest(o.Key, good)); err != nil {
			t.Errorf("%s: %s: %v", o.Key, good, err)
		}
		if bad == "" || lenient[o.Key] {
			continue
		}
		if holds(nest(o.Key, bad)) == nil {
			t.Errorf("%s: %s is right by the schema", o.Key, bad)
		}
	}
	if holds("upload: {concurency: 8}") == nil {
		t.Error("an unknown key is right by the schema")
	}
}
