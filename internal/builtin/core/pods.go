package core

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file describes pods, nodes, and the kinds that limit pods.

// podKinds returns pods, nodes, replication controllers, quotas, limit ranges and pod templates.
func podKinds() []describe.Description {
	return []describe.Description{{
		Kind: "Pod", Plural: "pods", ShortNames: []string{"po"}, Categories: describe.AllCategory,
		Versions: describe.V1[corev1.Pod](fillPod), Status: true, Generation: true,
		Traits: kind.Traits{DeleteReturnsObject: true, StatusKeeps: []string{"deletionTimestamp", "ownerReferences"}, Grace: podGrace},
		Subresources: []describe.Subresource{
			{Name: "ephemeralcontainers", Scope: schema.EphemeralContainers},
			{Name: "resize", Scope: schema.Resize},
			{Name: "binding", Body: new(binding())},
			{Name: "eviction", Body: eviction()},
		},
		Fields:  podFields(),
		Columns: podColumns(), Ended: podEnded,
		Create: createPod, UpdatePart: updatePodPart, Check: checkPod, Warnings: podWarnings, StatusWarnings: podStatusWarnings,
		UpdateStatus: updatePodStatus,
		Update: func(new, old *jsondoc.Doc) { // an older client sends pods without resources at the pod level
			if !new.Root().At("spec", "resources").Exists() {
				kind.Keep(new, old, "spec", "resources")
			}
		},
	}, binding(), {
		Kind: "PodTemplate", Plural: "podtemplates", Versions: describe.V1[corev1.PodTemplate](fillTemplate), Traits: kind.Traits{DeleteReturnsObject: true}, Generation: true,
		Warnings: TemplateWarnings("template"),
		Check: func(_ *kind.Version, d, _ *jsondoc.Doc, _ schema.Scope) field.ErrorList {
			return CheckTemplate(describe.ReadAs[corev1.PodTemplateSpec](d.Root().Get("template")), field.NewPath("template"), nil)
		},
		Columns: append(containerColumnsNow("template", "spec"),
			describe.Cell("Pod Labels", "The labels for the pod template.", func(obj jsondoc.Value) string {
				return describe.MapText(obj.At("template", "metadata", "labels"), "<none>")
			})),
	}, {
		Traits: kind.Traits{DefaultOrphan: true}, Kind: "ReplicationController", Plural: "replicationcontrollers", ShortNames: []string{"rc"}, Categories: describe.AllCategory,
		StoragePrefix: "controllers", Versions: describe.V1[corev1.ReplicationController](fillReplicationController),
		Status: true, Generation: true, Scale: describe.NewScale(),
		Fields:  []kind.Selectable{describe.NumberField("status.replicas")},
		Columns: controllerColumns(),
		Check:   describe.Both(describe.UnlessStatus(checkReplicationController), describe.ReplicaCounts.Check), Warnings: controllerWarnings,
	}, {
		Kind: "Node", Plural: "nodes", ShortNames: []string{"no"}, ClusterScoped: true, StoragePrefix: "minions",
		Versions: describe.V1[corev1.Node](fillNode), Status: true, KeepStatus: true,
		Fields: []kind.Selectable{boolField("spec.unschedulable")}, Columns: nodeColumns(), Check: checkNode, Warnings: nodeWarnings,
	}, {
		Kind: "ResourceQuota", Plural: "resourcequotas", ShortNames: []string{"quota"}, Status: true, Traits: kind.Traits{DeleteReturnsObject: true},
		Versions: describe.V1[corev1.ResourceQuota](nil), Check: checkQuota,
		Columns: []kind.Column{
			describe.Cell("Request", "Request represents a minimum amount of cpu/memory that a container may consume.", quotaCell(false)),
			describe.Cell("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.", quotaCell(true)),
			describe.AgeColumn(),
		},
	}, {
		Kind: "LimitRange", Plural: "limitranges", ShortNames: []string{"limits"},
		Versions: describe.V1[corev1.LimitRange](fillLimitRange), Traits: kind.Traits{CreateOnUpdate: true}, Columns: []kind.Column{describe.CreatedColumn()}, Check: checkLimitRange,
		Create: func(d *jsondoc.Doc) {
			if (meta.Object{Doc: d}).Name() == "" {
				d.Set(d.NewString(string(uuid.NewUUID())), "metadata", "name")
			}
		},
	}}
}

