// This file is the table of rules: where they stand in published definitions, and the values that they are measured on.

package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/testcrds"
)

// family is a module with definitions.
type family struct {
	name string
	crds func() (map[string]*apiextv1.CustomResourceDefinition, error)
}

func familyOf(name, module, version, folder string) family {
	return family{name, sync.OnceValues(func() (map[string]*apiextv1.CustomResourceDefinition, error) {
		docs, err := testcrds.CRDs(testcrds.Family{Name: name, Module: testcrds.Module{Path: module, Version: version}, CRDs: folder})
		if err != nil {
			return nil, err
		}
		out := map[string]*apiextv1.CustomResourceDefinition{}
		for _, d := range docs {
			crd := new(apiextv1.CustomResourceDefinition)
			if err := yaml.Unmarshal(d.YAML, crd); err != nil {
				return nil, err
			}
			out[d.Name] = crd
		}
		return out, nil
	})}
}

var (
	gatewayAPI   = familyOf("Gateway API", "sigs.k8s.io/gateway-api", "v1.7.0", "config/crd/experimental")
	certManager  = familyOf("cert-manager", "github.com/cert-manager/cert-manager", "v1.21.2", "deploy/crds")
	prometheus   = familyOf("prometheus-operator", "github.com/prometheus-operator/prometheus-operator", "v0.85.0", "example/prometheus-operator-crd")
	karpenter    = familyOf("Karpenter", "sigs.k8s.io/karpenter", "v1.15.0", "pkg/apis/crds")
	karpenterAWS = familyOf("Karpenter AWS", "github.com/aws/karpenter-provider-aws", "v1.15.1", "pkg/apis/crds")
	clusterAPI   = familyOf("cluster-api", "sigs.k8s.io/cluster-api", "v1.14.2", "core/config/crd/bases")
	kubeadm      = familyOf("cluster-api kubeadm", "sigs.k8s.io/cluster-api", "v1.14.2", "bootstrap/kubeadm/config/crd/bases")
	crossplane   = familyOf("Crossplane", "github.com/crossplane/crossplane/v2", "v2.0.0", "cluster/crds")
	kueue        = familyOf("Kueue", "sigs.k8s.io/kueue", "v0.15.0", "config/components/crd/bases")
	externalSecr = familyOf("external-secrets", "github.com/external-secrets/external-secrets", "v1.3.2", "config/crds/bases")
	envoyGateway = familyOf("Envoy Gateway", "github.com/envoyproxy/gateway", "v1.9.1", "charts/gateway-helm/charts/crds/crds/generated")
	istio        = familyOf("Istio", "istio.io/api", "v1.31.1", "kubernetes")
)

// node is the schema at a path of a version of a definition: names of members, [] for items and {} for values.
func (f family) node(crd, version, path string) (*apiextv1.JSONSchemaProps, error) {
	crds, err := f.crds()
	if err != nil {
		return nil, err
	}
	d := crds[crd]
	if d == nil {
		return nil, fmt.Errorf("no definition %s", crd)
	}
	for _, v := range d.Spec.Versions {
		if v.Name == version {
			return below(v.Schema.OpenAPIV3Schema, path)
		}
	}
	return nil, fmt.Errorf("no version %s", version)
}

func below(s *apiextv1.JSONSchemaProps, path string) (*apiextv1.JSONSchemaProps, error) {
	path = strings.NewReplacer("[]", ".[]", "{}", ".{}").Replace(path)
	for step := range strings.SplitSeq(path, ".") {
		switch {
		case step == "":
		case step == "[]" && s.Items != nil:
			s = s.Items.Schema
		case step == "{}" && s.AdditionalProperties != nil:
			s = s.AdditionalProperties.Schema
		default:
			p, ok := s.Properties[step]
			if !ok {
				return nil, fmt.Errorf("no %s in %s", step, path)
			}
			s = &p
		}
	}
	return s, nil
}

