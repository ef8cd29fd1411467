package builtin

import (
	"strings"

	"github.com/keelson-io/keelson/internal/builtin/describe"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file removes the members that Kubernetes ignores while a feature gate is off. The gates of
// alpha features are off by default. An update keeps a member that the live object has: it may have
// been stored by a server with the gate on.

// gated lists the ignored members, by schema and name. The comments name their feature gates.
var gated = map[string]bool{
	"core.v1.PodSpec.evictionResponders":                     true, // EvictionRequestAPI
	"core.v1.PodSpec.schedulingGroup":                        true, // GenericWorkload
	"core.v1.Lifecycle.stopSignal":                           true, // ContainerStopSignals
	"core.v1.HTTPGetAction.protocol":                         true, // H2CContainerProbe
	"core.v1.GRPCAction.mode":                                true, // GRPCContainerProbeTLS
	"core.v1.VolumeMount.bindMountOptions":                   true, // VolumeBindMountOptions
	"core.v1.EmptyDirVolumeSource.mode":                      true, // EmptyDirVolumeMode
	"core.v1.ConfigMapVolumeSource.defaultUser":              true, // AtomicWriteVolumeUserFields, and so on
	"core.v1.SecretVolumeSource.defaultUser":                 true,
	"core.v1.DownwardAPIVolumeSource.defaultUser":            true,
	"core.v1.ProjectedVolumeSource.defaultUser":              true,
	"core.v1.ClusterTrustBundleProjection.user":              true,
	"core.v1.ServiceAccountTokenProjection.user":             true,
	"core.v1.PodCertificateProjection.user":                  true,
	"core.v1.KeyToPath.user":                                 true,
	"core.v1.DownwardAPIVolumeFile.user":                     true,
	"batch.v1.JobSpec.scheduling":                            true, // WorkloadWithJob
	"core.v1.PersistentVolumeClaimStatus.healthStatus":       true, // CSIVolumeHealth
	"storage.v1.CSINodeStatus.storageHealth":                 true,
	"core.v1.NodeSpec.podPreemptionPolicy":                   true, // InPlacePodVerticalScalingSchedulerPreemption
	"core.v1.NodeSpec.configSource":                          true, // its gate was removed
	"core.v1.NodeStatus.config":                              true,
	"core.v1.PodStatus.volumeHealth":                         true,
	"core.v1.VolumeMountStatus.volumeStatus":                 true, // ImageVolumeWithDigest
	"core.v1.PodStatus.nodeAllocatableResourceClaimStatuses": true, // DRANodeAllocatableResources
	"resource.v1.ExactDeviceRequest.derivedAttributes":       true, // DRADerivedAttributes
	"resource.v1.DeviceSubRequest.derivedAttributes":         true,
	"resource.v1.ResourceSliceSpec.partitionTypeAttribute":   true, // DRAPartitionableDevicesType
	"resource.v1.ResourceSliceSpec.skipNodeOperations":       true, // DRAOptionalNodeOperations
	"discovery.v1.Endpoint.deprecatedTopology":               true, // of v1beta1
	"coordination.v1.LeaseSpec.strategy":                     true, // CoordinatedLeaderElection
	"coordination.v1.LeaseSpec.preferredHolder":              true,
}

// gate is a tree of the places of gated members in the values of a schema.
type gate struct {
	name    string           // the gated member itself; "" if it is not gated
	members map[string]*gate // members of an object with gated members at or below them
	each    *gate            // for each item of a list or value of a map
}

// gates returns the places of gated members in a schema, nil if it has none.
func (l *library) gates(name string) *gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gatesOf(name, map[string]*gate{})
}

func (l *library) gatesOf(name string, made map[string]*gate) *gate {
	g, ok := made[name]
	if ok {
		return g
	}
	made[name] = nil // ends the recursion: a schema that contains itself has no gated member there
	if !strings.HasPrefix(name, apiPrefix) {
		return nil
	}
	g = l.gatesIn(l.definition(name), strings.TrimPrefix(name, apiPrefix), made)
	made[name] = g
	return g
}

// gatesIn returns the places of gated members in a definition or a part of one.
func (l *library) gatesIn(d *definition, at string, made map[string]*gate) *gate {
	if ref := d.reference(); ref != "" {
		return l.gatesOf(ref, made)
	}
	for _, inner := range []*definition{d.Items, d.Values} {
		if inner != nil {
			if g := l.gatesIn(inner, at, made); g != nil {
				return &gate{each: g}
			}
		}
	}
	var out *gate
	for name, p := range d.Properties {
		g := &gate{name: at + "." + name}
		if !gated[g.name] {
			g = l.gatesIn(p, g.name, made)
		}
		if g == nil {
			continue
		}
		if out == nil {
			out = &gate{members: map[string]*gate{}}
		}
		out.members[name] = g
	}
	return out
}

// visit calls see for each gated member of a value.
func (g *gate) visit(v jsondoc.Value, see func(name string)) {
	if !v.Exists() {
		return
	}
	if g.name != "" {
		see(g.name)
		return
	}
	for name, below := range g.members {
		below.visit(v.Get(name), see)
	}
	if g.each == nil {
		return
	}
	for _, item := range v.Items() {
		g.each.visit(item, see)
	}
	for _, value := range v.Members() {
		g.each.visit(value, see)
	}
}

// without removes the gated members of a value, except those in kept. A value that may not be empty,
// and is empty then, is removed as well.
func (g *gate) without(v any, keep map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, below := range g.members {
			value, ok := v[name]
			if !ok || keep[below.name] {
				continue
			}
			below.without(value, keep)
			inner, _ := value.(map[string]any)
			if below.name != "" || below.members["stopSignal"] != nil && len(inner) == 0 {
				delete(v, name)
			}
		}
		if g.each != nil {
			for _, value := range v {
				g.each.without(value, keep)
			}
		}
	case []any:
		if g.each != nil {
			for _, item := range v {
				g.each.without(item, keep)
			}
		}
	}
}

// dropGated removes the gated members of d that old lacks. old is nil for a new object.
func (b *builtin) dropGated(new, old *jsondoc.Doc) {
	all := b.gates[new.Root().Get("apiVersion").Text()]()
	if all == nil {
		return
	}
	for name, g := range all.members {
		found := false
		g.visit(new.Root().Get(name), func(string) { found = true })
		if !found {
			continue
		}
		keep := map[string]bool{}
		if old != nil {
			g.visit(old.Root().Get(name), func(member string) { keep[member] = true })
		}
		whole := map[string]any{name: new.Root().Get(name).Interface()}
		(&gate{members: map[string]*gate{name: g}}).without(whole, keep)
		describe.SetAs(new, whole[name], name)
	}
}