// binding assigns a pod to a node.
func binding() describe.Description {
	return describe.Description{Kind: "Binding", Plural: "bindings", Traits: kind.Traits{Virtual: true}, Versions: describe.V1[corev1.Binding](nil)}
}

// eviction requests that a pod leaves its node.
func eviction() *describe.Description {
	return &describe.Description{
		Group: policyv1.GroupName, Kind: "Eviction", Plural: "evictions", Versions: describe.V1[policyv1.Eviction](nil),
		Traits: kind.Traits{Virtual: true, BodyVersions: []string{"policy/v1beta1"}},
	}
}

// updatePodPart keeps all of a pod but the part that the subresource changes.
func updatePodPart(new, old *jsondoc.Doc, scope schema.Scope) {
	keep := [][]string{
		{"metadata", "managedFields"}, {"metadata", "resourceVersion"}, {"metadata", "generateName"},
		{"metadata", "uid"}, {"metadata", "deletionGracePeriodSeconds"}, // a request must not change these
	}
	if scope == schema.EphemeralContainers {
		keep = append(keep, []string{"spec", "ephemeralContainers"})
	} else {
		keep = append(keep, []string{"spec", "containers"}, []string{"spec", "initContainers"}, []string{"spec", "resources"})
	}
	kind.KeepAllBut(new, old, keep...)
	if scope == schema.Resize {
		keepResized(new, old)
	}
}

// controllerColumns returns the columns of replication controllers, whose selectors are plain maps.
func controllerColumns() []kind.Column {
	spec := corev1.ReplicationControllerSpec{}.SwaggerDoc()
	columns := describe.ReplicaColumns(spec, corev1.ReplicationControllerStatus{}.SwaggerDoc())
	columns[len(columns)-1] = describe.Wide(describe.Cell("Selector", spec["selector"], func(obj jsondoc.Value) string { return describe.MapText(obj.At("spec", "selector"), "<none>") }))
	return columns
}

// containerColumnsNow are containerColumns that are always shown.
func containerColumnsNow(path ...string) []kind.Column {
	columns := describe.ContainerColumns(path...)
	for i := range columns {
		columns[i].Priority = 0
	}
	return columns
}

// podFields returns the selectable fields of pods.
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
		Value: func(root jsondoc.Value) string {
			var ips []string
			for _, ip := range root.At("status", "podIPs").Items() {
				ips = append(ips, ip.Get("ip").Text())
			}
			return strings.Join(ips, ",")
		},
	})
}

// boolField returns a selectable field that is true or false. A missing field is false.
func boolField(label string) kind.Selectable {
	f := kind.NewSelectable("." + label)
	f.Value = func(root jsondoc.Value) string { return strconv.FormatBool(root.At(f.Path...).Bool()) }
	return f
}

// podGrace returns the grace period of a delete: the requested one, or that of the pod, and zero
// for a pod that is not on a node.
func podGrace(d *jsondoc.Doc, asked *int64) int64 {
	root := d.Root()
	phase := corev1.PodPhase(root.At("status", "phase").Text())
	if root.At("spec", "nodeName").Text() == "" || phase == corev1.PodFailed || phase == corev1.PodSucceeded {
		return 0
	}
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if own := root.At("spec", "terminationGracePeriodSeconds"); own.Kind() == jsondoc.Int {
		seconds = own.Int()
	}
	if asked != nil {
		seconds = *asked
	}
	return max(seconds, 0)
}