// Values that several rules are measured on.
const (
	listeners = `[{name: http, port: 80, protocol: HTTP}, {name: https, port: 443, protocol: HTTPS, hostname: shop.example.com, tls: {mode: Terminate, certificateRefs: [{name: shop}]}},
  {name: admin, port: 443, protocol: HTTPS, hostname: admin.example.com, tls: {mode: Terminate, certificateRefs: [{name: admin}]}}, {name: db, port: 5432, protocol: TCP}]`
	parentRefs = `[{group: gateway.networking.k8s.io, kind: Gateway, name: edge, sectionName: https}, {group: gateway.networking.k8s.io, kind: Gateway, name: edge, sectionName: admin},
  {group: gateway.networking.k8s.io, kind: Gateway, name: inner, namespace: infra}]`
	routeRules = `[{matches: [{path: {type: PathPrefix, value: /cart}}, {path: {type: Exact, value: /checkout}}]}, {matches: [{path: {type: PathPrefix, value: /img}}]}, {matches: [{path: {type: PathPrefix, value: /}}]}]`
	filters    = `[{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-shop, value: "1"}]}}, {type: ResponseHeaderModifier, responseHeaderModifier: {remove: [x-debug]}}, {type: RequestMirror, requestMirror: {backendRef: {name: mirror, port: 80}}}]`
	labels     = `{app.kubernetes.io/name: shop, app.kubernetes.io/part-of: storefront, example.com/tier: edge, team: payments}`
	terms      = `[{key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}, {key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}, {key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ["3"]}, {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r], minValues: 2}]`
	tags       = `{Name: default, team: payments, env: production}`
	nodeSpec   = `{nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, expireAfter: 720h, requirements: ` + terms + `,
  resources: {requests: {cpu: 500m, memory: 1Gi}}, taints: [{key: example.com/dedicated, effect: NoSchedule, value: gpu}]}`
	workload = `{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: job-sample}, spec: {active: true, queueName: user-queue, priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: high},
  podSets: [{name: main, count: 3, template: {spec: {containers: [{name: c, image: busybox}]}}}]},
  status: {conditions: [{type: Admitted, status: "False", reason: Pending, message: waiting, lastTransitionTime: "2026-01-01T00:00:00Z"}, {type: QuotaReserved, status: "True", reason: QuotaReserved, message: reserved, lastTransitionTime: "2026-01-01T00:00:00Z"}]}}`
)

