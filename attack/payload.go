package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// This file has the moves that send complete requests whose content is hostile.

// largest is what a body may have at most: what the server takes is a little more.
const largest = 2_900_000

// templates are valid objects of kinds that an actor may write.
var templates = []string{
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME"},"data":{"a":"b"},"binaryData":{"c":"ZA=="}}`,
	`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"NAME"},"data":{"a":"Yg=="},"stringData":{"c":"d"}}`,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"NAME"},"spec":{"ports":[{"name":"p","port":80,"targetPort":"http"}],"selector":{"a":"b"}}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}],"env":[{"name":"A","value":"b"}],"resources":{"limits":{"cpu":"1"}}}],"volumes":[{"name":"v","emptyDir":{}}]}}`,
	`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"NAME"}}`,
	`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"NAME"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
	`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"NAME"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"NAME"},"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"NAME"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`,
	`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"NAME"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`,
	`{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"NAME"},"spec":{"rules":[{"host":"h","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"s","port":{"number":80}}}}]}}]}}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"NAME"},"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]}`,
	`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"NAME"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}`,
	`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"NAME"},"spec":{"holderIdentity":"h"}}`,
	`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"NAMEs.attack.example"},"spec":{"group":"attack.example","scope":"Namespaced","names":{"plural":"NAMEs","kind":"NAME"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"a":{"type":"string","default":"b","pattern":"^b"},"l":{"type":"array","items":{"type":"integer"}}},"x-kubernetes-validations":[{"rule":"self.a != ''"}]}}}},"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".spec.a"}]}]}}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"NAME"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["attack.example"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]},"validations":[{"expression":"object.metadata.name != 'x'"}]}}`,
	`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"NAME"},"spec":{"signerName":"attack.example/s","usages":["client auth"],"request":"YQ=="}}`,
	`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
}

// template draws an object of a kind that the actor may write; the path is that of its list.
func template(a *arena, actor string, rng *rand.Rand) (r resource, object map[string]any) {
	for {
		text := strings.ReplaceAll(templates[rng.IntN(len(templates))], "NAME", fmt.Sprint("n", rng.IntN(40)))
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			panic("BUG: " + err.Error())
		}
		for _, r := range a.resources {
			if r.apiVersion() == object["apiVersion"] && r.Kind == object["kind"] && (chance(rng, 24) || writes(actor, r)) {
				return r, object
			}
		}
	}
}

// writes tells whether an actor may write a resource.
func writes(actor string, r resource) bool {
	switch actor {
	case "author":
		return r.Group == "apiextensions.k8s.io"
	case "policies":
		return r.Group == "admissionregistration.k8s.io"
	case "node":
		return r.Plural == "nodes" || r.Plural == "pods" || r.Plural == "certificatesigningrequests"
	}
	return r.Namespaced
}

func nameOf(object map[string]any) string {
	m, _ := object["metadata"].(map[string]any)
	name, _ := m["name"].(string)
	return name
}

// nest sends values inside values, as deep as a body allows, in every format.
func nest(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	crowd(rng, 1+m.Size/25, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			r, object := template(a, m.Actor, rng)
			depth := pick(rng, 500, 5_000, 50_000, 500_000, 1_400_000)
			body, contentType := nested(r, object, depth, rng)
			if len(body) > largest {
				continue
			}
			method, path := "POST", r.path("arena", "")
			if chance(rng, 3) {
				method, path = "PUT", r.path("arena", nameOf(object))
			}
			if chance(rng, 4) && strings.HasSuffix(contentType, "json") {
				method, path = "PATCH", r.path("arena", nameOf(object))
				contentType = pick(rng, "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml")
			}
			hit(ctx, a, c, m.Actor, method, path+pick(rng, "", "?dryRun=All", "?fieldValidation=Strict&fieldManager=n"), body, "Content-Type", contentType)
		}
	})
}

func nested(r resource, object map[string]any, depth int, rng *rand.Rand) (body []byte, contentType string) {
	head, err := json.Marshal(object)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	repeat := func(open, middle, shut string) string {
		n := min(depth, (largest-len(head)-len(middle))/(len(open)+len(shut)+1))
		return strings.Repeat(open, n) + middle + strings.Repeat(shut, n)
	}
	switch rng.IntN(8) {
	case 0: // some field of the object, or of its metadata or spec
		field := pick(rng, "spec", "metadata", "data", "status", "extra")
		deep := pick(rng, repeat(`{"a":`, "1", "}"), repeat("[", "1", "]"), repeat(`[{"items":`, "{}", "}]"))
		return append(head[:len(head)-1:len(head)-1], []byte(`,"`+field+`":`+deep+"}")...), "application/json"
	case 1: // a schema in a schema
		deep := pick(rng, repeat(`{"not":`, "{}", "}"), repeat(`{"items":`, "{}", "}"), repeat(`{"type":"object","properties":{"a":`, "{}", "}}"),
			repeat(`{"allOf":[`, "{}", "]}"), repeat(`{"additionalProperties":`, "{}", "}"))
		return bytes.Replace(head, []byte(`"openAPIV3Schema":{`), []byte(`"openAPIV3Schema":{"not":`+deep+`,`), 1), "application/json"
	case 2: // a text that something parses: a rule, a pattern, a path
		deep := pick(rng, repeat("(", "1", ")"), repeat("[", "1", "]"), repeat("!", "true", ""), repeat("-", "1", ""), repeat("{1:", "1", "}"), repeat("a.", "b", ""), repeat("x?1:", "2", ""))
		quoted, _ := json.Marshal(deep)
		for _, field := range []string{`"rule":`, `"expression":`, `"pattern":`, `"jsonPath":`, `"schedule":`, `"image":`} {
			if at := bytes.Index(head, []byte(field)); at >= 0 {
				rest := head[at+len(field)+1:]
				end := bytes.IndexByte(rest, '"')
				return append(append(head[:at+len(field):at+len(field)], quoted...), rest[end+1:]...), "application/json"
			}
		}
		return append(head[:len(head)-1:len(head)-1], []byte(`,"spec":{"deep":`+string(quoted)+"}}")...), "application/json"
	case 3: // YAML
		return []byte("apiVersion: " + r.apiVersion() + "\nkind: " + r.Kind + "\nmetadata: {name: x}\nspec: " + pick(rng, repeat("[", "1", "]"), repeat("{a: ", "1", "}"), repeat("- ", "1", ""), repeat("? ", "1", ""))), "application/yaml"
	case 4:
		return []byte(repeat("[", "", "]")), "application/json"
	}
	return nestedProtobuf(r, depth, rng), "application/vnd.kubernetes.protobuf"
}

// nestedProtobuf makes a message whose fields contain one another. The numbers are drawn, but for the way to the one type of the API
// that contains itself: the schemas of CRDs, at spec.versions.schema.openAPIV3Schema.
func nestedProtobuf(r resource, depth int, rng *rand.Rand) []byte {
	if !chance(rng, 4) {
		depth = largest
	}
	cycle := []int{1 + rng.IntN(45)}
	if chance(rng, 3) {
		cycle = append(cycle, 1+rng.IntN(45))
	}
	way := []int{1 + rng.IntN(3)}
	if r.Kind == "CustomResourceDefinition" {
		way = []int{2, 7, 4, 1}
	}
	// The parts are made from the inside out, and written in the other direction.
	size, parts := 0, [][]byte(nil)
	wrap := func(number int) {
		head := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3|2), uint64(size))
		parts = append(parts, head)
		size += len(head)
	}
	for i := 0; i < depth && size < largest-1000; i++ {
		wrap(cycle[i%len(cycle)])
	}
	for i := len(way) - 1; i >= 0; i-- {
		wrap(way[i])
	}
	raw := make([]byte, 0, size)
	for i := len(parts) - 1; i >= 0; i-- {
		raw = append(raw, parts[i]...)
	}
	field := func(number int, b []byte) []byte {
		return append(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)<<3|2), uint64(len(b))), b...)
	}
	types := append(field(1, []byte(r.apiVersion())), field(2, []byte(r.Kind))...)
	return append(append([]byte("k8s\x00"), field(1, types)...), field(2, raw)...)
}

// repeat sends bodies that repeat something cheap as often as they can.
func repeat(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	const maps, deployments = "/api/v1/namespaces/arena/configmaps", "/apis/apps/v1/namespaces/arena/deployments"
	hit(ctx, a, c, m.Actor, "POST", maps, []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big"},"data":{`+times(8000*m.Size/100+1, func(i int) string { return fmt.Sprintf(`"k%d":"v"`, i) })+`}}`))
	hit(ctx, a, c, m.Actor, "POST", deployments, []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"big"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","env":[`+
		times(20000*m.Size/100+1, func(i int) string { return fmt.Sprintf(`{"name":"E%d","value":"v"}`, i) })+`]}]}}}}`))
	n := 400*m.Size + 1
	crowd(rng, 2+m.Size/12, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			switch rng.IntN(8) {
			case 0: // strategic merge of long lists
				hit(ctx, a, c, m.Actor, "PATCH", deployments+"/big?dryRun=All", []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[`+
					times(n, func(i int) string { return fmt.Sprintf(`{"name":"F%d","value":"v"}`, i) })+`]}]}}}}`), "Content-Type", "application/strategic-merge-patch+json")
			case 1: // JSON patches
				op := pick(rng, `{"op":"add","path":"/spec/template/spec/containers/0/env/0","value":{"name":"G%d"}}`, `{"op":"copy","from":"/spec","path":"/metadata/annotations/x%d"}`,
					`{"op":"test","path":"/spec/template/spec/containers/0/env/%d","value":{}}`, `{"op":"remove","path":"/spec/template/spec/containers/0/env/0"}`, `{"op":"move","from":"/spec/template/spec/containers/0/env/0","path":"/spec/template/spec/containers/0/env/-"}`)
				hit(ctx, a, c, m.Actor, "PATCH", deployments+"/big?dryRun=All", []byte("["+times(min(n, 10_000), func(i int) string { return strings.ReplaceAll(op, "%d", fmt.Sprint(i)) })+"]"), "Content-Type", "application/json-patch+json")
			case 2: // YAML that grows by its aliases
				var b strings.Builder
				b.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata:\n  a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
				for i := range 2 + rng.IntN(8) {
					fmt.Fprintf(&b, "  a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 3+rng.IntN(8)))
				}
				b.WriteString("  flat: [" + strings.Repeat("*a0,", n) + "]\n")
				hit(ctx, a, c, m.Actor, "POST", maps, []byte(b.String()), "Content-Type", "application/yaml")
			case 3: // YAML with many small values
				hit(ctx, a, c, m.Actor, "POST", maps, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata:\n"+strings.Repeat(pick(rng, "  ? a\n", "  a: \"\\u0061\"\n", "  - [a]\n", "  <<: {a: b}\n"), min(20*n, 250_000))), "Content-Type", "application/yaml")
			case 4: // selectors
				hit(ctx, a, c, m.Actor, "GET", maps+"?labelSelector="+strings.Repeat("!a%2C", min(2*n, 200_000))+"b&limit=500", nil)
			case 5: // metadata
				hit(ctx, a, c, m.Actor, "POST", maps+"?dryRun=All", []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"z",`+pick(rng,
					`"finalizers":[`+times(n, func(i int) string { return fmt.Sprintf(`"a.b/f%d"`, i) })+`]`,
					`"ownerReferences":[`+times(n, func(i int) string {
						return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","name":"p%d","uid":"u%d"}`, i, i)
					})+`]`,
					`"labels":{`+times(n, func(i int) string { return fmt.Sprintf(`"l%d":"%d"`, i, i) })+`}`)+`}}`))
			case 6: // duplicate and unknown fields
				hit(ctx, a, c, m.Actor, "POST", maps+"?fieldValidation="+pick(rng, "Warn", "Strict"), []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"z"},`+times(10*n, func(i int) string { return fmt.Sprintf(`"u%d":1,"u%d":1`, i, i) })+`}`))
			case 7: // server-side apply of a long set
				hit(ctx, a, c, m.Actor, "PATCH", maps+"/z?force=true&fieldManager=m"+fmt.Sprint(rng.IntN(3)), []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"z"},"data":{`+times(n, func(i int) string { return fmt.Sprintf(`"s%d":""`, n-i) })+`}}`), "Content-Type", "application/apply-patch+yaml")
			}
		}
	})
}

