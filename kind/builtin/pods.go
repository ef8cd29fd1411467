package builtin

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/doc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/meta"
	"github.com/keelson-io/keelson/schema"
)

// This file describes pods and what pods run on.

// all is the category of what "kubectl get all" shows.
var all = []string{"all"}

// These are the scopes of subresources that may change what an update of the object itself may not: of pods, and of requests for
// certificates.
const (
	partEphemeral = kind.Finalize + 1 + iota
	partResize
	partApproval
)

// partVerbs are the verbs of subresources that are a part of their object.
var partVerbs = []string{"get", "patch", "update"}

func podKinds() []description {
	return []description{{
		kind: "Pod", plural: "pods", short: []string{"po"}, categories: all,
		versions: v1[corev1.Pod](fillPod), status: true, returned: true, generation: true,
		subresources: []kind.Subresource{
			{Name: "ephemeralcontainers", Verbs: partVerbs, Scope: partEphemeral},
			{Name: "resize", Verbs: partVerbs, Scope: partResize},
		},
		parts:   []part{{"binding", binding()}, {"eviction", eviction()}},
		fields:  podFields(),
		columns: podColumns(), ended: podEnded,
		create: createPod, updatePart: updatePodPart, check: checkPod, warnings: podWarnings, statusWarnings: podStatusWarnings, grace: podGrace,
		updateStatus: updatePodStatus,
		update: func(new, old *doc.Doc) { // who does not know of resources of the pod leaves them out
			if !new.Root().At("spec", "resources").Exists() {
				kind.Keep(new, old, "spec", "resources")
			}
		},
	}, binding(), {
		kind: "PodTemplate", plural: "podtemplates", versions: v1[corev1.PodTemplate](fillTemplate), returned: true, generation: true,
		warnings: templateWarnings("template"),
		check: func(_ *kind.Version, d, _ *doc.Doc, _ schema.Scope) field.ErrorList {
			return checkTemplate(readAs[corev1.PodTemplateSpec](d.Root().Get("template")), field.NewPath("template"), nil)
		},
		columns: append(containerColumnsNow("template", "spec"),
			cell("Pod Labels", "The labels for the pod template.", func(obj doc.Value) string {
				return mapText(obj.At("template", "metadata", "labels"), "<none>")
			})),
	}, {
		orphans: true, kind: "ReplicationController", plural: "replicationcontrollers", short: []string{"rc"}, categories: all,
		prefix: "controllers", versions: v1[corev1.ReplicationController](fillReplicationController),
		status: true, generation: true, scale: newScale(),
		fields:  []kind.Selectable{numberField("status.replicas")},
		columns: controllerColumns(),
		check:   both(unlessStatus(checkReplicationController), replicaCounts.check), warnings: controllerWarnings,
	}, {
		kind: "Node", plural: "nodes", short: []string{"no"}, cluster: true, prefix: "minions",
		versions: v1[corev1.Node](fillNode), status: true, keepStatus: true,
		fields: []kind.Selectable{boolField("spec.unschedulable")}, columns: nodeColumns(), check: checkNode, warnings: nodeWarnings,
	}, {
		kind: "ResourceQuota", plural: "resourcequotas", short: []string{"quota"}, status: true, returned: true,
		versions: v1[corev1.ResourceQuota](nil), check: checkQuota,
		columns: []kind.Column{
			cell("Request", "Request represents a minimum amount of cpu/memory that a container may consume.", quotaCell(false)),
			cell("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.", quotaCell(true)),
			ageColumn(),
		},
	}, {
		kind: "LimitRange", plural: "limitranges", short: []string{"limits"},
		versions: v1[corev1.LimitRange](fillLimitRange), createOnUpdate: true, columns: []kind.Column{createdColumn()}, check: checkLimitRange,
		create: func(d *doc.Doc) {
			if (meta.Object{Doc: d}).Name() == "" {
				d.Set(d.NewString(string(uuid.NewUUID())), "metadata", "name")
			}
		},
	}}
}