// publishedRules are rules of published definitions.
func publishedRules() []ruleRow {
	const (
		routes   = "httproutes.gateway.networking.k8s.io"
		gateways = "gateways.gateway.networking.k8s.io"
		claims   = "nodeclaims.karpenter.sh"
		classes  = "ec2nodeclasses.karpenter.k8s.aws"
	)
	return []ruleRow{
		{family: gatewayAPI, crd: routes, version: "v1", path: "spec.rules", has: "self[0].matches.size()", self: routeRules},
		{family: gatewayAPI, crd: routes, version: "v1", path: "spec.parentRefs", has: "exists_one", self: parentRefs},
		{family: gatewayAPI, crd: routes, version: "v1", path: "spec.rules[].filters", has: "self.exists(f", self: filters},
		{family: gatewayAPI, crd: routes, version: "v1", path: "spec.rules[].filters", has: "'RequestHeaderModifier').size", self: filters},
		{family: gatewayAPI, crd: routes, version: "v1", path: "spec.rules[].filters[]", has: "(has(self.requestMirror)", self: `{type: RequestMirror, requestMirror: {backendRef: {name: mirror, port: 80}}}`},
		{family: gatewayAPI, crd: routes, version: "v1", path: "spec.rules[].filters[]", has: "(has(self.requestMirror)", self: `{type: URLRewrite, requestMirror: {backendRef: {name: mirror, port: 80}}}`, fails: true},
		{family: gatewayAPI, crd: routes, version: "v1", path: "spec.rules[].matches[].path", has: "matches(", self: `{type: PathPrefix, value: /store/products/by-category}`},
		{family: gatewayAPI, crd: routes, version: "v1", path: "spec.rules[].matches[].path", has: "contains('//')", self: `{type: PathPrefix, value: /store/products/by-category}`},
		{family: gatewayAPI, crd: routes, version: "v1", path: "spec.rules[].matches[].path", has: "contains('//')", self: `{type: PathPrefix, value: /store//products}`, fails: true},
		{family: gatewayAPI, crd: routes, version: "v1", path: "spec.rules[].timeouts", has: "duration(", self: `{request: 10s, backendRequest: 2s}`},
		{family: gatewayAPI, crd: gateways, version: "v1", path: "spec.listeners", has: "l1.port == l2.port", self: listeners},
		{family: gatewayAPI, crd: gateways, version: "v1", path: "spec.listeners", has: "['HTTP', 'TCP', 'UDP']", self: listeners},
		{family: gatewayAPI, crd: gateways, version: "v1", path: "spec.infrastructure.annotations", has: "matches(", self: labels},
		{family: gatewayAPI, crd: gateways, version: "v1", path: "spec.infrastructure.annotations", has: "split(", self: labels},
		{family: gatewayAPI, crd: gateways, version: "v1", path: "spec.addresses[].routability", has: "dns1123Subdomain", self: `example.com/private`},
		{family: gatewayAPI, crd: "tlsroutes.gateway.networking.k8s.io", version: "v1", path: "spec.hostnames", has: "isIP", self: `[shop.example.com, "*.example.org"]`},
		{family: gatewayAPI, crd: "tlsroutes.gateway.networking.k8s.io", version: "v1", path: "spec.hostnames", has: "isIP", self: `[shop.example.com, 10.1.2.3]`, fails: true},
		{family: gatewayAPI, crd: "tlsroutes.gateway.networking.k8s.io", version: "v1", path: "spec.hostnames", has: "substring(2)", self: `[shop.example.com, "*.example.org"]`},
		{family: gatewayAPI, crd: "gatewayclasses.gateway.networking.k8s.io", version: "v1", path: "spec.controllerName", has: "self == oldSelf", self: `example.com/gateway-controller`, old: `example.com/gateway-controller`},
		{family: gatewayAPI, crd: "xbackends.gateway.networking.x-k8s.io", version: "v1alpha1", path: "spec.endpointSelector.matchLabels", has: "qualifiedName", self: labels},
		{family: certManager, crd: "clusterissuers.cert-manager.io", version: "v1", path: "spec.venafi", has: "has(self.tpp)", self: `{zone: DevOps, cloud: {apiTokenSecretRef: {name: token}}}`},
		{family: prometheus, crd: "prometheusagents.monitoring.coreos.com", version: "v1alpha1", path: "spec", has: "self.shards > 1", self: `{mode: DaemonSet, shards: 1, serviceMonitorSelector: {}}`},
		{family: karpenter, crd: claims, version: "v1", path: "spec.requirements", has: "int(x.values[0])", self: terms},
		{family: karpenter, crd: claims, version: "v1", path: "spec.requirements", has: "x.values.size() >= x.minValues", self: terms},
		{family: karpenter, crd: claims, version: "v1", path: "spec.requirements[].key", has: `find("^([^/]+)").endsWith("karpenter.sh")`, self: `topology.kubernetes.io/zone`},
		{family: karpenter, crd: claims, version: "v1", path: "spec", has: "self == oldSelf", self: nodeSpec, old: nodeSpec},
		{family: karpenter, crd: "nodepools.karpenter.sh", version: "v1", path: "spec.template.metadata.labels", has: "endsWith(\"karpenter.sh\")", self: labels},
		{family: karpenter, crd: "nodepools.karpenter.sh", version: "v1", path: "spec.disruption.budgets", has: "has(x.schedule)", self: `[{nodes: 10%}, {nodes: "0", schedule: "@daily", duration: 8h}]`},
		{family: karpenterAWS, crd: classes, version: "v1", path: "spec.amiSelectorTerms[].alias", has: "'bottlerocket','windows2019'", self: `al2023@v20250101`},
		{family: karpenterAWS, crd: classes, version: "v1", path: "spec.amiSelectorTerms[].tags", has: "self.all(k", self: tags},
		{family: karpenterAWS, crd: classes, version: "v1", path: "spec", has: "'al2023'", self: `{amiFamily: AL2023, amiSelectorTerms: [{alias: al2023@latest}], subnetSelectorTerms: [{id: subnet-1}]}`},
		{family: karpenterAWS, crd: classes, version: "v1", path: "spec.networkInterfaces", has: "efa-only", self: `[{networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}, {networkCardIndex: 0, deviceIndex: 1, interfaceType: efa-only}, {networkCardIndex: 1, deviceIndex: 1, interfaceType: efa-only}]`},
		{family: clusterAPI, crd: "machinedrainrules.cluster.x-k8s.io", version: "v1beta2", path: "spec.machines", has: "x == y", self: `[{selector: {matchLabels: {pool: a}}}, {selector: {matchLabels: {pool: b}}, clusterSelector: {matchLabels: {env: dev}}}, {clusterSelector: {matchLabels: {env: prod}}}]`},
		{family: kubeadm, crd: "kubeadmconfigs.bootstrap.cluster.x-k8s.io", version: "v1beta2", path: "spec.clusterConfiguration.apiServer.extraArgs", has: "x.name == y.name", self: `[{name: audit-log-path, value: /var/log/audit}, {name: profiling, value: "false"}, {name: v, value: "2"}]`},
		{family: kubeadm, crd: "kubeadmconfigs.bootstrap.cluster.x-k8s.io", version: "v1beta2", path: "spec.diskSetup.partitions[].diskLayout[].partitionType", has: "matches(", self: `0FC63DAF-8483-4772-8E79-3D69D8477DE4`},
		{family: kubeadm, crd: "kubeadmconfigs.bootstrap.cluster.x-k8s.io", version: "v1beta2", path: "spec.diskSetup.partitions[]", has: "filter(x,x==true)", self: `{device: /dev/sdb, layout: true}`},
		{family: crossplane, crd: "configurations.pkg.crossplane.io", version: "v1", path: "spec.package", has: "matches(", self: `xpkg.crossplane.io/crossplane-contrib/configuration-quickstart:v0.1.0`},
		{family: crossplane, crd: "compositeresourcedefinitions.apiextensions.crossplane.io", version: "v1", path: "spec.claimNames", has: "self.plural.lowerAscii()", self: `{kind: PostgreSQLInstance, plural: postgresqlinstances}`},
		{family: kueue, crd: "clusterqueues.kueue.x-k8s.io", version: "v1beta2", path: "spec.resourceGroups[]", has: "size(self.coveredResources)", self: `{coveredResources: [cpu, memory], flavors: [{name: spot, resources: [{name: cpu, nominalQuota: "9"}, {name: memory, nominalQuota: 36Gi}]}, {name: on-demand, resources: [{name: cpu, nominalQuota: 18}, {name: memory, nominalQuota: 72Gi}]}]}`},
		{family: kueue, crd: "resourceflavors.kueue.x-k8s.io", version: "v1beta2", path: "spec", has: "self == oldSelf", self: `{topologyName: default, nodeLabels: {pool: gpu}}`, old: `{topologyName: default, nodeLabels: {pool: gpu}}`},
		{family: kueue, crd: "workloads.kueue.x-k8s.io", version: "v1beta2", has: "oldSelf.spec.priorityClassRef.group == self.spec.priorityClassRef.group", self: workload, old: workload},
		{family: externalSecr, crd: "clustersecretstores.external-secrets.io", version: "v1", path: "spec.provider.doppler.auth", has: "oidcConfig", self: `{secretRef: {dopplerToken: {name: doppler, key: token}}}`},
		{family: envoyGateway, crd: "clienttrafficpolicies.gateway.envoyproxy.io", version: "v1alpha1", path: "spec.clientIPDetection", has: "filter(x, x)", self: `{xForwardedFor: {numTrustedHops: 2}}`},
		{family: envoyGateway, crd: "envoyproxies.gateway.envoyproxy.io", version: "v1alpha1", path: "spec.provider.kubernetes.envoyService.loadBalancerIP", has: "25[0-5]", self: `192.168.10.254`},
		{family: envoyGateway, crd: "securitypolicies.gateway.envoyproxy.io", version: "v1alpha1", path: "spec.oidc.forwardIDToken.header", has: "lowerAscii() != 'host'", self: `X-ID-Token`},
		{family: istio, crd: "destinationrules.networking.istio.io", version: "v1", path: "spec.trafficPolicy.connectionPool.tcp.connectTimeout", has: "1ms", self: `30s`},
		{family: istio, crd: "requestauthentications.security.istio.io", version: "v1", path: "spec.jwtRules[].jwksUri", has: "getScheme", self: `https://www.googleapis.com/oauth2/v1/certs`},
		{family: istio, crd: "wasmplugins.extensions.istio.io", version: "v1alpha1", path: "spec.url", has: "isURL", self: `ghcr.io/istio-ecosystem/wasm-extensions/basic-auth:1.12.0`},
	}
}

