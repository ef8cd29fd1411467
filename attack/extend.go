package main

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"
)

// This file has the moves that extend the API: CRDs, policies and webhooks.

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// definition makes a CRD. The schema is that of both versions.
func definition(group, version, plural, kind, scope, schema, more string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":%q,"annotations":{"api-approved.kubernetes.io":"https://github.com/kubernetes/kubernetes/pull/78458"}},"spec":{"group":%q,"scope":%q,"names":{"plural":%q,"kind":%q},"versions":[{"name":%q,"served":true,"storage":true,"schema":{"openAPIV3Schema":%s}%s},{"name":%q,"served":true,"storage":false,"schema":{"openAPIV3Schema":%s}}]}}`,
		plural+"."+group, group, scope, plural, kind, version, schema, more, version+"alpha9", schema)
}

// define writes CRDs whose groups, versions, plurals and kinds are those of others, changes them, and deletes them.
func define(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	others := func(rng *rand.Rand) resource { return a.resources[rng.IntN(len(a.resources))] }
	const open = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
	crowd(rng, 1+m.Size/25, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			r := others(rng)
			if r.Group == "ordinary.example" {
				continue // the author may do that to the ordinary user
			}
			group, version, plural, kind := r.Group, r.Version, r.Plural, r.Kind
			switch rng.IntN(4) {
			case 0:
				group = pick(rng, "attack.example", "x.k8s.io", others(rng).Group)
			case 1:
				version = pick(rng, "v1", "v1beta1", "v1alpha1", "v2")
			case 2:
				plural, kind = pick(rng, "things", others(rng).Plural), pick(rng, "Thing", others(rng).Kind)
			}
			if group == "ordinary.example" {
				continue
			}
			scope := "Cluster"
			if r.Namespaced {
				scope = "Namespaced"
			}
			body := definition(group, version, plural, kind, scope, open, pick(rng, "", `,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}}`))
			name := plural + "." + group
			hit(ctx, a, c, m.Actor, "POST", definitions, body)
			switch rng.IntN(4) {
			case 0:
				hit(ctx, a, c, m.Actor, "PATCH", definitions+"/"+name, []byte(`{"spec":{"names":{"shortNames":["`+others(rng).Plural+`","s`+fmt.Sprint(rng.IntN(100))+`"],"categories":["all"],"singular":"`+strings.ToLower(others(rng).Kind)+`"}}}`), "Content-Type", "application/merge-patch+json")
			case 1:
				hit(ctx, a, c, m.Actor, "PATCH", definitions+"/"+name+"/status", []byte(`{"status":{"acceptedNames":{"plural":"`+plural+`","kind":"`+kind+`"},"conditions":[{"type":"Established","status":"True"},{"type":"NamesAccepted","status":"True"}],"storedVersions":["v1"]}}`), "Content-Type", "application/merge-patch+json")
			case 2:
				hit(ctx, a, c, m.Actor, "POST", r.path("arena", ""), []byte(`{"apiVersion":"`+r.apiVersion()+`","kind":"`+r.Kind+`","metadata":{"name":"x"}}`))
			}
			if chance(rng, 2) {
				hit(ctx, a, c, m.Actor, "DELETE", definitions+"/"+name, nil)
			}
		}
	})
}

// multiply makes a kind whose defaults, rules, patterns, columns or branches multiply what is sent, writes objects of it, and reads them.
func multiply(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	plural := fmt.Sprint("m", rng.IntN(1e6), "s")
	text := func(n int) string { return strings.Repeat("d", n) }
	weight := 10_000*m.Size + 10
	schema := pick(rng,
		`{"type":"object","properties":{"a":{"type":"string","default":"`+text(weight)+`"}}}`,
		`{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string","default":"`+text(weight/50)+`"}}}}}}`,
		`{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","default":{},"properties":{"o":{"type":"object","default":{},"properties":{"p":{"type":"string","default":"`+text(weight/100)+`"},"q":{"type":"string","default":"`+text(weight/100)+`"}}}}}}}}`,
		`{"type":"object","properties":{"l":{"type":"array","items":{"type":"string","pattern":"^(a|b|ab)*c$"}}}}`,
		`{"type":"object","properties":{"l":{"type":"array","maxItems":1000,"items":{"type":"string","maxLength":100}}},"x-kubernetes-validations":[{"rule":"self.l.all(x, self.l.exists(y, y != x)) || true"}]}`,
		`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"allOf":[`+times(20, func(int) string { return `{"anyOf":[{"required":["x"]},{"not":{"required":["y"]}}]}` })+`]}`)
	columns := `,"additionalPrinterColumns":[` + times(1+rng.IntN(30), func(i int) string {
		return fmt.Sprintf(`{"name":"c%d","type":"string","jsonPath":%q}`, i, pick(rng, ".l", ".l[*]", "..a", "..[*]", ".l[*].a", ".l[*].o.p"))
	}) + `]`
	hit(ctx, a, c, m.Actor, "POST", definitions, definition("attack.example", "v1", plural, "K"+plural, "Namespaced", schema, columns))
	path := "/apis/attack.example/v1/namespaces/arena/" + plural
	for hit(ctx, a, c, m.Actor, "GET", path, nil).code != 200 && ctx.Err() == nil {
		pause(ctx, 100*time.Millisecond)
	}
	items := times(1000, func(int) string { return pick(rng, "{}", "{}", `{"o":{}}`) })
	if strings.Contains(schema, `"items":{"type":"string"`) {
		items = times(1000, func(i int) string { return fmt.Sprintf(`"%s%d"`, text(20), i) })
	}
	if strings.Contains(schema, `"allOf"`) {
		items = times(20_000, func(i int) string { return "1" })
	}
	for i := range 3 + m.Size/3 {
		hit(ctx, a, c, m.Actor, "POST", path, fmt.Appendf(nil, `{"apiVersion":"attack.example/v1","kind":"K%s","metadata":{"name":"x%d"},"l":[%s]}`, plural, i, items))
	}
	crowd(rng, 1+m.Size/8, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			at := pick(rng, path, strings.Replace(path, "/v1/", "/v1alpha9/", 1))
			hit(ctx, a, c, m.Actor, "GET", at+pick(rng, "", "?limit=5", "?pretty=true", "?watch=1&timeoutSeconds=2", "/x1"), nil, "Accept", accept(rng))
		}
	})
}