// times joins n pieces by commas, as many as a body holds.
func times(n int, piece func(i int) string) string {
	var b strings.Builder
	for i := 0; i < n && b.Len() < largest-10_000; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(piece(i))
	}
	return b.String()
}

// mutate sends valid objects with something in them replaced, to all verbs and subresources.
func mutate(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	crowd(rng, 1+m.Size/12, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			r, object := template(a, m.Actor, rng)
			name := nameOf(object)
			var changed any = object
			for range rng.IntN(4) {
				changed = mutated(changed, rng)
			}
			body, err := json.Marshal(changed)
			if err != nil {
				continue
			}
			if chance(rng, 10) {
				body[rng.IntN(len(body))] = byte(rng.Uint32())
			}
			query := pick(rng, "", "?fieldManager=m1", "?fieldManager=m2&force=true", "?dryRun=All", "?fieldValidation=Strict", "?propagationPolicy=Foreground", "?gracePeriodSeconds=0")
			path := r.path("arena", name) + pick(rng, "", "", "", "/status", "/scale", "/finalize", "/token", "/eviction", "/binding", "/approval", "/log", "/ephemeralcontainers", "/resize", "/x")
			switch rng.IntN(8) {
			case 0, 1:
				hit(ctx, a, c, m.Actor, "POST", r.path("arena", "")+query, body)
			case 2:
				hit(ctx, a, c, m.Actor, "PUT", path+query, body)
			case 3:
				hit(ctx, a, c, m.Actor, pick(rng, "DELETE", "GET", "POST"), path+query, body)
			default:
				hit(ctx, a, c, m.Actor, "PATCH", path+query, body, "Content-Type", pick(rng, "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/json-patch+json"))
			}
		}
	})
}

