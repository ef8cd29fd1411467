package builtin

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/schema"
)

// hostileItems are objects with long lists whose items have many errors, or errors that name all other
// items, or warnings about all other items.
var hostileItems = []struct {
	group, plural, text string
	item                string // has the number of the item as its argument, if any
	items               int
	warns               bool
}{
	{"", "pods", `{"spec":{"resourceClaims":[%s],"containers":[{"name":"c","image":"i","resources":{"claims":[` + strings.Repeat(`{"name":"x"},`, 3000) + `{"name":"y"}]}}]}}`,
		`{"name":"n` + strings.Repeat("x", 50) + `%d","resourceClaimName":"a"}`, 3000, false},
	{"", "pods", `{"spec":{"resourceClaims":[` + strings.Repeat(`{"name":"xxxxxxxxxxxxxxxxxxxxx","resourceClaimName":"a"},`, 3000) + `{"name":"y","resourceClaimName":"a"}],"containers":[%s]}}`,
		`{"name":"c","resources":{"claims":[{"name":"z%d"}]}}`, 10_000, false},
	{"", "pods", `{"spec":{"containers":[%s]}}`, `{}`, 100_000, false},
	{"", "pods", `{"spec":{"containers":[{"name":"c","image":"i","env":[%s]}]}}`, `{}`, 200_000, false},
	{"", "pods", `{"spec":{"containers":[{"name":"c","image":"i","volumeMounts":[%s]}]}}`, `{}`, 100_000, false},
	{"", "pods", `{"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[%s]}}`, `{}`, 100_000, false},
	{"", "pods", `{"spec":{"containers":[{"name":"c","image":"i"}],"tolerations":[%s]}}`, `{"effect":"x"}`, 100_000, false},
	{"apps", "statefulsets", `{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}},"volumeClaimTemplates":[%s]}}`,
		`{}`, 50_000, false},
	{"", "configmaps", `{"data":{%s}}`, `"a b%d":""`, 100_000, false},
	{"rbac.authorization.k8s.io", "clusterroles", `{"rules":[%s]}`, `{}`, 100_000, false},
	{"networking.k8s.io", "networkpolicies", `{"spec":{"podSelector":{},"ingress":[{"from":[%s]}]}}`, `{}`, 100_000, false},
	{"", "services", `{"spec":{"ports":[%s]}}`, `{}`, 100_000, false},
	{"admissionregistration.k8s.io", "validatingwebhookconfigurations", `{"webhooks":[%s]}`, `{}`, 50_000, false},
	{"flowcontrol.apiserver.k8s.io", "flowschemas", `{"spec":{"priorityLevelConfiguration":{"name":"p"},"rules":[%s]}}`, `{}`, 100_000, false},
	{"", "pods", `{"spec":{"containers":[{"name":"c","image":"i","ports":[%s]}]}}`, `{"containerPort":1}`, 3000, true},
	{"", "pods", `{"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"v","configMap":{"name":"c","items":[%s]}}]}}`,
		`{"key":"k","path":"` + strings.Repeat("a", 500) + `"}`, 3000, true},
}

// TestTextsEnd holds that the errors and warnings of an object end while they are made: neither the list
// nor the memory for it grows with the product of what the object has.
//
// Ledger: error-lists.
func TestTextsEnd(t *testing.T) {
	for _, c := range hostileItems {
		v := versionFor(t, c.group, c.plural)
		items := make([]string, c.items)
		for i := range items {
			if items[i] = c.item; strings.Contains(c.item, "%d") {
				items[i] = fmt.Sprintf(c.item, i)
			}
		}
		body := fmt.Sprintf(c.text, strings.Join(items, ","))
		name := fmt.Sprintf("%s, %.80s", c.plural, body)
		d := readJSON(t, v, []byte(body))
		v.PrepareCreate(d)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := v.Validate(context.Background(), d, nil, schema.Whole)
		runtime.ReadMemStats(&after)
		if c.warns != (len(r.Errors) == 0) {
			t.Errorf("%s: got %d errors", name, len(r.Errors))
			continue
		}
		size := 0
		for _, err := range r.Errors {
			size += len(err.Error())
		}
		for _, text := range r.Warnings {
			size += len(text)
		}
		ended := c.warns && strings.HasPrefix(r.Warnings[len(r.Warnings)-1], "there are more") || !c.warns && texts.IsMore(r.Errors[len(r.Errors)-1])
		// One more text may be as long as the body.
		if most := texts.Most + len(body) + 1<<10; size > most || !ended {
			t.Errorf("%s: got %d bytes of %d errors and %d warnings, want at most %d, and the last one that says so", name, size, len(r.Errors), len(r.Warnings), most)
		}
		// The object as Go values takes up to 2 KB for each item; the texts were much more.
		if n, most := after.TotalAlloc-before.TotalAlloc, uint64(96<<20+6000*c.items); n > most {
			t.Errorf("%s: got %d MB allocated, want at most %d", name, n>>20, most>>20)
		}
	}
}
