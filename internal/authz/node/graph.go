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

	"github.com/keelson-io/keelson/internal/authz/feed"
)

// This file keeps the objects that nodes need: those to which their pods refer, the persistent
// volumes bound to the claims of these pods, and volume attachments.

// Kinds of the objects from which relations follow, for [follow.Source].
const (
	KindPod        = "Pod"
	KindVolume     = "PersistentVolume"
	KindAttachment = "VolumeAttachment"
)

// object names an object that a node may need.
type object struct {
	resource        string // plural; unique here without the API group
	namespace, name string
}

// Graph holds which objects nodes need, computed from pods, persistent volumes and volume
// attachments. It is a [follow.Keeper] of these kinds. The time of a look-up does not depend on
// their number.
//
// An object is related to a node if a pod of the node refers to it. A persistent volume is related
// if the claim to which it is bound is. A secret is also related if a related persistent volume
// refers to it for nodes.
type Graph struct {
	durations *prometheus.HistogramVec // nil: not measured

	mu      sync.RWMutex
	pods    map[object]*pod
	users   map[object][]use // by node: the nodes that need an object
	volumes map[string]*volume
	bound   map[object]map[*volume]bool // claim -> volumes bound to it
	nodes   map[string]string           // volume attachment -> node
}

// use is how many references a node has to an object, from its pods and from their volumes.
type use struct {
	node  string
	count int
}

// pod holds the relations of a pod that is bound to a node. It is immutable.
type pod struct {
	node string
	refs []object // sorted, without duplicates
}

// volume holds the relations of a bound persistent volume. It is immutable.
type volume struct {
	claim   object
	secrets []object // sorted, without duplicates
}

// NewGraph returns an empty graph. If reg is not nil, it registers the metrics.
func NewGraph(reg prometheus.Registerer) *Graph {
	g := &Graph{pods: map[object]*pod{}, users: map[object][]use{}, volumes: map[string]*volume{}, bound: map[object]map[*volume]bool{}, nodes: map[string]string{}}
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
		return v != nil && namespace == "" && g.needs(node, v.claim)
	case schema.GroupResource{Group: storagev1.GroupName, Resource: "volumeattachments"}:
		return namespace == "" && g.nodes[name] == node
	case core("secrets"), core("configmaps"), core("persistentvolumeclaims"), core("serviceaccounts"), schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}:
		return g.needs(node, o)
	}
	return false
}

// Reset implements feed.Keeper.
func (g *Graph) Reset(kind string, objects []feed.Object) error {
	there := make(map[object]bool, len(objects))
	for i := range objects {
		there[object{namespace: objects[i].Namespace, name: objects[i].Name}] = true
	}
	g.mu.RLock()
	var gone []feed.Object
	add := func(o object) {
		if !there[object{namespace: o.namespace, name: o.name}] {
			gone = append(gone, feed.Object{Namespace: o.namespace, Name: o.name})
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

// Change implements feed.Keeper.
func (g *Graph) Change(kind string, objects []feed.Object) error {
	var errs []error
	for i := range objects {
		if err := g.change(kind, &objects[i]); err != nil {
			errs = append(errs, fmt.Errorf("%s/%s: %w", objects[i].Namespace, objects[i].Name, err))
		}
	}
	return errors.Join(errs...)
}

// change makes one change. An object that cannot be decoded counts as deleted.
func (g *Graph) change(kind string, o *feed.Object) (err error) {
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

// observe records the duration of an update of the graph, labelled add or remove depending on
// whether the object exists.
func (g *Graph) observe(began time.Time, there bool, add, remove string) {
	if g.durations == nil {
		return
	}
	if !there {
		add = remove
	}
	g.durations.WithLabelValues(add).Observe(time.Since(began).Seconds())
}

// setPod replaces the relations of a pod. nil means that it has none.
func (g *Graph) setPod(key object, p *pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.pods[key]
	if was == nil && p == nil || was != nil && p != nil && was.node == p.node && slices.Equal(was.refs, p.refs) {
		return
	}
	defer g.observe(time.Now(), p != nil, "AddPod", "DeletePod")
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

// find returns where a node is, or would be, among those that need an object.
func (g *Graph) find(node string, o object) (at int, found bool) {
	return slices.BinarySearchFunc(g.users[o], node, func(u use, node string) int { return cmp.Compare(u.node, node) })
}

// needs reports whether a node needs an object.
func (g *Graph) needs(node string, o object) bool {
	_, found := g.find(node, o)
	return found
}

// use counts one more reference from a node to an object. For a claim, it also counts the volumes
// that are bound to it.
func (g *Graph) use(o object, node string) {
	at, found := g.find(node, o)
	if found {
		g.users[o][at].count++
		return
	}
	g.users[o] = slices.Insert(g.users[o], at, use{node, 1})
	for v := range g.bound[o] {
		for _, s := range v.secrets {
			g.use(s, node)
		}
	}
}

// unuse reverses one call of use.
func (g *Graph) unuse(o object, node string) {
	at, _ := g.find(node, o)
	nodes := g.users[o]
	if nodes[at].count--; nodes[at].count > 0 {
		return
	}
	if len(nodes) == 1 {
		delete(g.users, o)
	} else {
		g.users[o] = slices.Delete(nodes, at, at+1)
	}
	for v := range g.bound[o] {
		for _, s := range v.secrets {
			g.unuse(s, node)
		}
	}
}

// setVolume replaces the relations of a persistent volume. nil means that it is bound to no claim.
func (g *Graph) setVolume(name string, v *volume) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.volumes[name]
	if was == nil && v == nil {
		return
	}
	defer g.observe(time.Now(), v != nil, "AddPV", "DeletePV")
	if was != nil {
		delete(g.volumes, name)
		if delete(g.bound[was.claim], was); len(g.bound[was.claim]) == 0 {
			delete(g.bound, was.claim)
		}
		for _, u := range g.users[was.claim] {
			for _, s := range was.secrets {
				g.unuse(s, u.node)
			}
		}
	}
	if v != nil {
		g.volumes[name] = v
		if g.bound[v.claim] == nil {
			g.bound[v.claim] = map[*volume]bool{}
		}
		g.bound[v.claim][v] = true
		for _, u := range g.users[v.claim] {
			for _, s := range v.secrets {
				g.use(s, u.node)
			}
		}
	}
}

// setAttachment sets the node of a volume attachment; "" removes it.
func (g *Graph) setAttachment(name, node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.nodes[name] == node {
		return
	}
	defer g.observe(time.Now(), node != "", "AddVolumeAttachment", "DeleteVolumeAttachment")
	if node == "" {
		delete(g.nodes, name)
		return
	}
	g.nodes[name] = node
}

// sorted returns the members of a set in order.
func sorted(set map[object]bool) []object {
	return slices.SortedFunc(maps.Keys(set), func(a, b object) int {
		return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}
