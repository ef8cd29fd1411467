package server

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/store/mem"
)

// This file runs two servers in one process.

// samples returns the values of /metrics by series, without those that a request for them changes,
// and without those of the whole process.
func (r *running) samples() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(r.must("GET", "/metrics", "")) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(series, "#") || ofTheProcess(series) || strings.Contains(series, `"/metrics"`) || strings.Contains(series, `verb="GET"`) {
			continue
		}
		all[series] = value
	}
	return all
}

// ofTheProcess reports whether a series counts for the process, or with every request, or by time.
func ofTheProcess(series string) bool {
	return slices.ContainsFunc([]string{
		"go_", "process_", "apiserver_current_inflight_requests", "apiserver_flowcontrol_", "authenticat", "apiserver_authorization_decisions", "authorization_",
		"apiserver_tls_handshake", "apiserver_longrunning", "apiserver_audit", "apiserver_client_certificate", "apiserver_delegated",
		// The times of package schema, whose compiled schemas servers share.
		"apiserver_cel_", "apiextensions_apiserver_validation_ratcheting_seconds",
	}, func(prefix string) bool { return strings.HasPrefix(series, prefix) })
}

// TestTwoServersInOneProcess checks that what happens in one server is not seen in another one: kinds
// of the same name, objects, metrics, roles.
func TestTwoServersInOneProcess(t *testing.T) {
	one := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: tokens(t, "ann")})
	two := start(t, Config{Store: mem.New(mem.Options{}), TokenAuthFile: tokens(t, "ann")})
	one.define()
	two.until("the default objects are there", func() bool {
		code, _ := two.call(two.client, "GET", "/api/v1/namespaces/kube-system/serviceaccounts/default", "")
		return code == 200
	})
	if code, text := two.call(two.client, "GET", widgetsPath, ""); code != 404 {
		t.Errorf("a kind of the other server: got %d %s, want 404", code, text)
	}
	// An idle server has the same metrics again and again.
	before, same := two.samples(), 0
	two.until("nothing happens in the background", func() bool {
		now := two.samples()
		if maps.Equal(before, now) {
			same++
		} else {
			before, same = now, 0
		}
		return same == 20
	})
	made := func(r *running) string {
		const prefix = `apiserver_request_total{code="201",`
		n := 0
		for series := range r.samples() {
			if strings.HasPrefix(series, prefix) && strings.Contains(series, `resource="widgets"`) {
				n++
			}
		}
		return fmt.Sprint(n)
	}
	for i := range 5 {
		one.must("POST", widgetsPath, fmt.Sprintf(`{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w%d"},"spec":{"color":"red"}}`, i))
	}
	one.must("PATCH", widgetsPath+"/w1", `{"spec":{"color":"blue"}}`, "Content-Type", mergePatch)
	one.must("POST", rbacPath+"clusterroles", role("ClusterRole", "reader", "get list", "demo.io", "widgets"))
	one.must("POST", rbacPath+"clusterrolebindings", binding("ClusterRoleBinding", "reader", "ClusterRole", "reader", "User", "ann"))
	if code, text := one.as("ann", "GET", widgetsPath, ""); code != 200 {
		t.Errorf("by a new role: got %d %s, want 200", code, text)
	}
	if got := made(one) + " " + made(two); got != "1 0" {
		t.Errorf("series of created widgets: got %s, want 1 and 0", got)
	}
	after := two.samples()
	for _, series := range slices.Sorted(maps.Keys(after)) {
		if before[series] != after[series] {
			t.Errorf("metric of an idle server: %s went from %q to %s", series, before[series], after[series])
		}
	}

	// The same name, another definition.
	two.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		strings.Replace(crdBody, `"color":{"type":"string"}`, `"color":{"type":"integer"}`, 1))
	two.until("widgets are served", func() bool { code, _ := two.call(two.client, "GET", widgetsPath, ""); return code == 200 })
	if text := two.must("GET", widgetsPath, ""); !strings.Contains(text, `"items":[]`) {
		t.Errorf("objects of the other server: %s", text)
	}
	if code, _ := two.as("ann", "GET", widgetsPath, ""); code != 403 {
		t.Errorf("a role of the other server: got %d, want 403", code)
	}
	two.must("POST", widgetsPath, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"w1"},"spec":{"color":7}}`)
	one.must("POST", widgetsPath, `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"new"},"spec":{"color":"green"}}`)
	for _, wrong := range []struct {
		r     *running
		color string
	}{{one, "7"}, {two, `"green"`}} {
		body := `{"apiVersion":"demo.io/v1","kind":"Widget","metadata":{"name":"wrong"},"spec":{"color":` + wrong.color + `}}`
		if code, text := wrong.r.call(wrong.r.client, "POST", widgetsPath, body); code != 422 {
			t.Errorf("color %s: got %d %s, want 422", wrong.color, code, text)
		}
	}
	one.must("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.io", "")
	if text := two.must("GET", widgetsPath+"/w1", ""); !strings.Contains(text, `"color":7`) {
		t.Errorf("after the other server's definition is gone: %s", text)
	}

	one.end()
	two.end()
	in := reachable(one.Server)
	for at, way := range reachable(two.Server) {
		if first, ok := in[at]; ok {
			t.Errorf("both servers hold one %s: %s and %s", at.Type, first, way)
		}
	}
}

// place is where a value of a type is in memory.
type place struct {
	reflect.Type
	address uintptr
}

// constants are types whose values follow from what they were made of, so that nobody can tell whether
// they are shared: kinds, compiled schemas and languages.
var constants = []string{"kind.Kind", "kind.Version", "schema.Program", "structural.Schema", "cel.Language", "cel.Env", "requests.Language", "match.Conditions"}

// reachable returns the maps, the channels, and the structs of this module and of prometheus that root
// holds, with the way to them.
func reachable(root any) map[place]string {
	found, seen := map[place]string{}, map[place]bool{}
	type step struct {
		v   reflect.Value
		way string
	}
	for steps := []step{{reflect.ValueOf(root), "root"}}; len(steps) > 0; {
		at := steps[0]
		steps = steps[1:]
		v := at.v
		next := func(v reflect.Value, name string) { steps = append(steps, step{v, at.way + name}) }
		switch v.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Chan:
			p := place{v.Type(), v.Pointer()}
			if v.IsNil() || seen[p] {
				continue
			}
			seen[p] = true
			if v.Kind() == reflect.Pointer && !ownState(v.Type().Elem()) {
				if v.Type().Elem().Kind() == reflect.Interface || strings.Contains(v.Type().Elem().PkgPath(), "/") {
					next(v.Elem(), "")
				}
				continue
			}
			if v.Kind() != reflect.Pointer || v.Type().Elem().Size() > 0 {
				found[p] = at.way
			}
		}
		switch v.Kind() {
		case reflect.Pointer:
			if !slices.Contains(constants, v.Type().Elem().String()) {
				next(v.Elem(), "")
			} else {
				delete(found, place{v.Type(), v.Pointer()})
			}
		case reflect.Interface:
			if !v.IsNil() {
				next(v.Elem(), "")
			}
		case reflect.Struct:
			for i := range v.NumField() {
				next(v.Field(i), "."+v.Type().Field(i).Name)
			}
		case reflect.Slice, reflect.Array:
			for i := range min(v.Len(), 100) {
				next(v.Index(i), "[]")
			}
		case reflect.Map:
			for iter := v.MapRange(); iter.Next(); {
				next(iter.Value(), "[]")
			}
		}
	}
	return found
}

// ownState reports whether a type is one of this module or of prometheus.
func ownState(t reflect.Type) bool {
	return strings.HasPrefix(t.PkgPath(), "github.com/keelson-io/keelson") || strings.HasPrefix(t.PkgPath(), "github.com/prometheus")
}
