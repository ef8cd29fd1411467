package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// This file has the move that stores objects of whose lists a server keeps something else in memory: an index of roles, a graph of
// owners, compiled policies and selectors, decoded quotas.

// listed are objects of all kinds that have lists. NAME is the name of an object; what is between << and >> is an item, which is repeated
// with another number in place of each %d.
var listed = []string{
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","ownerReferences":[<<{"apiVersion":"a/v","kind":"A","name":"a","uid":"%d"}>>]}}`,
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","ownerReferences":[<<{"apiVersion":"v1","kind":"Pod","name":"p%d","uid":"%d","blockOwnerDeletion":true}>>]}}`,
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","finalizers":[<<"a.b/f%d">>]}}`,
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","labels":{<<"l%d":"v%d">>}}}`,
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","annotations":{<<"a%d":"">>}},"data":{<<"k%d":"">>}}`,
	`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"NAME","managedFields":[<<{"manager":"m%d","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:a":{}}}}>>]},"data":{"a":"b"}}`,
	`{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"name":"NAME","annotations":{"kubernetes.io/service-account.name":"default",<<"a%d":"">>}}}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"NAME"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"admin"},"subjects":[<<{"kind":"User","name":"u%d"}>>]}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"NAME"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[<<{"kind":"ServiceAccount","namespace":"a","name":"%d"}>>]}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"NAME"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[<<{"kind":"Group","name":"g%d"}>>]}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"NAME"},"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":[<<"%d">>]}]}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"NAME"},"rules":[{"verbs":["get"],"apiGroups":[<<"g%d">>],"resources":[<<"r%d">>]}]}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"NAME"},"rules":[<<{"verbs":["v%d"],"nonResourceURLs":["/%d/*"]}>>]}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"NAME"},"aggregationRule":{"clusterRoleSelectors":[<<{"matchLabels":{"l%d":"v"}}>>]}}`,
	`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"NAME"},"secrets":[<<{"name":"s%d"}>>]}`,
	`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"NAME"},"imagePullSecrets":[<<{"name":"s%d"}>>]}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i","envFrom":[<<{"secretRef":{"name":"s%d"}}>>]}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"nodeName":"n1","imagePullSecrets":[<<{"name":"s%d"}>>],"containers":[{"name":"c","image":"i"}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"volumes":[<<{"name":"v%d","persistentVolumeClaim":{"claimName":"c%d"}}>>],"containers":[{"name":"c","image":"i"}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"tolerations":[<<{"key":"k%d","operator":"Exists"}>>],"hostAliases":[<<{"ip":"10.0.0.1","hostnames":["h%d"]}>>],"containers":[{"name":"c","image":"i"}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"containers":[<<{"name":"c%d","image":"i"}>>]}}`,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"NAME"},"spec":{"clusterIP":"None","ports":[<<{"name":"p%d","port":%d}>>],"selector":{"a":"b"}}}`,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"NAME"},"spec":{"ports":[{"port":1}],"selector":{<<"s%d":"">>}}}`,
	`{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"NAME"},"subsets":[<<{"addresses":[{"ip":"10.1.2.3","hostname":"h%d"}],"ports":[{"port":1}]}>>]}`,
	`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"NAME"},"addressType":"IPv4","ports":[{"port":1}],"endpoints":[<<{"addresses":["10.1.2.3"],"hostname":"h%d"}>>]}`,
	`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"NAME"},"spec":{"hard":{<<"count/r%d.g":"1k">>}}}`,
	`{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"NAME"},"spec":{"limits":[{"type":"Pod","max":{<<"e.f/r%d":"1">>}}]}}`,
	`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"NAME"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"selector":{"matchLabels":{<<"l%d":"">>}}}}`,
	`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"NAME"},"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/x"},"claimRef":{"namespace":"arena","name":"c"},"mountOptions":[<<"o%d">>]}}`,
	`{"apiVersion":"v1","kind":"Node","metadata":{"name":"NAME"},"spec":{"taints":[<<{"key":"t%d","effect":"NoSchedule"}>>]}}`,
	`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"NAME","labels":{<<"l%d":"">>}}}`,
	`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"NAME"},"spec":{"selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"x","operator":"NotIn","values":[<<"v%d">>]}]},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`,
	`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"NAME"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i","env":[<<{"name":"E%d","value":""}>>]}]}}}}`,
	`{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"NAME"},"spec":{"minAvailable":1,"selector":{"matchExpressions":[<<{"key":"k%d","operator":"Exists"}>>]}}}`,
	`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"NAME"},"spec":{"podSelector":{},"ingress":[{"from":[<<{"podSelector":{"matchLabels":{"l%d":""}}}>>]}]}}`,
	`{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"NAME"},"spec":{"rules":[<<{"host":"h%d"}>>]}}`,
	`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"NAME"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"metrics":[<<{"type":"External","external":{"metric":{"name":"m%d"},"target":{"type":"Value","value":"1"}}}>>]}}`,
	`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"NAME.derive.example"},"spec":{"group":"derive.example","scope":"Namespaced","names":{"plural":"NAME","kind":"NAME"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"string","enum":[<<"e%d">>]}}}}}]}}`,
	`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"NAME.derive.example"},"spec":{"group":"derive.example","scope":"Namespaced","names":{"plural":"NAME","kind":"NAME"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{<<"p%d":{"type":"string"}>>}}}}]}}`,
	`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"NAME.derive.example"},"spec":{"group":"derive.example","scope":"Namespaced","names":{"plural":"NAME","kind":"NAME"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-validations":[<<{"rule":"self.metadata.name != 'n%d'"}>>]}}}]}}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"NAME"},"spec":{"matchConstraints":{"resourceRules":[<<{"apiGroups":["g%d"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}>>]},"validations":[{"expression":"true"}]}}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"NAME"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["attack.example"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]},"validations":[<<{"expression":"object.metadata.name != 'n%d'"}>>]}}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"NAME"},"spec":{"policyName":"p","validationActions":["Deny"],"matchResources":{"namespaceSelector":{"matchExpressions":[{"key":"x","operator":"NotIn","values":[<<"v%d">>]}]}}}}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"NAME"},"webhooks":[<<{"name":"w%d.derive.example","sideEffects":"None","failurePolicy":"Ignore","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"},"rules":[{"apiGroups":["derive.example"],"apiVersions":["*"],"operations":["*"],"resources":["x"]}]}>>]}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"NAME"},"webhooks":[{"name":"w.derive.example","sideEffects":"None","failurePolicy":"Ignore","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://127.0.0.1:1/"},"rules":[<<{"apiGroups":["derive%d.example"],"apiVersions":["*"],"operations":["*"],"resources":["x"]}>>]}]}`,
	`{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":"NAME"},"spec":{"matchingPrecedence":9000,"priorityLevelConfiguration":{"name":"workload-low"},"rules":[{"subjects":[<<{"kind":"User","user":{"name":"u%d"}}>>],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["/x"]}]}]}}`,
	`{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{"name":"NAME"},"spec":{"matchingPrecedence":9000,"priorityLevelConfiguration":{"name":"workload-low"},"rules":[<<{"subjects":[{"kind":"Group","group":{"name":"g%d"}}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["/x"]}]}>>]}}`,
	`{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"NAME"},"provisioner":"p","mountOptions":[<<"o%d">>],"allowedTopologies":[{"matchLabelExpressions":[{"key":"k","values":[<<"v%d">>]}]}]}`,
	`{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{"name":"NAME"},"spec":{"drivers":[<<{"name":"d%d","nodeID":"n"}>>]}}`,
	`{"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass","metadata":{"name":"NAME"},"handler":"h","scheduling":{"tolerations":[<<{"key":"k%d","operator":"Exists"}>>]}}`,
	`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"NAME","labels":{<<"l%d":"">>}},"spec":{"holderIdentity":"h"}}`,
	`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"NAME"},"revision":1,"data":{"l":[<<{"a":%d}>>]}}`,
	`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"NAME","annotations":{<<"a%d":"">>}},"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"d"}}]}}}`,
}