// mutated replaces a value somewhere in a tree, or adds one.
func mutated(v any, rng *rand.Rand) any {
	if chance(rng, 6) {
		return hostileValue(rng)
	}
	switch v := v.(type) {
	case map[string]any:
		if chance(rng, 5) || len(v) == 0 {
			v[pick(rng, "$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers", "x", "", "metadata", "managedFields", "generateName")] = hostileValue(rng)
			return v
		}
		at := rng.IntN(len(v))
		for _, k := range sortedKeys(v) {
			if at--; at < 0 {
				v[k] = mutated(v[k], rng)
				break
			}
		}
	case []any:
		if len(v) > 0 && !chance(rng, 5) {
			at := rng.IntN(len(v))
			v[at] = mutated(v[at], rng)
		} else {
			return append(v, hostileValue(rng))
		}
	default:
		return hostileValue(rng)
	}
	return v
}

func hostileValue(rng *rand.Rand) any {
	return pick[any](rng, nil, "", "x", strings.Repeat("y", 300), "\x00", "\u202e", "../..", "9999999999999999999999", 0, -1, 1<<62, 1.5, 1e300, true,
		[]any{}, []any{nil}, []any{[]any{}}, []any{map[string]any{}}, map[string]any{}, map[string]any{"$patch": "delete"}, map[string]any{"$patch": "replace"},
		map[string]any{"$patch": 1}, []any{map[string]any{"$patch": "merge", "name": "c"}}, []any{"$patch"}, map[string]any{"": nil}, []any{"a", "a"},
		[]any{map[string]any{"name": "c"}, map[string]any{"name": "c"}}, "kube-system", "1Gi", "{{", "$(A)", "self", "🦀")
}

