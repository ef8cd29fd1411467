package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// This file holds what definitions and roles of one user may cost others.

// TestHostileColumns lists objects as a table whose columns multiply: one path finds a value in
// more ways than can be counted, and many columns show the whole object.
func TestHostileColumns(t *testing.T) {
	s := startServer(t)
	const ready = "    - {name: Ready,"
	var columns strings.Builder
	fmt.Fprintf(&columns, "    - {name: Deep, type: string, jsonPath: '.spec%s'}\n    - {name: Twice, type: string, jsonPath: \".spec%s\"}\n",
		strings.Repeat("..a", 14), strings.Repeat("['x','x']", 30))
	for i := range 5000 {
		fmt.Fprintf(&columns, "    - {name: All%d, type: string, jsonPath: .spec}\n", i)
	}
	open := strings.Replace(gadgetCRD, ready, columns.String()+ready, 1)
	const required = "            required: [color]\n"
	open = strings.Replace(open, required, required+"            x-kubernetes-preserve-unknown-fields: true\n", 1)
	s.do(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", toJSON(t, open))
	const gadgets = "/apis/demo.example.org/v1/namespaces/default/gadgets"
	eventually(t, "gadgets served", func() bool {
		code, _, err := s.try("GET", gadgets, nil)
		return err == nil && code == 200
	})
	nested := func(name string) string { return strings.Repeat(`{"`+name+`":`, 60) + "1" + strings.Repeat("}", 60) }
	for i := range 5 {
		s.do(t, 201, "POST", gadgets, fmt.Appendf(nil,
			`{"apiVersion":"demo.example.org/v1","kind":"Gadget","metadata":{"name":"g%d"},"spec":{"color":"red","a":%s,"x":%s,"text":%q}}`,
			i, nested("a"), nested("x"), strings.Repeat("x", 30_000)))
	}
	ticks := s.cpuTicks(t)
	ctx, cancel := context.WithTimeout(context.Background(), workBound)
	defer cancel()
	code, b, err := s.send(ctx, "GET", gadgets, nil, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if err != nil || code != 200 || !strings.Contains(string(b), `"cells":["g4","red",1,null,null,"{`) {
		t.Fatalf("got %d, %v, %s", code, err, tail(string(b), 300))
	}
	if len(b) > 10<<20 {
		t.Errorf("got %d bytes, want at most 10 MiB", len(b))
	}
	spent := s.cpuTicks(t) - ticks
	if spent > workTicks {
		t.Errorf("%d ms of processor time, want at most %d", 10*spent, 10*workTicks)
	}
	t.Logf("%d bytes, %d ms of processor time, %d MiB", len(b), 10*spent, s.peakMemory(t)>>20)
}

// TestHostileRoles writes roles whose comparison with what the writer holds is much work.
func TestHostileRoles(t *testing.T) {
	s := startServer(t)
	s.grant(t, "roles", "ann", `[{"verbs":["create","get"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"]}]`)
	many := func(n int, format string) string {
		words := make([]string, n)
		for i := range words {
			words[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(words, ",")
	}
	for name, rules := range map[string]string{
		"no verbs":   `{"verbs":[],"apiGroups":[` + many(200_000, `"%d"`) + `],"resources":[` + many(160_000, `"%d"`) + `]}`,
		"long words": `{"verbs":["get"],"apiGroups":["` + strings.Repeat("g", 1_000_000) + `"],"resources":[` + many(2000, `"r%d"`) + `]}`,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			ticks := s.cpuTicks(t)
			ctx, cancel := context.WithTimeout(context.Background(), workBound)
			defer cancel()
			code, b, err := s.send(ctx, "POST", rbacPath+"namespaces/default/roles",
				[]byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r"},"rules":[`+rules+`]}`), "Impersonate-User", "ann")
			if err != nil || code != 403 || len(b) > 4<<20 {
				t.Errorf("got %d, %v, %d bytes %s", code, err, len(b), tail(string(b), 300))
			}
			if spent := s.cpuTicks(t) - ticks; spent > workTicks {
				t.Errorf("%d ms of processor time, want at most %d", 10*spent, 10*workTicks)
			} else {
				t.Logf("%d bytes, %d ms of processor time, %d MiB", len(b), 10*spent, s.peakMemory(t)>>20)
			}
		})
	}
}