// binding is what says on which node a pod is to run.
func binding() description {
	return description{kind: "Binding", plural: "bindings", virtual: true, versions: v1[corev1.Binding](nil)}
}

// eviction is what a pod is asked to leave its node with.
func eviction() description {
	return description{group: policyv1.GroupName, kind: "Eviction", plural: "evictions", versions: v1[policyv1.Eviction](nil)}
}

// updatePodPart leaves a pod as it is but for what the subresource is.
func updatePodPart(new, old *doc.Doc, scope schema.Scope) {
	keep := [][]string{{"metadata", "managedFields"}, {"metadata", "resourceVersion"}, {"spec", "ephemeralContainers"}}
	if scope == partResize {
		keep = append(keep[:2], []string{"spec", "containers"}, []string{"spec", "initContainers"}, []string{"spec", "resources"})
	}
	kind.KeepAllBut(new, old, keep...)
}

// controllerColumns are those of replication controllers, whose selectors are plain maps.
func controllerColumns() []kind.Column {
	spec := corev1.ReplicationControllerSpec{}.SwaggerDoc()
	columns := replicaColumns(spec, corev1.ReplicationControllerStatus{}.SwaggerDoc())
	columns[len(columns)-1] = wide(cell("Selector", spec["selector"], func(obj doc.Value) string { return mapText(obj.At("spec", "selector"), "<none>") }))
	return columns
}

// containerColumnsNow are containerColumns that are always shown.
func containerColumnsNow(path ...string) []kind.Column {
	columns := containerColumns(path...)
	for i := range columns {
		columns[i].Priority = 0
	}
	return columns
}

// newScale is where the scale of all kinds of workloads is.
func newScale() *kind.Scale {
	return &kind.Scale{
		SpecReplicas: ".spec.replicas", StatusReplicas: ".status.replicas", LabelSelector: ".spec.selector",
		SpecPath: []string{"spec", "replicas"}, StatusPath: []string{"status", "replicas"}, SelectorPath: []string{"spec", "selector"},
	}
}

func podFields() []kind.Selectable {
	var fields []kind.Selectable
	for _, path := range []string{
		".spec.nodeName", ".spec.restartPolicy", ".spec.schedulerName", ".spec.serviceAccountName",
		".status.phase", ".status.podIP", ".status.nominatedNodeName",
	} {
		fields = append(fields, kind.NewSelectable(path))
	}
	return append(fields, boolField("spec.hostNetwork"), kind.Selectable{
		JSONPath: ".status.podIPs", Label: "status.podIPs",
		Value: func(root doc.Value) string {
			var ips []string
			for _, ip := range root.At("status", "podIPs").Items() {
				ips = append(ips, ip.Get("ip").Text())
			}
			return strings.Join(ips, ",")
		},
	})
}

// boolField is a selectable truth, which is false where it is not said.
func boolField(label string) kind.Selectable {
	f := kind.NewSelectable("." + label)
	f.Value = func(root doc.Value) string { return strconv.FormatBool(root.At(f.Path...).Bool()) }
	return f
}

// numberField is a selectable number, which is 0 where it is not said.
func numberField(label string) kind.Selectable {
	f := kind.NewSelectable("." + label)
	f.Value = func(root doc.Value) string { return number(root.At(f.Path...)) }
	return f
}

// podGrace is how long a pod lives on: what is asked for or what it says
// itself, and not at all unless it runs on a node.
func podGrace(d *doc.Doc, asked *int64) int64 {
	root := d.Root()
	phase := corev1.PodPhase(root.At("status", "phase").Text())
	if root.At("spec", "nodeName").Text() == "" || phase == corev1.PodFailed || phase == corev1.PodSucceeded {
		return 0
	}
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if own := root.At("spec", "terminationGracePeriodSeconds"); own.Kind() == doc.Int {
		seconds = own.Int()
	}
	if asked != nil {
		seconds = *asked
	}
	return max(seconds, 0)
}