// Sizes of the lists that KEP-2876 measures iteration on: what fits into the largest request.
const (
	manyScalars = 1_572_000
	manyStrings = 300_000
	manyObjects = 30_000
)

// iterationRules are the iteration cases of KEP-2876.
func iterationRules() []ruleRow {
	list := func(items apiextv1.JSONSchemaProps) apiextv1.JSONSchemaProps {
		return apiextv1.JSONSchemaProps{Type: "array", Items: &apiextv1.JSONSchemaPropsOrArray{Schema: &items}}
	}
	text, number := apiextv1.JSONSchemaProps{Type: "string"}, apiextv1.JSONSchemaProps{Type: "integer"}
	object := apiextv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextv1.JSONSchemaProps{"name": text, "kind": text, "zone": text, "port": number, "weight": number}}
	groups := []struct {
		name   string
		schema apiextv1.JSONSchemaProps
		self   func(n int) string
		n      int
		rules  []string
	}{
		{"1,572,000 integers", list(number), scalars, manyScalars, []string{
			"self.all(x, x >= 0)", "!self.exists(x, x < 0)", "self.exists_one(x, x == 10000)", "self.filter(x, x > 7).size() > 7", "self.map(x, x + 1).size() > 7", "!(-1 in self)"}},
		{"300,000 strings of 10 bytes", list(text), strings10, manyStrings, []string{
			"self.all(x, x.startsWith('item'))", "!self.exists(x, x == 'item-none')", "self.all(x, x.matches('^[a-z]+-[0-9]+$'))", "self.filter(x, x.contains('1')).size() > 7", "self.map(x, x.size()).all(n, n == 10)", "!('item-none' in self)"}},
		{"30,000 objects of 100 bytes", list(object), objects100, manyObjects, []string{
			"self.all(x, has(x.name) && x.port > 0)", "!self.exists(x, x.kind == 'Pod' && x.zone == 'none')", "self.filter(x, x.kind == 'Service').size() > 7", "self.map(x, x.name).all(n, n != '')"}},
	}
	var out []ruleRow
	for _, g := range groups {
		self, part := g.self(g.n), g.self(g.n/parts)
		for _, rule := range g.rules {
			s := g.schema.DeepCopy()
			s.XValidations = apiextv1.ValidationRules{{Rule: rule}}
			out = append(out, ruleRow{family: family{name: "KEP-2876"}, path: g.name, schema: s, has: rule, self: self, part: part, large: true})
		}
	}
	return out
}

func scalars(n int) string {
	return jsonList(n, func(b []byte, i int) []byte { return strconv.AppendInt(b, int64(i), 10) })
}

func strings10(n int) string {
	return jsonList(n, func(b []byte, i int) []byte { return fmt.Appendf(b, `"item-%05d"`, i%100_000) })
}

func objects100(n int) string {
	return jsonList(n, func(b []byte, i int) []byte {
		return fmt.Appendf(b, `{"name":"backend-of-the-shop-%05d","kind":"Service","zone":"europe-west-%02d","port":%d,"weight":1}`, i, i%40, 8000+i%1000)
	})
}

// jsonList is a list of n items in JSON.
func jsonList(n int, item func(b []byte, i int) []byte) string {
	b := []byte{'['}
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = item(b, i)
	}
	return string(append(b, ']'))
}
