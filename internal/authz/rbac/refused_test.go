package rbac

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file is what is logged of requests that no rule allows.

func TestRefusalsAreLogged(t *testing.T) {
	ann := &authn.User{Name: "ann", Groups: []string{"dev", "all \"x\""}}
	const who = `RBAC: no rules authorize user "ann" with groups ["dev" "all \"x\""] to `
	index := func(out *bytes.Buffer, level slog.Level) *Index {
		ix := NewFollower(nil, slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level}))).Index
		ix.Apply(clusterRole("r", rule("get", "g", "bars", "")), bindCluster("b", "r", user("ann")), bindCluster("nothing", "missing", user("ann")))
		return ix
	}
	for text, want := range map[string]string{
		"get g/bars":                   "",
		"get g/foos/status n @ns":      who + `"get" resource "foos.g/status" named "n" in namespace "ns"`,
		"list g/foos":                  who + `"list" resource "foos.g" cluster-wide`,
		"deletecollection core/foos @": who + `"deletecollection" resource "foos" cluster-wide`,
		"get /":                        who + `"get" nonResourceURL "/" cluster-wide`,
	} {
		var out, quiet bytes.Buffer
		a := ask(ann, text)
		loud, silent := index(&out, -5).Authorize(context.Background(), a), index(&quiet, slog.LevelDebug).Authorize(context.Background(), a)
		if loud != silent || (loud.Decision == authz.Allow) != (want == "") {
			t.Errorf("%s: got %+v, and %+v when nothing is logged", text, loud, silent)
		}
		var line struct{ Msg string }
		if out.Len() > 0 {
			if err := json.Unmarshal(out.Bytes(), &line); err != nil {
				t.Fatalf("%q: %v", &out, err)
			}
		}
		if line.Msg != want || quiet.Len() > 0 {
			t.Errorf("%s: got %q, want %q; at verbosity 4 %q", text, line.Msg, want, &quiet)
		}
	}
}

func TestRefusalsThatAreNotLoggedCostNothing(t *testing.T) {
	ix := NewFollower(nil, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))).Index
	a := ask(&authn.User{Name: "ann", Groups: []string{"dev"}}, "get g/foos/status n @ns")
	if n := testing.AllocsPerRun(100, func() { ix.Authorize(context.Background(), a) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
