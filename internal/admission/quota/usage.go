package quota

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/internal/admission/storage"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file measures what objects use of a quota.

// Measure computes how much the objects of a resource use.
type Measure struct {
	// Read decodes an object for the other functions. Nil: they need none, because only the number of
	// objects counts.
	Read func(d *jsondoc.Doc) (any, error)
	// Parse is Read for the JSON of an object.
	Parse func(text []byte) (any, error)
	// Tracks reports whether the resource counts under a name of a quota.
	Tracks func(name corev1.ResourceName) bool
	// Use returns what an object uses.
	Use func(object any) corev1.ResourceList
	// InScope reports whether an object is in a scope of a quota. Nil: it is in none.
	InScope func(s *corev1.ScopedResourceSelectorRequirement, object any) (bool, error)

	// required returns an error if an object does not have a request or limit for a tracked
	// resource.
	required func(tracked []corev1.ResourceName, object any) error
	// charges reports whether an update may use more than before. Nil: none does.
	charges func(subresource string, is, was any) bool
}

// ignored are the resources that quotas do not count.
var ignored = map[schema.GroupResource]bool{
	{Resource: "bindings"}: true, {Resource: "componentstatuses"}: true, {Resource: "events"}: true, {Group: "events.k8s.io", Resource: "events"}: true,
	{Group: "authentication.k8s.io", Resource: "tokenreviews"}:             true,
	{Group: "authentication.k8s.io", Resource: "selfsubjectreviews"}:       true,
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}:      true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectaccessreviews"}:  true,
	{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}: true,
	{Group: "authorization.k8s.io", Resource: "selfsubjectrulesreviews"}:   true,
}

// measures are those of resources of which more than the number counts.
var measures = map[schema.GroupResource]*Measure{
	{Resource: "pods"}: {
		Read: read[corev1.Pod], Parse: parse[corev1.Pod], Tracks: podTracks, Use: podUse, InScope: podInScope, required: podRequires,
		charges: func(subresource string, is, was any) bool {
			return subresource == "resize" || subresource == "" && isTerminating(is.(*corev1.Pod)) != isTerminating(was.(*corev1.Pod))
		},
	},
	{Resource: "services"}: {
		Read: read[corev1.Service], Parse: parse[corev1.Service], Use: serviceUse,
		Tracks:  among("count/services", corev1.ResourceServices, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers),
		charges: func(subresource string, _, _ any) bool { return subresource == "" },
	},
	{Resource: "persistentvolumeclaims"}: {
		Read: read[corev1.PersistentVolumeClaim], Parse: parse[corev1.PersistentVolumeClaim], Tracks: claimTracks, Use: claimUse, InScope: claimInScope,
		charges: func(subresource string, _, _ any) bool { return subresource == "" || subresource == "status" },
	},
	{Group: "resource.k8s.io", Resource: "resourceclaims"}: {
		Read: read[resourcev1.ResourceClaim], Parse: parse[resourcev1.ResourceClaim], Use: deviceUse,
		Tracks: func(name corev1.ResourceName) bool {
			return name == deviceClaims || strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
		},
		charges: func(subresource string, _, _ any) bool { return subresource == "" },
	},
}

// aliases are older names of numbers of objects.
var aliases = map[schema.GroupResource]corev1.ResourceName{
	{Resource: "configmaps"}:             corev1.ResourceConfigMaps,
	{Resource: "resourcequotas"}:         corev1.ResourceQuotas,
	{Resource: "replicationcontrollers"}: corev1.ResourceReplicationControllers,
	{Resource: "secrets"}:                corev1.ResourceSecrets,
}

// Weighed returns the resources of which more than the number counts, so that an update can change
// the use.
func Weighed() []schema.GroupResource {
	return slices.SortedFunc(maps.Keys(measures), func(a, b schema.GroupResource) int { return cmp.Compare(a.String(), b.String()) })
}

// MeasureOf returns the measure of a resource, nil if quotas do not count it.
func MeasureOf(gr schema.GroupResource) *Measure {
	if ignored[gr] {
		return nil
	}
	if m := measures[gr]; m != nil {
		return m
	}
	names := []corev1.ResourceName{CountName(gr)}
	if alias := aliases[gr]; alias != "" {
		names = append(names, alias)
	}
	return &Measure{
		Tracks: among(names...),
		Use: func(any) corev1.ResourceList {
			used := corev1.ResourceList{}
			for _, name := range names {
				used[name] = count(1)
			}
			return used
		},
	}
}

// CountName returns the name under which the objects of a resource are counted.
func CountName(gr schema.GroupResource) corev1.ResourceName {
	if gr.Group == "" {
		return corev1.ResourceName("count/" + gr.Resource)
	}
	return corev1.ResourceName("count/" + gr.Resource + "." + gr.Group)
}

