package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// This file has the moves whose objects multiply, or decide about requests: owners and dependents, many small objects and definitions,
// conversion webhooks, quotas, limits, events, and priority and fairness.

// flood sends small requests that are all right, as many as it can, over a few connections or over one for each.
func flood(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	shared := client(a, m.Actor, attackersAddress, true)
	defer shared.CloseIdleConnections()
	crowd(rng, 4+m.Size, func(i int, rng *rand.Rand) {
		c := shared
		if i%2 == 0 {
			c = client(a, m.Actor, attackersAddress, false)
			defer c.CloseIdleConnections()
		}
		for ctx.Err() == nil {
			switch rng.IntN(5) {
			case 0:
				hit(ctx, a, c, m.Actor, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", []byte(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`))
			case 1:
				hit(ctx, a, c, m.Actor, "GET", reading(a, rng)+pick(rng, "", "?timeoutSeconds=1"), nil, "Accept", accept(rng))
			case 2:
				r, namespace := somewhere(a, m.Actor, rng)
				hit(ctx, a, c, m.Actor, "GET", r.path(namespace, "none"), nil)
			default:
				hit(ctx, a, c, m.Actor, "GET", "/api/v1/namespaces/arena/configmaps?limit=5&resourceVersion=0", nil)
			}
		}
	})
}

// breed makes families of objects: owners with many dependents, dependents with many owners, owners in a circle; and deletes them in
// every way, while finalizers hold some.
func breed(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	const maps, accounts = "/api/v1/namespaces/arena/configmaps", "/api/v1/namespaces/arena/serviceaccounts"
	owner := func(name, uid string, rng *rand.Rand) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"name":%q,"uid":%q,"blockOwnerDeletion":%v}`, pick(rng, "ConfigMap", "ConfigMap", "Secret", "Node", "Nothing"), name, uid, chance(rng, 2))
	}
	crowd(rng, 2+m.Size/8, func(i int, rng *rand.Rand) {
		for n := 0; ctx.Err() == nil; n++ {
			parent := fmt.Sprintf("breed-%d-%d", i, n%10)
			answer := hit(ctx, a, c, m.Actor, "POST", maps, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q%s}}`, parent, pick(rng, "", "", `,"finalizers":["attack.example/f"]`)))
			uid := between(string(answer.body), `"uid":"`, `"`)
			for range rng.IntN(3 + m.Size) {
				owners := times(1+rng.IntN(30), func(k int) string {
					if k == 0 && uid != "" {
						return owner(parent, uid, rng)
					}
					return owner(fmt.Sprint("none", k), fmt.Sprint("uid-", rng.IntN(50)), rng)
				})
				hit(ctx, a, c, m.Actor, "POST", maps, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"child-","ownerReferences":[%s]}}`, owners))
			}
			// A circle: the parent belongs to a child of its own.
			hit(ctx, a, c, m.Actor, "PATCH", maps+"/"+parent, fmt.Appendf(nil, `{"metadata":{"ownerReferences":[%s]}}`, owner(parent, uid, rng)), "Content-Type", "application/merge-patch+json")
			hit(ctx, a, c, m.Actor, "POST", accounts, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"generateName":"sa-"}}`))
			how := "?propagationPolicy=" + pick(rng, "Foreground", "Background", "Orphan")
			hit(ctx, a, c, m.Actor, "DELETE", maps+"/"+parent+how, nil)
			if chance(rng, 4) {
				hit(ctx, a, c, m.Actor, "DELETE", pick(rng, maps, accounts)+how, nil)
			}
		}
	})
}

func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	found, _, _ := strings.Cut(rest, after)
	return found
}

// swarm makes many definitions with many versions and names, while it reads what the server publishes about them.
func swarm(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	crowd(rng, 1+m.Size/20, func(i int, rng *rand.Rand) {
		for n := 0; ctx.Err() == nil; n++ {
			plural := fmt.Sprintf("s%d-%d", i, n%40)
			schema := `{"type":"object","properties":{` + times(1+rng.IntN(20*m.Size), func(k int) string { return fmt.Sprintf(`"p%d":{"type":"string","description":"d"}`, k) }) + `}}`
			versions := times(1+rng.IntN(30), func(k int) string {
				return fmt.Sprintf(`{"name":"v%d","served":true,"storage":%v,"schema":{"openAPIV3Schema":%s}}`, k+1, k == 0, schema)
			})
			hit(ctx, a, c, m.Actor, "POST", definitions, fmt.Appendf(nil, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.attack.example"},"spec":{"group":"attack.example","scope":"Namespaced","names":{"plural":%q,"kind":"S%dx%d","shortNames":[%s]},"versions":[%s]}}`,
				plural, plural, i, n%40, times(rng.IntN(200), func(k int) string { return fmt.Sprintf(`"n%d-%d"`, i, k) }), versions))
			hit(ctx, a, c, m.Actor, "GET", pick(rng, "/openapi/v2", "/openapi/v3/apis/attack.example/v1", "/apis", "/apis/attack.example/v1"), nil, "Accept", accept(rng))
			if chance(rng, 2) {
				hit(ctx, a, c, m.Actor, "DELETE", definitions+"/"+plural+".attack.example", nil)
			}
		}
	})
}

