package node

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/authz/follow"
)

// This file is what nodes need: what pods that are bound to a node refer to,
// the volumes behind their claims, and what is attached to the node.

// Kinds of objects that relationships come from, for [follow.Source].
const (
	KindPod        = "Pod"
	KindVolume     = "PersistentVolume"
	KindAttachment = "VolumeAttachment"
)

// object is an object that a node may need.
type object struct {
	resource        string // in the plural; no two groups have the same one here
	namespace, name string
}

// Graph says which objects nodes need, by pods, persistent volumes and volume
// attachments. It is a [follow.Keeper] of these. How long an answer takes does
// not depend on how many there are.
//
// An object is related to a node if a pod of that node refers to it; a
// persistent volume, if the claim that it is bound to is; a secret, also if a
// persistent volume that is related needs it there.
type Graph struct {
	durations *prometheus.HistogramVec // nil: none

	mu      sync.RWMutex
	pods    map[object]*pod
	users   map[object]map[string]int // by object, how many pods of a node refer to it, and volumes of such pods
	volumes map[string]*volume
	bound   map[object]map[*volume]bool // the volumes that are bound to a claim
	nodes   map[string]string           // of volume attachments
}

// pod is what a pod that is bound to a node makes related to it. It is
// immutable.
type pod struct {
	node string
	refs []object // sorted, each once
}

// volume is what a bound persistent volume makes related. It is immutable.
type volume struct {
	claim   object
	secrets []object // sorted, each once
}

// NewGraph returns an empty graph, which registers its metrics unless reg is
// nil.
func NewGraph(reg prometheus.Registerer) *Graph {
	g := &Graph{pods: map[object]*pod{}, users: map[object]map[string]int{}, volumes: map[string]*volume{}, bound: map[object]map[*volume]bool{}, nodes: map[string]string{}}
	if reg != nil {
		g.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "node_authorizer_graph_actions_duration_seconds",
			Help:    "[ALPHA] Histogram of duration of graph actions in node authorizer.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 12),
		}, []string{"operation"})
		reg.MustRegister(g.durations)
	}
	return g
}

// Related reports whether a node needs an object.
func (g *Graph) Related(node string, resource schema.GroupResource, namespace, name string) bool {
	if node == "" {
		return false
	}
	o := object{resource.Resource, namespace, name}
	g.mu.RLock()
	defer g.mu.RUnlock()
	switch resource {
	case core("pods"):
		p := g.pods[o]
		return p != nil && p.node == node
	case core("persistentvolumes"):
		v := g.volumes[name]
		return v != nil && namespace == "" && g.users[v.claim][node] > 0
	case schema.GroupResource{Group: storagev1.GroupName, Resource: "volumeattachments"}:
		return namespace == "" && g.nodes[name] == node
	case core("secrets"), core("configmaps"), core("persistentvolumeclaims"), core("serviceaccounts"), schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}:
		return g.users[o][node] > 0
	}
	return false
}

// Reset implements follow.Keeper.
func (g *Graph) Reset(kind string, objects []follow.Object) error {
	there := make(map[object]bool, len(objects))
	for i := range objects {
		there[object{namespace: objects[i].Namespace, name: objects[i].Name}] = true
	}
	g.mu.RLock()
	var gone []follow.Object
	add := func(o object) {
		if !there[object{namespace: o.namespace, name: o.name}] {
			gone = append(gone, follow.Object{Namespace: o.namespace, Name: o.name})
		}
	}
	switch kind {
	case KindPod:
		for o := range g.pods {
			add(o)
		}
	case KindVolume:
		for name := range g.volumes {
			add(object{name: name})
		}
	case KindAttachment:
		for name := range g.nodes {
			add(object{name: name})
		}
	}
	g.mu.RUnlock()
	return g.Change(kind, append(gone, objects...))
}

// Change implements follow.Keeper.
func (g *Graph) Change(kind string, objects []follow.Object) error {
	var errs []error
	for i := range objects {
		if err := g.change(kind, &objects[i]); err != nil {
			errs = append(errs, fmt.Errorf("%s/%s: %w", objects[i].Namespace, objects[i].Name, err))
		}
	}
	return errors.Join(errs...)
}