func podColumns() []kind.Column {
	spec, status := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	return []kind.Column{
		cell("Ready", "The aggregate readiness state of this pod for accepting traffic.", podReady),
		cell("Status", "The aggregate status of the containers in this pod.", podStatus),
		timed("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.", podRestarts),
		ageColumn(),
		wide(cell("IP", status["podIP"], func(obj doc.Value) string {
			return either(obj.At("status", "podIPs").Item(0).Get("ip").Text(), "<none>")
		})),
		wide(orNone("Node", spec["nodeName"], "<none>", "spec", "nodeName")),
		wide(orNone("Nominated Node", status["nominatedNodeName"], "<none>", "status", "nominatedNodeName")),
		wide(cell("Readiness Gates", spec["readinessGates"], readinessGates)),
	}
}

func readinessGates(obj doc.Value) string {
	gates := obj.At("spec", "readinessGates")
	if gates.Len() == 0 {
		return "<none>"
	}
	met := 0
	for _, g := range gates.Items() {
		for _, c := range obj.At("status", "conditions").Items() {
			if c.Get("type").Text() == g.Get("conditionType").Text() && c.Get("status").Text() == "True" {
				met++
				break
			}
		}
	}
	return strconv.Itoa(met) + "/" + strconv.Itoa(gates.Len())
}

func nodeColumns() []kind.Column {
	info := corev1.NodeSystemInfo{}.SwaggerDoc()
	address := func(name, typ string) kind.Column {
		return wide(cell(name, corev1.NodeStatus{}.SwaggerDoc()["addresses"], func(obj doc.Value) string {
			for _, a := range obj.At("status", "addresses").Items() {
				if a.Get("type").Text() == typ {
					return a.Get("address").Text()
				}
			}
			return "<none>"
		}))
	}
	own := func(name, member string) kind.Column {
		return wide(orNone(name, info[member], "<unknown>", "status", "nodeInfo", member))
	}
	return []kind.Column{
		cell("Status", "The status of the node", nodeStatus),
		cell("Roles", "The roles of the node", nodeRoles),
		ageColumn(),
		at("Version", "string", ".status.nodeInfo.kubeletVersion", info["kubeletVersion"]),
		address("Internal-IP", "InternalIP"), address("External-IP", "ExternalIP"),
		own("OS-Image", "osImage"), wide(cell("Kernel-Version", info["kernelVersion"], func(obj doc.Value) string {
			kernel := obj.At("status", "nodeInfo", "kernelVersion").Text()
			if kernel == "" {
				kernel = "<unknown>"
			}
			if architecture := obj.At("status", "nodeInfo", "architecture").Text(); architecture != "" {
				kernel += " (" + architecture + ")"
			}
			return kernel
		})), own("Container-Runtime", "containerRuntimeVersion"),
	}
}

func nodeStatus(obj doc.Value) string {
	word := "Unknown"
	for _, c := range obj.At("status", "conditions").Items() {
		if c.Get("type").Text() == "Ready" {
			if word = "NotReady"; c.Get("status").Text() == "True" {
				word = "Ready"
			}
		}
	}
	if obj.At("spec", "unschedulable").Bool() {
		word += ",SchedulingDisabled"
	}
	return word
}

func nodeRoles(obj doc.Value) string {
	var roles []string
	for key, value := range obj.At("metadata", "labels").Members() {
		if role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if key == "kubernetes.io/role" && value.Text() != "" {
			roles = append(roles, value.Text())
		}
	}
	return either(strings.Join(roles, ","), "<none>")
}

// quotaCell shows what is used of what there is, of limits or of all else.
func quotaCell(limits bool) func(doc.Value) string {
	return func(obj doc.Value) string {
		var out []string
		for name, hard := range obj.At("status", "hard").Members() {
			if strings.HasPrefix(name, "limits.") == limits {
				out = append(out, name+": "+either(obj.At("status", "used", name).Text(), "0")+"/"+hard.Text())
			}
		}
		return strings.Join(out, ", ")
	}
}
