package main

import (
	"slices"
	"testing"

	"trafficup/internal/config"
)

// An option that changes nothing is warned of, and one that counts is not.
func TestWarnUnused(t *testing.T) {
	const yes, no = "https://api.example/", "https://cell.example/"
	for name, c := range map[string]struct {
		set  [][2]string
		want []string
	}{
		"nothing set":           {},
		"quota, one path":       {[][2]string{{"upload.fallback_quota", "1MB"}}, []string{"upload.fallback_quota"}},
		"canary, one path":      {[][2]string{{"upload.canary_fallback", "1%"}}, []string{"upload.canary_fallback"}},
		"with a fallback":       {[][2]string{{"upload.fallback_quota", "1MB"}, {"upload.canary_fallback", "1%"}, {"api.fallback", no}}, nil},
		"with another path":     {[][2]string{{"upload.fallback_quota", "1MB"}, {"paths.cell.url", no}}, nil},
		"proxy to this machine": {[][2]string{{"api.primary", "http://localhost:1/"}, {"paths.primary.proxy", "http://10.0.0.1:3128"}}, []string{"paths.primary.proxy"}},
		"loopback address":      {[][2]string{{"api.primary", "http://[::1]:1/"}, {"paths.primary.proxy", "http://10.0.0.1:3128"}}, []string{"paths.primary.proxy"}},
		"proxy to elsewhere":    {[][2]string{{"paths.primary.proxy", "http://10.0.0.1:3128"}}, nil},
		"no proxy":              {[][2]string{{"api.primary", "http://localhost:1/"}, {"paths.primary.proxy", "none"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			src := config.Sources{Flags: []config.Setting{{Key: "api.primary", Text: yes}}}
			for _, s := range c.set {
				src.Flags = append(src.Flags, config.Setting{Key: s[0], Text: s[1]})
			}
			var got []string
			src.Checks = []func(*config.Loaded){func(l *config.Loaded) {
				before := len(l.Warnings)
				Config{l}.warnUnused()
				for _, w := range l.Warnings[before:] {
					got = append(got, w.Key)
				}
			}}
			if _, err := config.Load(src); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("warns of %v, want %v", got, c.want)
			}
		})
	}
}
