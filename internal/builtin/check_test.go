package builtin

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file tests what the schemas of kinds do not say: defaults, checks, what
// may change.

func where() int {
	_, _, line, _ := runtime.Caller(1)
	return line
}

// read reads an object as the server does before it checks it.
func read(t *testing.T, v *kind.Version, text string) *jsondoc.Doc {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return readJSON(t, v, body)
}

// readJSON is read for JSON.
func readJSON(t *testing.T, v *kind.Version, body []byte) *jsondoc.Doc {
	t.Helper()
	d := new(jsondoc.Doc)
	if _, err := v.Decode(d, body); err != nil {
		t.Fatalf("%.200s: %v", body, err)
	}
	o := meta.Object{Doc: d}
	o.SetAPIVersion(v.APIVersion())
	o.SetKind(v.Kind.Name)
	if o.Name() == "" {
		o.SetName("x")
	}
	if v.Kind.Namespaced {
		o.SetNamespace("default")
	}
	o.SetUID("u")
	o.SetResourceVersion("1")
	o.SetCreationTimestamp(time.Unix(0, 0))
	return d
}

const (
	podText    = `spec: {containers: [{name: c, image: i}]}`
	deployText = `spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}`
	jobText    = `spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}`
	claimText  = `spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`
)

const (
	volumeText = `capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /p}}`
	jobWaits   = `spec: {suspend: true, manualSelector: true, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {restartPolicy: Never, `
)

func TestDefaults(t *testing.T) {
	container := `{"image":"i","imagePullPolicy":"Always","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}`
	podSpec := `"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30`
	template := `"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[` + container + `],` + podSpec + `}}`
	selector := `"selector":{"matchLabels":{"a":"b"}}`
	for _, c := range []struct {
		line                       int
		group, plural, text, wants string // of the spec
	}{
		{where(), "", "pods", podText, `{"containers":[` + container + `],"dnsPolicy":"ClusterFirst","enableServiceLinks":true,` +
			`"restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}`},
		{where(), "apps", "deployments", deployText, `{"progressDeadlineSeconds":600,"replicas":1,"revisionHistoryLimit":10,` + selector +
			`,"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"},` + template + `}`},
		{where(), "apps", "replicasets", deployText, `{"replicas":1,` + selector + `,` + template + `}`},
		{where(), "apps", "statefulsets", deployText, `{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},` +
			`"podManagementPolicy":"OrderedReady","replicas":1,"revisionHistoryLimit":10,` + selector + `,"serviceName":"",` + template +
			`,"updateStrategy":{"rollingUpdate":{"maxUnavailable":1,"partition":0},"type":"RollingUpdate"}}`},
		{where(), "apps", "daemonsets", deployText, `{"revisionHistoryLimit":10,` + selector + `,` + template +
			`,"updateStrategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1},"type":"RollingUpdate"}}`},
		{where(), "", "services", `spec: {ports: [{port: 80}]}`, `{"internalTrafficPolicy":"Cluster","ports":[{"port":80,"protocol":"TCP","targetPort":80}],` +
			`"sessionAffinity":"None","type":"ClusterIP"}`},
		{where(), "", "services", `spec: {type: LoadBalancer, ports: [{port: 80, targetPort: web}]}`, `{"allocateLoadBalancerNodePorts":true,` +
			`"externalTrafficPolicy":"Cluster","internalTrafficPolicy":"Cluster","ports":[{"port":80,"protocol":"TCP","targetPort":"web"}],` +
			`"sessionAffinity":"None","type":"LoadBalancer"}`},
		{where(), "", "persistentvolumeclaims", claimText, `{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"volumeMode":"Filesystem"}`},
		{where(), "networking.k8s.io", "networkpolicies", `spec: {podSelector: {}, egress: [{}]}`, `{"egress":[{}],"podSelector":{},"policyTypes":["Ingress","Egress"]}`},
		{where(), "coordination.k8s.io", "leases", `spec: {renewTime: "2026-01-01T01:00:00.000000+01:00"}`, `{"renewTime":"2026-01-01T00:00:00.000000Z"}`},
		{where(), "resource.k8s.io", "resourceclaims", `spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}`,
			`{"devices":{"requests":[{"exactly":{"allocationMode":"ExactCount","count":1,"deviceClassName":"c"},"name":"r"}]}}`},
		{where(), "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", `spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {queues: 4}}}}`,
			`{"limited":{"lendablePercent":0,"limitResponse":{"queuing":{"handSize":8,"queueLengthLimit":50,"queues":4},"type":"Queue"},"nominalConcurrencyShares":30},"type":"Limited"}`},
		{where(), "", "resourcequotas", `spec: {hard: {cpu: 1.5, memory: 1024Mi}}`, `{"hard":{"cpu":"1500m","memory":"1Gi"}}`},
	} {
		v := versionFor(t, c.group, c.plural)
		d := read(t, v, c.text)
		if got := string(d.Root().Get("spec").AppendJSON(nil)); got != c.wants {
			t.Errorf("line %d: got\n%s\nwant\n%s", c.line, got, c.wants)
		}
	}
}