// podColumns returns the columns of pods.
func podColumns() []kind.Column {
	spec, status := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	return []kind.Column{
		describe.Cell("Ready", "The aggregate readiness state of this pod for accepting traffic.", podReady),
		describe.Cell("Status", "The aggregate status of the containers in this pod.", podStatus),
		describe.Timed("Restarts", "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.", podRestarts),
		describe.AgeColumn(),
		describe.Wide(describe.Cell("IP", status["podIP"], func(obj jsondoc.Value) string {
			return describe.Either(obj.At("status", "podIPs").Item(0).Get("ip").Text(), "<none>")
		})),
		describe.Wide(describe.OrNone("Node", spec["nodeName"], "<none>", "spec", "nodeName")),
		describe.Wide(describe.OrNone("Nominated Node", status["nominatedNodeName"], "<none>", "status", "nominatedNodeName")),
		describe.Wide(describe.Cell("Readiness Gates", spec["readinessGates"], readinessGates)),
	}
}

// readinessGates returns how many readiness gates of a pod are true, and how many there are.
func readinessGates(obj jsondoc.Value) string {
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

// nodeColumns returns the columns of nodes.
func nodeColumns() []kind.Column {
	info := corev1.NodeSystemInfo{}.SwaggerDoc()
	address := func(name, typ string) kind.Column {
		return describe.Wide(describe.Cell(name, corev1.NodeStatus{}.SwaggerDoc()["addresses"], func(obj jsondoc.Value) string {
			for _, a := range obj.At("status", "addresses").Items() {
				if a.Get("type").Text() == typ {
					return a.Get("address").Text()
				}
			}
			return "<none>"
		}))
	}
	own := func(name, member string) kind.Column {
		return describe.Wide(describe.OrNone(name, info[member], "<unknown>", "status", "nodeInfo", member))
	}
	return []kind.Column{
		describe.Cell("Status", "The status of the node", nodeStatus),
		describe.Cell("Roles", "The roles of the node", nodeRoles),
		describe.AgeColumn(),
		describe.At("Version", "string", ".status.nodeInfo.kubeletVersion", info["kubeletVersion"]),
		address("Internal-IP", "InternalIP"), address("External-IP", "ExternalIP"),
		own("OS-Image", "osImage"), describe.Wide(describe.Cell("Kernel-Version", info["kernelVersion"], func(obj jsondoc.Value) string {
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

// nodeStatus returns the state of a node as tables show it.
func nodeStatus(obj jsondoc.Value) string {
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

// nodeRoles returns the roles of a node from its labels.
func nodeRoles(obj jsondoc.Value) string {
	var roles []string
	for key, value := range obj.At("metadata", "labels").Members() {
		if role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if key == "kubernetes.io/role" && value.Text() != "" {
			roles = append(roles, value.Text())
		}
	}
	return describe.Either(strings.Join(roles, ","), "<none>")
}

// quotaCell returns used and hard quantities of a quota, either the limits or all others.
func quotaCell(limits bool) func(jsondoc.Value) string {
	return func(obj jsondoc.Value) string {
		var out []string
		for name, hard := range obj.At("status", "hard").Members() {
			if strings.HasPrefix(name, "limits.") == limits {
				out = append(out, name+": "+describe.Either(obj.At("status", "used", name).Text(), "0")+"/"+hard.Text())
			}
		}
		return strings.Join(out, ", ")
	}
}

// checkReplicationController checks a replication controller.
func checkReplicationController(new, _ *jsondoc.Doc) field.ErrorList {
	spec, path := describe.ReadAs[corev1.ReplicationControllerSpec](new.Root().Get("spec")), field.NewPath("spec")
	errs := describe.NotNegative(path.Child("replicas"), describe.OrNothing(spec.Replicas))
	errs = append(errs, describe.NotNegative(path.Child("minReadySeconds"), spec.MinReadySeconds)...)
	if len(spec.Selector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	at := path.Child("template")
	if spec.Template == nil {
		return append(errs, field.Required(at, ""))
	}
	if len(spec.Selector) > 0 && !labels.SelectorFromSet(spec.Selector).Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	errs = append(errs, CheckTemplate(spec.Template, at, nil)...)
	return append(errs, CheckAlways(spec.Template, at)...)
}
