package api

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/apply"
	"github.com/keelson-io/keelson/kind"
)

// This file keeps the apply.Manager of every version that has been written.

// managers are made when they are first needed. Those of kinds that have been
// replaced go when there are more of them than kinds.
type managers struct {
	known sync.Map // *kind.Version to *apply.Manager
	count atomic.Int64
}

func (m *managers) get(h *Handler, v *kind.Version) (*apply.Manager, error) {
	if have, ok := m.known.Load(v); ok {
		return have.(*apply.Manager), nil
	}
	made, err := apply.New(applyConfig(v))
	if err != nil {
		return nil, err
	}
	have, loaded := m.known.LoadOrStore(v, made)
	if !loaded && m.count.Add(1) > int64(4*h.Kinds.Load().Len()+64) {
		m.sweep(h)
	}
	return have.(*apply.Manager), nil
}

// sweep forgets the managers of versions that nobody serves any more.
func (m *managers) sweep(h *Handler) {
	now := h.Kinds.Load()
	m.known.Range(func(key, _ any) bool {
		if v := key.(*kind.Version); now.Lookup(v.Kind.Group, v.Kind.Plural) != v.Kind {
			m.known.Delete(key)
			m.count.Add(-1)
		}
		return true
	})
}

// hasGoType reports whether objects of a kind are printed as a Go type has them.
func hasGoType(k *kind.Kind) bool { return k.Builtin != nil && k.Builtin.New != nil }

// emptyObject is what objects of a version that has a Go type never leave out, with what fill, if there is one, says of their metadata.
func emptyObject(v *kind.Version, fill func(metav1.Object)) []byte {
	empty := v.Kind.Builtin.New(v)
	empty.GetObjectKind().SetGroupVersionKind(v.GVK())
	if fill != nil {
		fill(empty.(metav1.Object))
	}
	text, err := json.Marshal(empty)
	if err != nil {
		panic("BUG: " + err.Error()) // a Go type of the API
	}
	return text
}

func applyConfig(v *kind.Version) apply.Config {
	k := v.Kind
	c := apply.Config{Group: k.Group, Kind: k.Name, Version: v.Name, PreserveUnknown: k.PreserveUnknown}
	if k.Conversion != nil || k.Builtin != nil && k.Builtin.Convert != nil {
		c.Convert = k.Convert
	}
	if hasGoType(k) {
		c.Empty = emptyObject(v, nil)
	}
	for _, each := range k.All {
		if each.Kind != k {
			continue // stored as a version of another kind
		}
		a := apply.Version{Name: each.Name, Schema: each.Structural(), Status: each.Status}
		if each.Status && k.Builtin != nil && k.Builtin.StatusMetadata {
			a.Reset = map[string][]string{"": {"status"}, "status": {"spec"}}
			for _, name := range k.Builtin.StatusKeeps {
				a.Reset["status"] = append(a.Reset["status"], "metadata."+name)
			}
		}
		if k.Builtin != nil && k.Builtin.Resets != nil {
			a.Reset = k.Builtin.Resets
		}
		if each.Scale != nil {
			a.Replicas = each.Scale.SpecReplicas
		}
		c.Versions = append(c.Versions, a)
	}
	return c
}