// Measured returns the resources that count under the names of a quota.
func Measured(names []corev1.ResourceName) []schema.GroupResource {
	found := map[schema.GroupResource]bool{}
	for _, name := range names {
		if text, ok := strings.CutPrefix(string(name), "count/"); ok {
			plural, group, _ := strings.Cut(text, ".")
			found[schema.GroupResource{Group: group, Resource: plural}] = true
		}
		for gr, alias := range aliases {
			if name == alias {
				found[gr] = true
			}
		}
		for gr, m := range measures {
			if m.Tracks(name) {
				found[gr] = true
			}
		}
	}
	var list []schema.GroupResource
	for gr := range found {
		if !ignored[gr] {
			list = append(list, gr)
		}
	}
	slices.SortFunc(list, func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// among returns a function that reports whether a name is one of some.
func among(names ...corev1.ResourceName) func(corev1.ResourceName) bool {
	return func(name corev1.ResourceName) bool { return slices.Contains(names, name) }
}

// read decodes a document.
func read[T any](d *jsondoc.Doc) (any, error) { return parse[T](d.AppendJSON(nil, d.Root().Node)) }

// parse decodes JSON.
func parse[T any](text []byte) (any, error) {
	v := new(T)
	if err := kind.UnmarshalStored(text, v); err != nil {
		return nil, status.BadRequest("%v", err)
	}
	return v, nil
}

// serviceUse returns what a Service uses. Node ports count as they will be allocated.
func serviceUse(object any) corev1.ResourceList {
	s := &object.(*corev1.Service).Spec
	ports, balancers := 0, 0
	switch s.Type {
	case corev1.ServiceTypeNodePort:
		ports = len(s.Ports)
	case corev1.ServiceTypeLoadBalancer:
		balancers, ports = 1, len(s.Ports)
		if s.AllocateLoadBalancerNodePorts != nil && !*s.AllocateLoadBalancerNodePorts {
			ports = 0
			for i := range s.Ports {
				if s.Ports[i].NodePort != 0 {
					ports++
				}
			}
		}
	}
	return corev1.ResourceList{"count/services": count(1), corev1.ResourceServices: count(1),
		corev1.ResourceServicesLoadBalancers: count(balancers), corev1.ResourceServicesNodePorts: count(ports)}
}

// byClass joins a storage class with the name of a resource.
const byClass = ".storageclass.storage.k8s.io/"

// claimTracks reports whether a quota for a resource name counts claims.
func claimTracks(name corev1.ResourceName) bool {
	if name == "count/persistentvolumeclaims" {
		return true
	}
	for _, plain := range []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage} {
		if name == plain || strings.HasSuffix(string(name), byClass+string(plain)) {
			return true
		}
	}
	return false
}

// claimUse returns what a claim uses, of all storage and of its class.
func claimUse(object any) corev1.ResourceList {
	claim := object.(*corev1.PersistentVolumeClaim)
	used := corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: count(1), "count/persistentvolumeclaims": count(1)}
	class := storage.ClassOf(claim)
	if class != "" {
		used[corev1.ResourceName(class+byClass+string(corev1.ResourcePersistentVolumeClaims))] = count(1)
	}
	size, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return used
	}
	if allocated, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok && allocated.Cmp(size) > 0 {
		size = allocated
	}
	size = wholeBytes(size)
	used[corev1.ResourceRequestsStorage] = size
	if class != "" {
		used[corev1.ResourceName(class+byClass+string(corev1.ResourceRequestsStorage))] = size
	}
	return used
}

// wholeBytes rounds a quantity up.
func wholeBytes(q resource.Quantity) resource.Quantity {
	q = q.DeepCopy()
	q.RoundUp(0)
	return q
}

// claimInScope reports whether a claim names a VolumeAttributesClass that a scope selects.
func claimInScope(s *corev1.ScopedResourceSelectorRequirement, object any) (bool, error) {
	if s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false, nil
	}
	claim := object.(*corev1.PersistentVolumeClaim)
	var names []string
	for _, name := range []*string{claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName} {
		if name != nil && *name != "" {
			names = append(names, *name)
		}
	}
	if m := claim.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		names = append(names, m.TargetVolumeAttributesClassName)
	}
	return selects(s, names)
}

// deviceClaims is the name under which ResourceClaims are counted.
const deviceClaims = "count/resourceclaims.resource.k8s.io"

// deviceUse returns how many devices of each class a ResourceClaim may get.
func deviceUse(object any) corev1.ResourceList {
	used := corev1.ResourceList{deviceClaims: count(1)}
	add := func(class string, n int64) {
		name := corev1.ResourceName(class + corev1.ResourceClaimsPerClass)
		q := used[name]
		q.Add(count(int(n)))
		used[name] = q
	}
	devices := func(mode resourcev1.DeviceAllocationMode, n int64) int64 {
		switch mode {
		case resourcev1.DeviceAllocationModeExactCount:
			return n
		case resourcev1.DeviceAllocationModeAll:
			return resourcev1.AllocationResultsMaxSize // the worst case
		}
		return 0
	}
	for _, request := range object.(*resourcev1.ResourceClaim).Spec.Devices.Requests {
		if len(request.FirstAvailable) == 0 {
			if e := request.Exactly; e != nil {
				add(e.DeviceClassName, devices(e.AllocationMode, e.Count))
			}
			continue
		}
		most := map[string]int64{}
		for i := range request.FirstAvailable {
			s := &request.FirstAvailable[i]
			most[s.DeviceClassName] = max(most[s.DeviceClassName], devices(s.AllocationMode, s.Count))
		}
		for class, n := range most {
			if n > 0 {
				add(class, n)
			}
		}
	}
	return used
}

// chargeable reports whether a pod still uses what it requests: it has not ended, and was not to end
// long ago.
func chargeable(pod *corev1.Pod, now time.Time) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return false
	}
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		return true
	}
	return !now.After(pod.DeletionTimestamp.Add(time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second))
}