// applySideBySide applies objects by several managers at the same time, after client-side apply made them.
func applySideBySide(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	const deployments = "/apis/apps/v1/namespaces/arena/deployments"
	object := func(name, annotations string, rng *rand.Rand) string {
		var containers []string
		for i := range 1 + rng.IntN(4) {
			containers = append(containers, fmt.Sprintf(`{"name":"c%d","image":"i:%d","env":[{"name":"A","value":"%d"}]}`, i, rng.IntN(4), rng.IntN(9)))
		}
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"annotations":{%s}},"spec":{"replicas":%d,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[%s]}}}}`,
			name, annotations, rng.IntN(3), strings.Join(containers, ","))
	}
	crowd(rng, 2+m.Size/5, func(i int, rng *rand.Rand) {
		name := fmt.Sprint("apply", i%8)
		for ctx.Err() == nil {
			last, _ := json.Marshal(object(name, "", rng))
			hit(ctx, a, c, m.Actor, "POST", deployments+"?fieldManager=kubectl-client-side-apply", []byte(object(name, `"kubectl.kubernetes.io/last-applied-configuration":`+string(last), rng)))
			for range rng.IntN(6) {
				hit(ctx, a, c, m.Actor, "PATCH", deployments+"/"+name+"?fieldManager="+pick(rng, "kubectl", "m1", "m2")+pick(rng, "", "", "&force=true"), []byte(object(name, "", rng)), "Content-Type", "application/apply-patch+yaml")
			}
			if chance(rng, 3) {
				hit(ctx, a, c, m.Actor, "DELETE", deployments+"/"+name, nil)
			}
		}
	})
}

// lists fills a namespace, and reads it in all formats without taking the answers, or taking them slowly.
func lists(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	const maps = "/api/v1/namespaces/arena/configmaps"
	object := func(name string, rng *rand.Rand) []byte {
		if chance(rng, 2) {
			return []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{` + times(6000, func(i int) string { return fmt.Sprintf(`"k%d":"%d"`, i, rng.IntN(1e9)) }) + `}}`)
		}
		return []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{"v":"` + strings.Repeat(random(8), 30_000) + `"}}`)
	}
	for i := range 4 + m.Size/5 {
		hit(ctx, a, c, m.Actor, "POST", maps, object(fmt.Sprint("l", i), rng))
	}
	query := pick(rng, "", "?pretty=true", "?watch=1", "?watch=1&resourceVersion=0", "?limit=3", "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	format := accept(rng)
	crowd(rng, 1+m.Size/10, func(_ int, rng *rand.Rand) {
		s, err := dial2(ctx, a)
		if err != nil {
			return
		}
		defer s.c.Close()
		for range 5 + 2*m.Size {
			if s.open(m.Actor, "GET", maps+query, true, "accept", format, "accept-encoding", pick(rng, "gzip", "identity")) != nil {
				return
			}
		}
		s.takeSlowly(ctx, rng)
	})
}

// takeSlowly reads a little of what comes, now and then, and lets the server go on by a little.
func (s *stream2) takeSlowly(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		for range rng.IntN(20) {
			s.c.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := s.f.ReadFrame(); err != nil {
				pause(ctx, time.Second)
				break
			}
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// grab looks for a way to objects of others: by strange paths, other people's headers, references, tokens and reviews.
func grab(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	targets := []string{"/api/v1/namespaces/vault/secrets/treasure", "/api/v1/namespaces/vault/configmaps/map", "/api/v1/secrets", "/api/v1/namespaces/vault/secrets",
		"/api/v1/namespaces/vault/configmaps?watch=1&timeoutSeconds=1", "/api/v1/watch/namespaces/vault/secrets?timeoutSeconds=1", "/api/v1/namespaces/ordinary/configmaps",
		"/snapshot", "/metrics", "/metrics/slis", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/statusz", "/flagz", "/logs/"}
	crowd(rng, 1+m.Size/25, func(_ int, rng *rand.Rand) {
		for ctx.Err() == nil {
			name := fmt.Sprint("g", rng.IntN(1000))
			space := pick(rng, "vault", "arena", "ordinary")
			switch rng.IntN(5) {
			case 0: // pods that need what the actor wants
				volume := pick(rng, `{"name":"s","secret":{"secretName":"treasure"}}`, `{"name":"s","configMap":{"name":"map"}}`, `{"name":"s","projected":{"sources":[{"secret":{"name":"treasure"}},{"configMap":{"name":"map"}}]}}`)
				hit(ctx, a, c, m.Actor, "POST", "/api/v1/namespaces/"+space+"/pods", []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"`+name+`"},"spec":{"nodeName":"n1","serviceAccountName":"keeper","containers":[{"name":"c","image":"i","env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"treasure","key":"gold"}}}]}],"volumes":[`+volume+`]}}`))
			case 1: // tokens of other accounts
				hit(ctx, a, c, m.Actor, "POST", "/api/v1/namespaces/"+space+"/serviceaccounts/"+pick(rng, "keeper", "default")+"/token", []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`))
			case 2: // headers that say who one is
				hit(ctx, a, c, m.Actor, "GET", targets[rng.IntN(len(targets))], nil, pick(rng, "Impersonate-User", "X-Remote-User", "Impersonate-Uid"), pick(rng, "admin", "ordinary", "system:admin"), pick(rng, "Impersonate-Group", "X-Remote-Group"), "system:masters")
			case 3: // roles, nodes and bindings
				body := pick(rng, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"`+name+`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"`+m.Actor+`"}]}`,
					`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"`+name+`"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"`+m.Actor+`"}]}`)
				hit(ctx, a, c, m.Actor, "POST", "/apis/rbac.authorization.k8s.io/v1/"+pick(rng, "clusterrolebindings", "namespaces/vault/rolebindings", "namespaces/arena/rolebindings"), []byte(body))
				hit(ctx, a, c, m.Actor, "PATCH", "/api/v1/nodes/"+pick(rng, "n1", "n2"), []byte(pick(rng, `{"spec":{"taints":null}}`, `{"metadata":{"labels":{"node-role.kubernetes.io/x":"y"}}}`)), "Content-Type", "application/merge-patch+json")
			}
			path := targets[rng.IntN(len(targets))]
			if chance(rng, 3) {
				path = strings.Replace(path, "/vault", pick(rng, "/vault%2f", "/arena/../vault", "//vault", "/VAULT", "/vault%00", "/arena%2f..%2fvault"), 1)
			}
			method := "GET"
			if path == "/snapshot" {
				method = pick(rng, "GET", "POST")
			}
			if got := hit(ctx, a, c, m.Actor, method, path, nil, "Accept", accept(rng)); got.code == 200 && m.Actor != "monitor" {
				a.leaked(fmt.Sprintf("%q may read %s", m.Actor, path))
			}
		}
	})
}
