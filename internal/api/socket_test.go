package api

import (
	"testing"
	"time"
)

func TestSocketOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range []SocketOptions{
		{DSCP: 64}, {DSCP: -2}, {UserTimeout: -1}, {UserTimeout: 1}, {UserTimeout: 30 * 24 * time.Hour}, {Interface: "an interface"},
		{Interface: "longer-than-it-can-be"}, {Congestion: "cubic\n"}, {Congestion: "longer-than-it-can-be"}, {Source: "localhost"}, {Source: "10.0.0.1/8"},
	} {
		if _, err := NewClient(Config{URL: "http://h/", Socket: o}); err == nil {
			t.Errorf("accepted: %+v", o)
		}
	}
	for _, o := range []SocketOptions{{}, {DSCP: -1}, {KeepAlive: -1}, {Source: "10.0.0.1"}, {Source: "fe80::1%lo"}} {
		if _, err := NewClient(Config{URL: "http://h/", Socket: o}); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