// convert makes a kind whose conversion webhook misbehaves, and objects of it, and reads them in the other version.
func convert(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	hook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { misbehave(ctx, w, r) }))
	hook.StartTLS()
	defer hook.Close()
	defer hook.CloseClientConnections()
	crowd(rng, 1+m.Size/25, func(i int, rng *rand.Rand) {
		plural := fmt.Sprint("c", rng.IntN(1e6), "s")
		const open = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`
		body := definition("attack.example", "v1", plural, "K"+plural, "Namespaced", open, "")
		body = append(body[:len(body)-2:len(body)-2], fmt.Appendf(nil, `,"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"%s/%d","caBundle":%q}}}}}`, hook.URL, rng.IntN(10), bundle(hook))...)
		hit(ctx, a, c, m.Actor, "POST", definitions, body)
		path := "/apis/attack.example/v1/namespaces/arena/" + plural
		for n := 0; ctx.Err() == nil; n++ {
			hit(ctx, a, c, m.Actor, "POST", path, fmt.Appendf(nil, `{"apiVersion":"attack.example/v1","kind":"K%s","metadata":{"name":"x%d"},"a":"%s"}`, plural, n%50, strings.Repeat("a", rng.IntN(1000*m.Size))))
			other, cancel := context.WithTimeout(ctx, 3*time.Second)
			hit(other, a, c, m.Actor, "GET", strings.Replace(path, "/v1/", "/v1alpha9/", 1)+pick(rng, "", "?watch=1&timeoutSeconds=2", "?limit=3", "/x0"), nil, "Accept", accept(rng))
			cancel()
		}
	})
}

// quotas writes quotas and limits that cannot be kept, and says what is used of them, while objects that they count come and go.
func quotas(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	const path = "/api/v1/namespaces/arena/"
	quantity := func(rng *rand.Rand) string {
		return pick(rng, "0", "1", "-1", "9223372036854775807", "9223372036854775808", "1e30", "1E", "1n", "0.1m", "1e-30", strings.Repeat("9", 400), "1e9999999")
	}
	name := func(k int, rng *rand.Rand) string {
		return pick(rng, "pods", "configmaps", "services", "requests.cpu", "limits.memory", "requests.storage", "count/configmaps", "count/pods", "count/works.ordinary.example", "count/none.example", "gold.storageclass.storage.k8s.io/requests.storage", "requests.nvidia.com/gpu", "services.nodeports", fmt.Sprintf("count/x%d.attack.example", k))
	}
	crowd(rng, 2+m.Size/8, func(i int, rng *rand.Rand) {
		for ctx.Err() == nil {
			q := fmt.Sprint("q", rng.IntN(2+m.Size))
			hard := times(1+rng.IntN(3*m.Size), func(k int) string { return fmt.Sprintf(`%q:%q`, name(k, rng), quantity(rng)) })
			switch rng.IntN(6) {
			case 0:
				hit(ctx, a, c, m.Actor, "POST", path+"resourcequotas", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":%q},"spec":{"hard":{%s}%s}}`, q, hard,
					pick(rng, "", `,"scopes":["BestEffort"]`, `,"scopes":["BestEffort","NotBestEffort","Terminating","NotTerminating"]`, `,"scopeSelector":{"matchExpressions":[`+times(200, func(int) string { return `{"scopeName":"PriorityClass","operator":"In","values":["a"]}` })+`]}`)))
			case 1:
				hit(ctx, a, c, m.Actor, "PATCH", path+"resourcequotas/"+q+"/status", fmt.Appendf(nil, `{"status":{"hard":{%s},"used":{%s}}}`, hard, hard), "Content-Type", "application/merge-patch+json")
			case 2:
				hit(ctx, a, c, m.Actor, "POST", path+"limitranges", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":%q},"spec":{"limits":[%s]}}`, q, times(1+rng.IntN(5*m.Size), func(int) string {
					return fmt.Sprintf(`{"type":%q,"max":{"cpu":%q},"min":{"memory":%q},"default":{"cpu":%q},"maxLimitRequestRatio":{"cpu":%q}}`, pick(rng, "Container", "Pod", "PersistentVolumeClaim", "x"), quantity(rng), quantity(rng), quantity(rng), quantity(rng))
				})))
			case 3:
				hit(ctx, a, c, m.Actor, "DELETE", path+pick(rng, "resourcequotas", "limitranges", "pods", "configmaps"), nil)
			default:
				hit(ctx, a, c, m.Actor, "POST", path+"pods", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"q"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":%q},"limits":{"cpu":%q,"nvidia.com/gpu":"1"}}}]}}`, quantity(rng), quantity(rng)))
				hit(ctx, a, c, m.Actor, "POST", path+"configmaps", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"q"}}`))
			}
		}
	})
}

// events writes events of many objects and sources, which the plugin EventRateLimit counts.
func events(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	crowd(rng, 2+m.Size/8, func(_ int, rng *rand.Rand) {
		for n := 0; ctx.Err() == nil; n++ {
			long := strings.Repeat("e", rng.IntN(3000))
			hit(ctx, a, c, m.Actor, "POST", "/api/v1/namespaces/"+pick(rng, "arena", "arena", "vault", "default")+"/events", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Event","metadata":{"generateName":"e"},"type":"Normal","reason":"r","message":%q,"count":%d,"source":{"component":"c%d","host":%q},"involvedObject":{"kind":"Pod","namespace":"arena","name":"p%d","uid":%q}}`,
				long, rng.IntN(3)-1, rng.IntN(1e6), long, n, long))
		}
	})
}