// change makes one change. What cannot be read is as good as gone.
func (g *Graph) change(kind string, o *follow.Object) (err error) {
	switch kind {
	case KindPod:
		var p *pod
		if o.JSON != nil {
			var in corev1.Pod
			if err = json.Unmarshal(o.JSON, &in); err == nil {
				p = podOf(&in)
			}
		}
		g.setPod(object{"pods", o.Namespace, o.Name}, p)
	case KindVolume:
		var v *volume
		if o.JSON != nil {
			var in corev1.PersistentVolume
			if err = json.Unmarshal(o.JSON, &in); err == nil {
				v = volumeOf(&in)
			}
		}
		g.setVolume(o.Name, v)
	case KindAttachment:
		var in storagev1.VolumeAttachment
		if o.JSON != nil {
			if err = json.Unmarshal(o.JSON, &in); err != nil {
				in.Spec.NodeName = ""
			}
		}
		g.setAttachment(o.Name, in.Spec.NodeName)
	default:
		err = fmt.Errorf("kind %s is none of the graph", kind)
	}
	return err
}

// took notes how long an action took; the pair says what is done to what is
// there and to what is not.
func (g *Graph) took(began time.Time, there bool, add, remove string) {
	if g.durations == nil {
		return
	}
	if !there {
		add = remove
	}
	g.durations.WithLabelValues(add).Observe(time.Since(began).Seconds())
}

// setPod makes a pod what it is now; nil: it is bound to no node.
func (g *Graph) setPod(key object, p *pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.pods[key]
	if was == nil && p == nil || was != nil && p != nil && was.node == p.node && slices.Equal(was.refs, p.refs) {
		return
	}
	defer g.took(time.Now(), p != nil, "AddPod", "DeletePod")
	if was != nil {
		delete(g.pods, key)
		for _, o := range was.refs {
			g.unuse(o, was.node)
		}
	}
	if p != nil {
		g.pods[key] = p
		for _, o := range p.refs {
			g.use(o, p.node)
		}
	}
}

// use notes one more reference to an object that a node needs. What is behind a
// claim is needed with it.
func (g *Graph) use(o object, node string) {
	nodes := g.users[o]
	if nodes == nil {
		nodes = map[string]int{}
		g.users[o] = nodes
	}
	if nodes[node]++; nodes[node] > 1 {
		return
	}
	for v := range g.bound[o] {
		for _, s := range v.secrets {
			g.use(s, node)
		}
	}
}

// unuse takes one reference back.
func (g *Graph) unuse(o object, node string) {
	nodes := g.users[o]
	if nodes[node]--; nodes[node] > 0 {
		return
	}
	if delete(nodes, node); len(nodes) == 0 {
		delete(g.users, o)
	}
	for v := range g.bound[o] {
		for _, s := range v.secrets {
			g.unuse(s, node)
		}
	}
}

// setVolume makes a persistent volume what it is now; nil: it is bound to no
// claim.
func (g *Graph) setVolume(name string, v *volume) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.volumes[name]
	if was == nil && v == nil {
		return
	}
	defer g.took(time.Now(), v != nil, "AddPV", "DeletePV")
	if was != nil {
		delete(g.volumes, name)
		if delete(g.bound[was.claim], was); len(g.bound[was.claim]) == 0 {
			delete(g.bound, was.claim)
		}
		for node := range g.users[was.claim] {
			for _, s := range was.secrets {
				g.unuse(s, node)
			}
		}
	}
	if v != nil {
		g.volumes[name] = v
		if g.bound[v.claim] == nil {
			g.bound[v.claim] = map[*volume]bool{}
		}
		g.bound[v.claim][v] = true
		for node := range g.users[v.claim] {
			for _, s := range v.secrets {
				g.use(s, node)
			}
		}
	}
}

// setAttachment makes a volume attachment one of a node; "": of none.
func (g *Graph) setAttachment(name, node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes[name] == node {
		return
	}
	defer g.took(time.Now(), node != "", "AddVolumeAttachment", "DeleteVolumeAttachment")
	if node == "" {
		delete(g.nodes, name)
		return
	}
	g.nodes[name] = node
}

// sorted is the members of a set in order.
func sorted(set map[object]bool) []object {
	return slices.SortedFunc(maps.Keys(set), func(a, b object) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}