// shortest is the body below which a request is never refused when memory is tight.
const shortest = 60_000

// expand makes the object with a name, with at most 1,000 items in each list, and at most what a short body holds.
func expand(text, name string, from int) string {
	return fill(text, name, shortest-1000, 1000, func(i int) string { return fmt.Sprint(from + i) })
}

// fill makes the object with a name, whose lists have together at most that many bytes, and each that many items. number is what takes the
// place of %d in the item i.
func fill(text, name string, size, most int, number func(i int) string) string {
	text = strings.ReplaceAll(text, "NAME", name)
	lists := strings.Count(text, "<<")
	for strings.Contains(text, "<<") {
		head, rest, _ := strings.Cut(text, "<<")
		item, tail, _ := strings.Cut(rest, ">>")
		var b strings.Builder
		for i := 0; i < most && b.Len() < size/lists; i++ {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(strings.ReplaceAll(item, "%d", number(i)))
		}
		text = head + b.String() + tail
	}
	return text
}

// derive stores objects of two kinds with long lists, and has the server use them: as owners, as subjects, for admission and in lists.
func derive(ctx context.Context, a *arena, m Move, rng *rand.Rand) {
	texts := []string{listed[rng.IntN(len(listed))], listed[rng.IntN(len(listed))]}
	c := client(a, m.Actor, attackersAddress, true)
	defer c.CloseIdleConnections()
	full := func() bool { return a.storedShare(ctx, c) > 0.4 } // beyond all of it, writes of all are refused, as it is promised; CRDs may take half
	label := fmt.Sprintf("d%x", m.Seed&0xffff)
	crowd(rng, 1+m.Size/25, func(worker int, rng *rand.Rand) {
		for n := 0; ctx.Err() == nil && n < 100*m.Size; n++ {
			text := texts[n%len(texts)]
			r, ok := kindOf(a, text)
			if !ok || n%10 == 9 && full() {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			from := 1
			if !strings.Contains(text, `"port":%d`) {
				from = (n*8 + worker) * 1000
			}
			name := fmt.Sprintf("%s-%d-%d", label, worker, n)
			if r.Kind == "CustomResourceDefinition" {
				name = fmt.Sprintf("%sx%dx%d", label, worker, n)
			}
			if got := hit(ctx, a, c, m.Actor, "POST", r.path("arena", ""), []byte(expand(text, name, from))); got.code == 429 || got.code >= 500 {
				pause(ctx, 100*time.Millisecond)
			}
			switch user := fmt.Sprint("u", from+rng.IntN(1000)); rng.IntN(8) {
			case 0:
				hit(ctx, a, c, m.Actor, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", fmt.Appendf(nil,
					`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":%q,"groups":["g1"],"resourceAttributes":{"namespace":"arena","verb":"get","resource":"pods"}}}`, user))
			case 1:
				hit(ctx, a, c, m.Actor, "POST", "/api/v1/namespaces/arena/pods?dryRun=All", fmt.Appendf(nil,
					`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"serviceAccountName":%q,"runtimeClassName":%q,"containers":[{"name":"c","image":"i"}]}}`, name, name))
			case 2:
				hit(ctx, a, c, m.Actor, "POST", "/apis/attack.example/v1/namespaces/arena/targets?dryRun=All", []byte(`{"apiVersion":"attack.example/v1","kind":"Target","metadata":{"name":"x"}}`))
			}
		}
	})
}

// storedShare is the part of the memory for what is stored that is taken, by the metrics of the server; 0 if they do not say.
func (a *arena) storedShare(ctx context.Context, c *http.Client) float64 {
	r := hit(ctx, a, c, "warden", "GET", "/metrics", nil)
	value := func(name string) (v float64) {
		_, rest, _ := strings.Cut(string(r.body), "\n"+name+`{part="stored"} `)
		fmt.Sscan(rest, &v)
		return v
	}
	if share := value("keelson_memory_share_bytes"); share > 0 {
		return value("keelson_memory_used_bytes") / share
	}
	return 0
}

// kindOf finds the resource of an object.
func kindOf(a *arena, text string) (resource, bool) {
	var object struct{ APIVersion, Kind string }
	if err := json.Unmarshal([]byte(strings.NewReplacer("<<", "", ">>", "", "%d", "1").Replace(text)), &object); err != nil {
		panic("BUG: " + err.Error() + ": " + text)
	}
	for _, r := range a.resources {
		if r.apiVersion() == object.APIVersion && r.Kind == object.Kind {
			return r, true
		}
	}
	return resource{}, false
}
