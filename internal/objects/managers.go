package objects

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/apply"
	"github.com/keelson-io/keelson/kind"
)

// This file keeps the apply.Manager of every version that has been written.

// managerKey is the key under which a version holds its manager. The manager is made when it is
// first needed and freed with the version.
type managerKey struct{}

// managerOf returns the manager of a version.
func managerOf(v *kind.Version) (*apply.Manager, error) {
	if have, ok := v.Attached.Load(managerKey{}); ok {
		return have.(*apply.Manager), nil
	}
	made, err := apply.New(applyConfig(v))
	if err != nil {
		return nil, err
	}
	// If two requests make one at the same time, both use the first.
	have, _ := v.Attached.LoadOrStore(managerKey{}, made)
	return have.(*apply.Manager), nil
}

// EmptyObject returns the JSON of an empty object of the version's Go type: the members that are never
// left out. fill, if not nil, sets metadata.
func EmptyObject(v *kind.Version, fill func(metav1.Object)) []byte {
	empty := v.NewTyped()
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

// applyConfig describes a version, and the other versions of its kind, to package apply.
func applyConfig(v *kind.Version) apply.Config {
	k := v.Kind
	c := apply.Config{Group: k.Group, Kind: k.Name, Version: v.Name, PreserveUnknown: k.PreserveUnknown,
		DropLostVersions: k.Behavior.DropsLostVersions()}
	// Without a converter, versions differ in the apiVersion only.
	if k.Conversion != nil || k.Behavior.Convert != nil {
		c.Convert = k.Convert
	}
	if k.Behavior.HasGoType() {
		c.Empty = EmptyObject(v, nil)
	}
	for _, each := range k.All {
		if each.Kind != k {
			continue // stored as a version of another kind
		}
		a := apply.Version{Name: each.Name, Schema: each.Structural(), Status: each.Status}
		// Reset fields are those that an endpoint ignores: their managers do not get ownership of them.
		if each.Status && k.Behavior.StatusWritesMetadata() {
			a.Reset = map[string][]string{"": {"status"}, "status": {"spec"}}
			for _, name := range k.Behavior.StatusKeeps {
				a.Reset["status"] = append(a.Reset["status"], "metadata."+name)
			}
		}
		if k.Behavior.Resets != nil {
			a.Reset = k.Behavior.Resets
		}
		// The entries of the scale subresource are translated to the path of the replicas.
		if each.Scale != nil {
			a.Replicas = each.Scale.SpecReplicas
		}
		c.Versions = append(c.Versions, a)
	}
	return c
}
