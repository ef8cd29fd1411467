package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/keelson-io/keelson/internal/status"
)

// named returns a list of objects with names, in JSON.
func named(from, n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`{"name":"n%d"}`, from+i))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// TestStrategicBounds: patches whose merging is quadratic are refused before it begins.
// Ledger: strategic-patch-size.
func TestStrategicBounds(t *testing.T) {
	pod := func(env string) string { return `{"spec":{"containers":[{"name":"c","env":` + env + `}]}}` }
	texts := func(n int) string { return `["` + strings.Repeat(strings.Repeat("x", 1000)+`","`, n) + `"]` }
	again := strings.TrimSuffix(strings.Repeat(`{"name":"c","env":`+named(0, 20)+`},`, 400), ",")
	for _, c := range []struct {
		name, object, patch string
		refused             bool
	}{
		{"both long", pod(named(0, 10_000)), pod(named(5_000, 10_000)), true},
		{"a long list in the object", pod(named(0, 10_000)), pod(named(0, 1)), true},
		{"a long list in the patch", pod(named(0, 1)), pod(named(0, 10_000)), true},
		{"an order", pod(named(0, 1)), `{"spec":{"containers":[{"name":"c","$setElementOrder/env":` + named(0, 10_000) + `}]}}`, true},
		{"an order of items", `{"metadata":{}}`, `{"metadata":{"$setElementOrder/finalizers":` + texts(2000) + `,"finalizers":` + texts(2000) + `}}`, true},
		{"texts", `{"metadata":{"finalizers":` + texts(1400) + `}}`, `{"metadata":{"finalizers":["a"]}}`, true},
		{"deletions", `{"metadata":{"finalizers":` + texts(1400) + `}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}}`, true},
		{"items of one key", pod(named(0, 300)), `{"spec":{"containers":[` + again + `]}}`, true},
		{"a new list", `{}`, pod(named(0, 10_000)), false},
		{"a list that is replaced", `{"spec":{"containers":[{"name":"c","args":` + texts(1000) + `}]}}`, `{"spec":{"containers":[{"name":"c","args":` + texts(1001) + `}]}}`, false},
		{"lists of usual length", pod(named(0, 200)), pod(named(100, 200)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := strategic(context.Background(), []byte(c.object), []byte(c.patch), &corev1.Pod{})
			if refused := err != nil && status.From(err).Code == http.StatusRequestEntityTooLarge; refused != c.refused || !refused && err != nil {
				t.Fatalf("got %v, want refused: %v", err, c.refused)
			}
			if c.refused {
				return
			}
			want, err := strategicpatch.StrategicMergePatch([]byte(c.object), []byte(c.patch), &corev1.Pod{})
			if err != nil || string(got) != string(want) {
				t.Errorf("got %.300s, want %.300s, %v", got, want, err)
			}
		})
	}
}

// TestStrategicEnds: nothing is merged for a request that has ended.
func TestStrategicEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := strategic(ctx, []byte(`{}`), []byte(`{}`), &corev1.Pod{}); err == nil || status.From(err).Code != http.StatusGatewayTimeout {
		t.Errorf("got %v, want a timeout", err)
	}
}

// TestStrategicCountsAnything: counting steps does not depend on what a patch should look like.
func TestStrategicCountsAnything(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var value func(depth int) any
	value = func(depth int) any {
		switch n := r.IntN(10); {
		case n < 4 && depth > 0:
			m := map[string]any{}
			for range r.IntN(4) {
				keys := []string{"spec", "metadata", "containers", "env", "name", "finalizers", "$setElementOrder/env", "$setElementOrder/containers",
					"$deleteFromPrimitiveList/finalizers", "$patch", "ports", "containerPort", "$setElementOrder/ports", "labels"}
				m[keys[r.IntN(len(keys))]] = value(depth - 1)
			}
			return m
		case n < 7 && depth > 0:
			list := []any{}
			for range r.IntN(4) {
				list = append(list, value(depth-1))
			}
			return list
		}
		return []any{nil, true, 1, 2.5, "a", "b", "delete", "replace"}[r.IntN(8)]
	}
	for range 20_000 {
		object, patch := map[string]any{"spec": value(5), "metadata": value(3)}, map[string]any{"spec": value(5), "metadata": value(3)}
		s := stepCounter{left: maxStrategicSteps}
		schema, err := strategicpatch.NewPatchMetaFromStruct(&corev1.Pod{})
		if err != nil {
			t.Fatal(err)
		}
		if s.merge(object, patch, schema, 0); s.left < 0 {
			b, _ := json.Marshal(patch)
			t.Fatalf("too many steps: %s", b)
		}
	}
}