// fairness writes flow schemas and priority levels for the attackers alone, whose figures are odd, and sends requests that they sort.
func fairness(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	const path = "/apis/flowcontrol.apiserver.k8s.io/v1/"
	number := func(rng *rand.Rand) int { return pick(rng, 0, 1, 2, 50, 10_000, 10_000_000, 1<<31-1, -1) }
	crowd(rng, 2+m.Size/12, func(i int, rng *rand.Rand) {
		for ctx.Err() == nil {
			name := fmt.Sprint("f", rng.IntN(1+m.Size))
			switch rng.IntN(5) {
			case 0:
				hit(ctx, a, c, m.Actor, "POST", path+"prioritylevelconfigurations", fmt.Appendf(nil, `{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"PriorityLevelConfiguration","metadata":{"name":%q},"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":%d,"lendablePercent":%d,"borrowingLimitPercent":%d,"limitResponse":{"type":"Queue","queuing":{"queues":%d,"handSize":%d,"queueLengthLimit":%d}}}}}`,
					name, rng.IntN(3), number(rng), number(rng), number(rng), number(rng), number(rng)))
			case 1:
				hit(ctx, a, c, m.Actor, "POST", path+"flowschemas", fmt.Appendf(nil, `{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":%q},"spec":{"priorityLevelConfiguration":{"name":%q},"matchingPrecedence":%d,"distinguisherMethod":{"type":%q},"rules":[%s]}}`,
					name, name, 1+rng.IntN(10_001), pick(rng, "ByUser", "ByNamespace"), times(1+rng.IntN(100*m.Size), func(int) string {
						return `{"subjects":[{"kind":"Group","group":{"name":"attackers"}}],"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"namespaces":["*"],"clusterScope":true}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}`
					})))
			case 2:
				hit(ctx, a, c, m.Actor, "PATCH", path+pick(rng, "flowschemas/", "prioritylevelconfigurations/")+name+"/status", []byte(`{"status":{"conditions":[`+times(rng.IntN(50*m.Size), func(k int) string { return fmt.Sprintf(`{"type":"T%d","status":"True"}`, k) })+`]}}`), "Content-Type", "application/merge-patch+json")
			case 3:
				hit(ctx, a, c, m.Actor, "DELETE", path+pick(rng, "flowschemas/", "prioritylevelconfigurations/")+name, nil)
			default:
				for range 20 {
					hit(ctx, a, c, m.Actor, "GET", reading(a, rng)+pick(rng, "", "?timeoutSeconds=1"), nil)
				}
			}
		}
	})
}