// statefulText is a stateful set that mounts the volume data of one of its claims.
func statefulText(claimMeta, claimSpec string) string {
	text := strings.Replace(deployText, "image: i", "image: i, volumeMounts: [{name: data, mountPath: /data}]", 1)
	return strings.Replace(text, "spec: {", "spec: {volumeClaimTemplates: [{metadata: "+claimMeta+", "+claimSpec+"}], ", 1)
}

// Ledger: pod-validation, device-validation.
func TestChecks(t *testing.T) {
	for _, c := range []struct {
		line                     int
		group, plural, text, old string
		want                     string // a part of the errors; "" for none
	}{
		{where(), "", "pods", podText, "", ""},
		{where(), "", "pods", `spec: {}`, "", "spec.containers: Required value"},
		{where(), "", "pods", `spec: {containers: [{image: i}]}`, "", "spec.containers[0].name: Required value"},
		{where(), "", "pods", `spec: {containers: [{name: C, image: i}]}`, "", `spec.containers[0].name: Invalid value: "C": a lowercase RFC 1123 label`},
		{where(), "", "pods", `spec: {containers: [{name: c}]}`, "", "spec.containers[0].image: Required value"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i}, {name: c, image: i}]}`, "", `spec.containers[1].name: Duplicate value: "c"`},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}]}`, "", `spec.containers[0].volumeMounts[0].name: Not found: "v"`},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, ports: [{containerPort: 70000}]}]}`, "", "must be between 1 and 65535, inclusive"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: j}]}`, podText, ""},
		{where(), "", "pods", `spec: {nodeName: node1, containers: [{name: c, image: i}]}`, podText, "spec: Forbidden: pod updates may not change fields other than"},
		{where(), "apps", "deployments", deployText, "", ""},
		{where(), "apps", "deployments", strings.Replace(deployText, "labels: {a: b}", "labels: {a: c}", 1), "", "spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`"},
		{where(), "apps", "deployments", strings.Replace(deployText, "matchLabels: {a: b}", "", 1), "", "empty selector is invalid for deployment"},
		{where(), "apps", "deployments", `spec: {template: {spec: {containers: [{name: c, image: i}]}}}`, "", "spec.selector: Required value"},
		{where(), "apps", "deployments", strings.ReplaceAll(deployText, "a: b", "a: c"), deployText, "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable"},
		{where(), "apps", "deployments", strings.Replace(deployText, "containers", "restartPolicy: Never, containers", 1), "", `spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`},
		{where(), "apps", "deployments", strings.Replace(deployText, "spec: {", "spec: {strategy: {type: Other}, ", 1), "", `spec.strategy: Unsupported value: {"Type":"Other","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate"`},
		{where(), "apps", "statefulsets", strings.Replace(deployText, "spec: {", "spec: {replicas: 3, ", 1), deployText, ""},
		{where(), "apps", "statefulsets", strings.Replace(deployText, "spec: {", "spec: {serviceName: s, ", 1), deployText, `spec.serviceName: Invalid value: "s": field is immutable`},
		{where(), "apps", "statefulsets", statefulText("{name: data}", claimText), "", ""},
		{where(), "apps", "statefulsets", statefulText("{name: other}", claimText), "", `spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"`},
		{where(), "apps", "statefulsets", statefulText("{name: data}", "spec: {}"), "", "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required"},
		{where(), "", "persistentvolumeclaims", "{status: {phase: Bound}, " + strings.Replace(claimText, "1Gi", "2Gi", 1) + "}", claimText, ""},
		{where(), "", "persistentvolumeclaims", strings.Replace(claimText, "1Gi", "2Gi", 1), claimText, "spec: Forbidden: spec is immutable after creation except resources.requests"},
		{where(), "", "persistentvolumeclaims", strings.Replace(claimText, "spec: {", "spec: {storageClassName: s, ", 1), claimText, ""},
		{where(), "", "persistentvolumeclaims", strings.Replace(claimText, "spec: {", "spec: {volumeMode: Block, ", 1), claimText, "spec: Forbidden: spec is immutable after creation except resources.requests"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, livenessProbe: {}}]}`, "", "spec.containers[0].livenessProbe: Required value: must specify a handler type"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}`, "", "must be less than or equal to cpu limit of 1"},
		{where(), "", "pods", `spec: {resources: {requests: {cpu: 1}}, containers: [{name: c, image: i, resources: {requests: {cpu: 700m}}}, {name: d, image: i, resources: {requests: {cpu: 700m}}}]}`, "", `spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 1400m`},
		{where(), "", "pods", `spec: {resources: {limits: {cpu: 2}}, containers: [{name: c, image: i, resources: {requests: {cpu: 1}, limits: {cpu: 3}}}]}`, "", `spec.resources.containers[0][cpu].limits: Invalid value: "3": must be less than or equal to pod limits of 2`},
		{where(), "", "pods", `spec: {resources: {requests: {cpu: 2}, limits: {cpu: 1}}, containers: [{name: c, image: i}]}`, "", `spec.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`},
		{where(), "", "pods", `spec: {resources: {limits: {cpu: 1, hugepages-2Mi: 2Mi}}, containers: [{name: c, image: i, resources: {limits: {cpu: 1, hugepages-2Mi: 4Mi}}}]}`, "", `spec.resources.limits[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to aggregate container limits of 4Mi`},
		{where(), "", "pods", `spec: {resources: {requests: {ephemeral-storage: 1}}, containers: [{name: c, image: i}]}`, "", `spec.resources.requests[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported values: "cpu", "hugepages-", "memory"`},
		{where(), "", "pods", `spec: {resources: {claims: [{name: x}]}, containers: [{name: c, image: i}]}`, "", "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level"},
		{where(), "", "pods", `spec: {os: {name: windows}, resources: {requests: {cpu: 1}}, containers: [{name: c, image: i}]}`, "", "spec.resources: Forbidden: may not be set for a windows pod"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, resources: {limits: {hugepages-2Mi: 4Mi}}}]}`, "", "spec.containers[0].resources: Forbidden: HugePages require cpu or memory"},
		{where(), "", "pods", `spec: {resources: {requests: {cpu: 2}, limits: {cpu: 3, memory: 1Gi}}, containers: [{name: c, image: i, resources: {requests: {cpu: 2}, limits: {cpu: 3}}}]}`, "", ""},
		{where(), "", "pods", `spec: {volumes: [{name: v, emptyDir: {}, hostPath: {path: /x}}], containers: [{name: c, image: i}]}`, "", "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"},
		{where(), "", "pods", `spec: {tolerations: [{operator: Equal, value: x}], containers: [{name: c, image: i}]}`, "", "operator must be Exists when `key` is empty"},
		{where(), "", "pods", `{metadata: {finalizers: [x]}, spec: {containers: [{name: c, image: i}]}}`, "", "name is neither a standard finalizer name nor is it fully qualified"},
		{where(), "batch", "cronjobs", `spec: {schedule: "61 * * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}`, "", "end of range (61) above maximum (59): 61"},
		{where(), "batch", "cronjobs", `spec: {schedule: "TZ=0", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}`, "", "invalid schedule format"},
		{where(), "batch", "cronjobs", `spec: {schedule: "* * * * *", timeZone: Nowhere/X, jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}`, "", "unknown time zone Nowhere/X"},
		{where(), "batch", "jobs", strings.Replace(jobText, "Never", "Always", 1), "", `spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`},
		{where(), "policy", "poddisruptionbudgets", `spec: {minAvailable: 150%}`, "", "must not be greater than 100%"},
		{where(), "autoscaling", "horizontalpodautoscalers", `spec: {minReplicas: 4, maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: A, name: a}}`, "", "must be greater than or equal to `minReplicas`"},
		{where(), "networking.k8s.io", "ingresses", `spec: {defaultBackend: {}}`, "", "resource or service backend is required"},
		{where(), "networking.k8s.io", "networkpolicies", `spec: {podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}]}]}`, "", "must be a strict subset of `cidr`"},
		{where(), "", "limitranges", `spec: {limits: [{type: Container, min: {cpu: 3}, max: {cpu: 2}}]}`, "", "min value 3 is greater than max value 2"},
		{where(), "", "nodes", `spec: {taints: [{key: a}]}`, "", "metadata.taints[0].effect: Required value"},
		{where(), "", "services", `spec: {}`, "", "spec.ports: Required value"},
		{where(), "", "services", `spec: {ports: [{port: 1}, {port: 2}]}`, "", "spec.ports[0].name: Required value"},
		{where(), "", "services", `spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 1}]}`, "", "spec.healthCheckNodePort: Required value"},
		{where(), "", "services", `spec: {ports: [{port: 1, nodePort: 30000}]}`, "", "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"},
		{where(), "", "services", `spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 1}]}`, `spec: {clusterIP: 10.0.0.2, clusterIPs: [10.0.0.2], ports: [{port: 1}]}`, `spec.clusterIPs[0]: Invalid value: ["10.0.0.1"]: may not change once set`},
		{where(), "", "services", `{metadata: {name: 1x}, spec: {ports: [{port: 1}]}}`, "", ""},
		{where(), "", "services", `{metadata: {name: a.x}, spec: {ports: [{port: 1}]}}`, "", "must not contain dots"},
		{where(), "apps", "statefulsets", strings.Replace("{metadata: {name: a.x}, "+deployText+"}", "spec: {", "spec: {", 1), "", "must not contain dots"},
		{where(), "", "events", `{metadata: {name: A_b}, involvedObject: {namespace: default}}`, "", ""},
		{where(), "", "configmaps", `data: {"a b": c}`, "", `data[a b]: Invalid value: "a b"`},
		{where(), "", "configmaps", `{immutable: true, data: {a: c}}`, `{immutable: true, data: {a: b}}`, "data: Forbidden: field is immutable when `immutable` is set"},
		{where(), "", "configmaps", `{data: {a: b}}`, `{immutable: true, data: {a: b}}`, "immutable: Forbidden: field is immutable when `immutable` is set"},
		{where(), "", "configmaps", `{immutable: true, data: {a: b}, metadata: {labels: {q: r}}}`, `{immutable: true, data: {a: b}}`, ""},
		{where(), "", "secrets", `type: a`, `type: b`, `type: Invalid value: "a": field is immutable`},
		{where(), "", "secrets", `type: kubernetes.io/tls`, "", "data[tls.crt]: Required value"},
		{where(), "rbac.authorization.k8s.io", "roles", `rules: [{resources: [a], apiGroups: [""]}]`, "", "rules[0].verbs: Required value"},
		{where(), "rbac.authorization.k8s.io", "roles", `{metadata: {name: "system:x"}, rules: []}`, "", ""},
		{where(), "rbac.authorization.k8s.io", "rolebindings", `roleRef: {kind: Role, name: a}`, `roleRef: {kind: Role, name: b}`, "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"a\"}: field is immutable"},
		{where(), "coordination.k8s.io", "leases", `spec: {leaseDurationSeconds: 0}`, "", "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"},
		{where(), "batch", "jobs", jobText, "", ""},
		{where(), "batch", "cronjobs", `spec: {jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}`, "", "spec.schedule: Required value"},
		{where(), "networking.k8s.io", "ingresses", `spec: {}`, "", "either `defaultBackend` or `rules` must be specified"},
		{where(), "resource.k8s.io", "resourceclaims", `spec: {devices: {}}`, `spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}`, "field is immutable"},
		{where(), "resource.k8s.io", "resourceslices", `spec: {driver: a, pool: {name: q}}`, `spec: {driver: a, pool: {name: p}}`, `spec.pool.name: Invalid value: "q": field is immutable`},
		{where(), "certificates.k8s.io", "clustertrustbundles", `{metadata: {name: "a.io:s:n"}, spec: {signerName: a.io/s, trustBundle: "-----BEGIN A-----\n-----END A-----\n"}}`, "", ""},
		{where(), "certificates.k8s.io", "clustertrustbundles", `{metadata: {name: m}, spec: {signerName: a.io/s, trustBundle: "-----BEGIN A-----\n-----END A-----\n"}}`, "", "ClusterTrustBundle for signerName a.io/s must be named with prefix a.io:s:"},
		{where(), "certificates.k8s.io", "clustertrustbundles", `metadata: {name: "a:n"}`, "", `without signer name must not have ":" in its name`},
		{where(), "certificates.k8s.io", "clustertrustbundles", `{metadata: {name: m}, spec: {trustBundle: x}}`, "", "at least one trust anchor must be provided"},
		{where(), "certificates.k8s.io", "certificatesigningrequests", `spec: {request: AAAA, signerName: a.io/s, usages: [any]}`, "", `spec.request: Invalid value: "AAAA": PEM block type must be CERTIFICATE REQUEST`},
		{where(), "", "podtemplates", `template: {}`, "", "template.spec.containers: Required value"},
		{where(), "apps", "controllerrevisions", `revision: 1`, "", "data: Required value: data is mandatory"},
		{where(), "apps", "controllerrevisions", `{data: {x: 2}, revision: 1}`, `{data: {x: 1}, revision: 1}`, "field is immutable"},
		{where(), "apps", "controllerrevisions", `{data: {x: 1}, revision: 2}`, `{data: {x: 1}, revision: 1}`, ""},
		{where(), "autoscaling", "horizontalpodautoscalers", `spec: {maxReplicas: 3, scaleTargetRef: {kind: A, name: a}}`, "", "apiVersion must specify API group"},
		{where(), "autoscaling", "horizontalpodautoscalers", `spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: v1, kind: ReplicationController, name: a}}`, "", ""},
		{where(), "autoscaling", "horizontalpodautoscalers", `spec: {maxReplicas: 3, scaleTargetRef: {kind: ReplicationController, name: a}}`, "", ""},
		{where(), "autoscaling", "horizontalpodautoscalers", `spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: a/b/c, kind: ReplicationController, name: a}}`, "", `spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`},
		{where(), "autoscaling", "horizontalpodautoscalers", `spec: {maxReplicas: 3, scaleTargetRef: {kind: A, name: b}}`, `spec: {maxReplicas: 3, scaleTargetRef: {kind: A, name: a}}`, ""},
		{where(), "autoscaling", "horizontalpodautoscalers", `spec: {maxReplicas: 3, scaleTargetRef: {kind: B, name: a}}`, `spec: {maxReplicas: 3, scaleTargetRef: {kind: A, name: a}}`, "apiVersion must specify API group"},
		{where(), "autoscaling", "horizontalpodautoscalers", `spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: a.io/v1, kind: A, name: a}, metrics: [{type: Object, object: {describedObject: {apiVersion: a/b/c, kind: A, name: a}, metric: {name: m}, target: {type: Value, value: 1}}}]}`, "", `spec.metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`},
		{where(), "autoscaling", "horizontalpodautoscalers", `spec: {maxReplicas: 4, scaleTargetRef: {apiVersion: a.io/v1, kind: A, name: a}, metrics: [{type: Object, object: {describedObject: {apiVersion: a/b/c, kind: A, name: a}, metric: {name: m}, target: {type: Value, value: 1}}}]}`, `spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: a.io/v1, kind: A, name: a}, metrics: [{type: Object, object: {describedObject: {apiVersion: a/b/c, kind: A, name: a}, metric: {name: m}, target: {type: Value, value: 1}}}]}`, ""},
		{where(), "autoscaling", "horizontalpodautoscalers", `spec: {scaleTargetRef: {apiVersion: a.io/v1, kind: A, name: a}}`, "", "spec.maxReplicas: Required value"},
		{where(), "networking.k8s.io", "ingressclasses", `spec: {}`, "", "spec.controller: Required value"},
		{where(), "networking.k8s.io", "ingressclasses", `spec: {controller: a.io/b}`, `spec: {controller: a.io/c}`, "field is immutable"},
		{where(), "", "pods", `spec: {os: {name: windows}, hostPID: true, containers: [{name: c, image: i}]}`, "", "spec.hostPID: Forbidden: cannot be set for a windows pod"},
		{where(), "", "pods", `spec: {os: {name: linux}, securityContext: {windowsOptions: {runAsUserName: u}}, containers: [{name: c, image: i}]}`, "", "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, securityContext: {appArmorProfile: {type: Localhost}}}]}`, "", "spec.containers[0].securityContext.appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, securityContext: {procMount: Unmasked}}]}`, "", "`hostUsers` must be false to use `Unmasked`"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, restartPolicyRules: [{action: Restart}]}]}`, "", "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used"},
		{where(), "", "pods", `spec: {restartPolicy: Never, containers: [{name: c, image: i, resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]}]}`, "", "must be 'NotRequired' when pod `restartPolicy` is 'Never'"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: 31}}}}]}`, "", "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, env: [{name: E, valueFrom: {fileKeyRef: {volumeName: v, key: K, path: p}}}]}]}`, "", "spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: \"v\""},
		{where(), "", "pods", `spec: {volumes: [{name: v}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]}]}`, "", "Bidirectional mount propagation is available only to privileged containers"},
		{where(), "", "pods", `spec: {volumes: [{name: v}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v, recursiveReadOnly: Enabled}]}]}`, "", "spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"},
		{where(), "", "pods", `spec: {hostnameOverride: h, hostNetwork: true, containers: [{name: c, image: i}]}`, "", "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true"},
		{where(), "", "pods", `spec: {hostPID: true, shareProcessNamespace: true, containers: [{name: c, image: i}]}`, "", "ShareProcessNamespace and HostPID cannot both be enabled"},
		{where(), "", "pods", `spec: {hostIPC: true, securityContext: {sysctls: [{name: kernel.sem, value: "1"}]}, containers: [{name: c, image: i}]}`, "", "may not be specified when 'hostIPC' is true"},
		{where(), "", "pods", `spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: k, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: k, whenUnsatisfiable: DoNotSchedule}], containers: [{name: c, image: i}]}`, "", "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: \"{k, DoNotSchedule}\""},
		{where(), "", "pods", `spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: k, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [a]}], containers: [{name: c, image: i}]}`, "", "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"},
		{where(), "", "pods", `spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: x, operator: In, values: [node]}]}]}}}, containers: [{name: c, image: i}]}`, "", "matchFields[0].key: Invalid value: \"x\": not a valid field selector key"},
		{where(), "", "pods", `spec: {volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {path: p}}]}}], containers: [{name: c, image: i}]}`, "", "spec.volumes[0].projected.sources[0].clusterTrustBundle: Required value: either name or signerName must be specified"},
		{where(), "", "pods", `spec: {volumes: [{name: v, projected: {sources: [{podCertificate: {signerName: a.b/c, keyType: DSA, keyPath: k}}]}}], containers: [{name: c, image: i}]}`, "", "spec.volumes[0].projected.sources[0].podCertificate.keyType: Unsupported value: \"DSA\""},
		{where(), "", "pods", `spec: {dnsConfig: {searches: ["a b"]}, containers: [{name: c, image: i}]}`, "", "spec.dnsConfig.searches[0]: Invalid value: \"a b\""},
		{where(), "", "pods", `spec: {overhead: {cpu: -1}, containers: [{name: c, image: i}]}`, "", "spec.overhead.limits[cpu]: Invalid value: \"-1\""},
		{where(), "storage.k8s.io", "volumeattachments", `spec: {nodeName: node, source: {persistentVolumeName: v}}`, "", "spec.attacher: Required value"},
		{where(), "storage.k8s.io", "volumeattachments", `spec: {attacher: a, nodeName: node, source: {inlineVolumeSpec: {accessModes: [ReadWriteOnce]}}}`, "", "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes"},
		{where(), "storage.k8s.io", "csidrivers", `spec: {tokenRequests: [{audience: a}, {audience: a}]}`, "", "spec.tokenRequests[1].audience: Duplicate value: \"a\""},
		{where(), "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", `spec: {type: Limited, limited: {limitResponse: {type: Queue, queuing: {queues: 8, handSize: 9}}}}`, "", "spec.limited.limitResponse.queuing.handSize: Invalid value: 9: should not be greater than queues (8)"},
		{where(), "flowcontrol.apiserver.k8s.io", "flowschemas", `spec: {matchingPrecedence: 20000}`, "", "spec.matchingPrecedence: Invalid value: 20000: must not be greater than 10000"},
		{where(), "flowcontrol.apiserver.k8s.io", "flowschemas", `spec: {priorityLevelConfiguration: {name: p}, rules: [{}]}`, "", "[spec.rules[0].subjects: Required value: subjects must contain at least one value, spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty]"},
		{where(), "flowcontrol.apiserver.k8s.io", "flowschemas", `spec: {priorityLevelConfiguration: {name: p}, rules: [{subjects: [{kind: User, group: {name: g}}], resourceRules: [{verbs: [read], apiGroups: [a, "*"], resources: [b], namespaces: [A]}]}]}`, "",
			"[spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User', spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group', " +
				"spec.rules[0].resourceRules[0].verbs: Unsupported value: [\"read\"]: supported values: \"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \"watch\", " +
				"spec.rules[0].resourceRules[0].apiGroups: Invalid value: [\"a\",\"*\"]: if '*' is present, must not specify other api groups, spec.rules[0].resourceRules[0].namespaces[0]: Invalid value: \"A\": each member of this list must be '*' or a DNS-1123 label; "},
		{where(), "flowcontrol.apiserver.k8s.io", "flowschemas", `spec: {priorityLevelConfiguration: {name: p}, rules: [{subjects: [{kind: ServiceAccount, serviceAccount: {name: "*"}}], nonResourceRules: [{verbs: [get], nonResourceURLs: [x, /a*, "/b/*"]}]}]}`, "",
			"[spec.rules[0].subjects[0].serviceAccount.namespace: Required value: must specify namespace for service account, spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: \"x\": must start with slash, " +
				"spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: \"/a*\": wildcard can only do suffix matching]"},
		{where(), "flowcontrol.apiserver.k8s.io", "flowschemas", `{metadata: {name: catch-all}, spec: {matchingPrecedence: 10000, priorityLevelConfiguration: {name: catch-all}}}`, "", "spec of 'catch-all' must equal the fixed value"},
		{where(), "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", `{metadata: {name: catch-all}, spec: {type: Limited, limited: {nominalConcurrencyShares: 6, limitResponse: {type: Reject}}}}`, "", "spec of 'catch-all' must equal the fixed value"},
		{where(), "flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", `{metadata: {name: exempt}, spec: {type: Exempt, exempt: {nominalConcurrencyShares: 6}}}`, "", ""},
		{where(), "resource.k8s.io", "resourceslices", `spec: {driver: a.io, pool: {name: p, resourceSliceCount: 1}}`, "", "spec: Required value: exactly one of `nodeName`"},
		{where(), "resource.k8s.io", "devicetaintrules", `spec: {taint: {key: k}}`, "", "spec.taint.effect: Required value"},
		{where(), "certificates.k8s.io", "podcertificaterequests", `spec: {signerName: x}`, "", "must be a fully qualified domain and path of the form 'example.com/signer-name'"},
		{where(), "autoscaling", "horizontalpodautoscalers", `spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: A, name: a}, metrics: [{type: ContainerResource, containerResource: {name: x, container: c, target: {type: Utilization, averageUtilization: 1}}}]}`, "", "must be a standard resource for containers"},
		{where(), "networking.k8s.io", "servicecidrs", `spec: {}`, "", "spec.cidrs: Required value: at least one CIDR required"},
		{where(), "networking.k8s.io", "ipaddresses", `{metadata: {name: 10.0.0.1}, spec: {}}`, "", "spec.parentRef: Required value"},
		{where(), "networking.k8s.io", "ipaddresses", `{metadata: {name: 10.0.0.x}, spec: {parentRef: {resource: a, name: b}}}`, "", "must be a valid IP address"},
		{where(), "networking.k8s.io", "ipaddresses", `{metadata: {name: "2001:DB8::1"}, spec: {parentRef: {resource: a, name: b}}}`, "", `must be in canonical form ("2001:db8::1")`},
		{where(), "discovery.k8s.io", "endpointslices", `endpoints: []`, "", "addressType: Required value"},
		{where(), "discovery.k8s.io", "endpointslices", `{addressType: IPv4, endpoints: [{addresses: [127.0.0.1]}]}`, "", "may not be in the loopback range"},
		{where(), "discovery.k8s.io", "endpointslices", `{addressType: IPv4, endpoints: [{addresses: [169.254.169.254]}]}`, "", "may not be in the link-local range"},
		{where(), "", "endpoints", `subsets: [{addresses: [{ip: 127.0.0.1}], ports: [{port: 1}]}]`, "", "may not be in the loopback range"},
		{where(), "", "endpoints", `subsets: [{notReadyAddresses: [{ip: 169.254.169.254}], ports: [{port: 1}]}]`, "", "may not be in the link-local range"},
		{where(), "discovery.k8s.io", "endpointslices", `endpoints: []`, `{addressType: IPv4, endpoints: []}`, "[addressType: Invalid value: null: field is immutable, addressType: Required value]"},
		{where(), "storage.k8s.io", "volumeattributesclasses", `driverName: d`, "", "parameters: Required value: must contain at least one key/value pair"},
		{where(), "storage.k8s.io", "csistoragecapacities", `capacity: 1Gi`, "", `storageClassName: Invalid value: "": a lowercase RFC 1123 subdomain`},
		{where(), "policy", "poddisruptionbudgets", `{metadata: {name: A_b}, spec: {minAvailable: 1}}`, "", ""},
		{where(), "", "persistentvolumes", `spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a]}]}]}}, ` + volumeText,
			`spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: failure-domain.beta.kubernetes.io/zone, operator: In, values: [a]}]}]}}, ` + volumeText, ""},
		{where(), "", "persistentvolumes", `spec: {` + volumeText, `spec: {nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: k, operator: Exists}]}]}}, ` + volumeText,
			"nodeAffinity: Invalid value: null: field is immutable, except for updating from beta label to GA"},
		{where(), "batch", "jobs", jobWaits + `nodeSelector: {a: b}, containers: [{name: c, image: i}]}}}`, jobWaits + `containers: [{name: c, image: i}]}}}`, ""},
		{where(), "batch", "jobs", jobWaits + `containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}}`, jobWaits + `containers: [{name: c, image: i}]}}}`, ""},
		{where(), "batch", "jobs", jobWaits + `containers: [{name: c, image: j}]}}}`, jobWaits + `containers: [{name: c, image: i}]}}}`, "spec.template.spec: Invalid value"},
		{where(), "certificates.k8s.io", "podcertificaterequests", `spec: {podName: a}`, `spec: {podName: b}`, "field is immutable"},
		{where(), "admissionregistration.k8s.io", "validatingwebhookconfigurations", `webhooks: [{name: a}]`, "", "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"},
		{where(), "", "pods", `spec: {volumes: [{name: v, gcePersistentDisk: {partition: 256}}], containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: /v}]}]}`, "",
			`[spec.volumes[0].persistentDisk.pdName: Required value, spec.volumes[0].persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive, spec.containers[0].volumeMounts[0].name: Not found: "v"]`},
		{where(), "", "pods", `spec: {volumes: [{name: v, awsElasticBlockStore: {}}], containers: [{name: c, image: i}]}`, "", "spec.volumes[0].awsElasticBlockStore.volumeID: Required value"},
		{where(), "", "pods", `spec: {volumes: [{name: v, gcePersistentDisk: {pdName: d}}], containers: [{name: c, image: i}]}`, "", ""},
		{where(), "", "persistentvolumes", `spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], gcePersistentDisk: {}}`, "", "spec.persistentDisk.pdName: Required value"},
		{where(), "", "persistentvolumes", `spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], awsElasticBlockStore: {volumeID: v, partition: -1}}`, "", "spec.awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, securityContext: {windowsOptions: {hostProcess: true}}}, {name: d, image: i}]}`, "",
			`[spec: Invalid value: "": If pod contains any hostProcess containers then all containers must be HostProcess containers, spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers]`},
		{where(), "", "pods", `spec: {hostNetwork: true, securityContext: {windowsOptions: {hostProcess: true}}, containers: [{name: c, image: i}, {name: d, image: i, securityContext: {windowsOptions: {hostProcess: true}}}]}`, "", ""},
		{where(), "", "pods", `spec: {securityContext: {windowsOptions: {hostProcess: false}}, containers: [{name: c, image: i, securityContext: {windowsOptions: {hostProcess: true}}}]}`, "",
			"spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: true: pod hostProcess value must be identical if both are specified, was false"},
		{where(), "", "pods", `spec: {containers: [{name: c, image: i, securityContext: {allowPrivilegeEscalation: false, privileged: true, capabilities: {add: [X]}, seLinuxOptions: {level: l}}}]}`, "",
			`Invalid value: {"Capabilities":{"Add":["X"],"Drop":null},"Privileged":true,"SELinuxOptions":{"User":"","Role":"","Type":"","Level":"l"},"WindowsOptions":null,`},
		{where(), "batch", "jobs", strings.Replace(jobText, "template: {", "template: {metadata: {labels: {controller-uid: x}}, ", 1), "", `spec.template.metadata.labels[controller-uid]: Invalid value: {`},
		{where(), "batch", "jobs", "{metadata: {name: a}, " + strings.Replace(jobText, "template: {", "selector: {matchLabels: {job-name: a}}, template: {", 1) + "}", "", ""},
		{where(), "batch", "jobs", strings.Replace(jobText, "template: {", "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, ", 1), "", "`selector` not auto-generated"},
		{where(), "rbac.authorization.k8s.io", "clusterrolebindings", `{roleRef: {kind: ClusterRole}, subjects: [{kind: ServiceAccount}, {kind: ServiceAccount}]}`, "",
			"[subjects[0].namespace: Required value, subjects[1].namespace: Required value, subjects[0].name: Required value, subjects[1].name: Required value, roleRef.name: Required value]"},
		{where(), "rbac.authorization.k8s.io", "clusterroles", `{rules: [{apiGroups: [""]}], aggregationRule: {}}`, "",
			"[rules[0].resources: Required value: resource rules must supply at least one resource, aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil, rules[0].verbs: Required value]"},
	} {
		v := versionFor(t, c.group, c.plural)
		d := read(t, v, c.text)
		var old *jsondoc.Doc
		if c.old != "" {
			old = read(t, v, c.old)
		} else {
			v.PrepareCreate(d)
		}
		got := ""
		if errs := v.Validate(context.Background(), d, old, schema.Whole).Errors; len(errs) > 0 {
			got = fmt.Sprint(errs.ToAggregate())
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("line %d: got %q, want %q", c.line, got, c.want)
		}
	}
}