// govern writes policies that cost much and webhooks that misbehave, for a kind that only attackers use, and objects of it.
func govern(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	hook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { misbehave(ctx, w, r) }))
	hook.StartTLS()
	defer hook.Close()
	defer hook.CloseClientConnections()
	const registration = "/apis/admissionregistration.k8s.io/v1/"
	const rules = `[{"apiGroups":["attack.example"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]`
	crowd(rng, 1+m.Size/25, func(i int, rng *rand.Rand) {
		for ctx.Err() == nil {
			name := fmt.Sprint("p", rng.IntN(20))
			expression, _ := json.Marshal(pick(rng,
				"object.l.all(x, object.l.all(y, object.l.all(z, x == y || y == z)))",
				"object.metadata.name.matches('"+strings.Repeat("(a|b)*", 1+rng.IntN(200))+"')",
				"[1,2,3].map(x, [1,2,3].map(y, [1,2,3].map(z, '"+strings.Repeat("e", 1000)+"'))).size() > 0",
				strings.Repeat("(", rng.IntN(300))+"1", strings.Repeat("true && ", 1+rng.IntN(5000))+"true",
				"authorizer.group('').resource('secrets').namespace('vault').check('get').allowed()", "variables.v0.size() > 0"))
			switch rng.IntN(3) {
			case 0:
				hit(ctx, a, c, m.Actor, "POST", registration+"validatingadmissionpolicies", fmt.Appendf(nil, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":%q},"spec":{"failurePolicy":"Ignore","matchConstraints":{"resourceRules":%s},"variables":[%s],"validations":[%s]}}`,
					name, rules, times(rng.IntN(20), func(i int) string {
						return fmt.Sprintf(`{"name":"v%d","expression":%q}`, i, strings.Repeat("'a'+", i)+"'b'")
					}), times(1+rng.IntN(50), func(int) string { return `{"expression":` + string(expression) + `}` })))
				hit(ctx, a, c, m.Actor, "POST", registration+"validatingadmissionpolicybindings", fmt.Appendf(nil, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":%q},"spec":{"policyName":%q,"validationActions":["Deny"]}}`, name, name))
			case 1:
				hit(ctx, a, c, m.Actor, "POST", registration+"mutatingwebhookconfigurations", fmt.Appendf(nil, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":%q},"webhooks":[{"name":"w.attack.example","failurePolicy":"Ignore","sideEffects":"None","timeoutSeconds":5,"admissionReviewVersions":["v1"],"clientConfig":{"url":"%s/%d","caBundle":%q},"rules":%s}]}`,
					name, hook.URL, rng.IntN(10), bundle(hook), rules))
			case 2:
				hit(ctx, a, c, m.Actor, "DELETE", registration+pick(rng, "mutatingwebhookconfigurations/", "validatingadmissionpolicybindings/")+name, nil)
			}
			for range 5 {
				hit(ctx, a, c, m.Actor, "POST", "/apis/attack.example/v1/namespaces/arena/targets", fmt.Appendf(nil, `{"apiVersion":"attack.example/v1","kind":"Target","metadata":{"generateName":"t"},"l":[%s]}`, times(1+rng.IntN(2000), func(i int) string { return fmt.Sprint(i) })))
			}
			hit(ctx, a, c, m.Actor, "DELETE", "/apis/attack.example/v1/namespaces/arena/targets", nil)
		}
	})
}

// misbehave is a webhook: the last element of its path says how.
func misbehave(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, io.LimitReader(r.Body, 16<<20))
	review := func(patch string) {
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"x","allowed":true%s}}`, patch)
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/0": // never
		select {
		case <-ctx.Done():
		case <-r.Context().Done():
		}
	case "/1": // endless
		for ctx.Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("[", 1<<16)); err != nil {
				return
			}
		}
	case "/2": // deep
		io.WriteString(w, strings.Repeat(`{"response":`, 100_000))
	case "/3":
		w.WriteHeader(http.StatusFound)
	case "/4":
		http.Redirect(w, r, "/0", http.StatusTemporaryRedirect)
	case "/5":
		review(`,"patchType":"JSONPatch","patch":"` + strings.Repeat("W10=", 100_000) + `"`)
	case "/6":
		review(`,"warnings":[` + times(50_000, func(int) string { return `"w\n\u001b[31m"` }) + `]`)
	case "/7": // more objects than were sent
		io.WriteString(w, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"x","result":{"status":"Success"},"convertedObjects":[`+strings.Repeat("{},", 500_000)+`{}]}}`)
	case "/8": // little that becomes much
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for range 2000 {
			if _, err := z.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
		z.Close()
	default:
		panic(http.ErrAbortHandler)
	}
}

// bundle is the CA of a test server, in base64 of PEM.
func bundle(s *httptest.Server) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}
