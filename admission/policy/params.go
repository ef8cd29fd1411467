package policy

import (
	"errors"
	"fmt"
	"sync/atomic"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/kind"
)

// This file finds the parameter objects of bindings.

// paramKind is the kind of a policy's parameters.
type paramKind struct {
	of    *admissionv1.ParamKind // nil: no parameters
	found atomic.Pointer[foundKind]
}

// foundKind remembers what was found among which kinds.
type foundKind struct {
	among   *kind.Snapshot
	version *kind.Version
	err     error
}

// version is the kind's version among those served; nil without parameters.
func (k *paramKind) version(among *kind.Snapshot) (*kind.Version, error) {
	if k.of == nil {
		return nil, nil
	}
	f := k.found.Load()
	if f == nil || f.among != among {
		f = &foundKind{among: among}
		f.version, f.err = findKind(k.of, among)
		k.found.Store(f)
	}
	return f.version, f.err
}

func findKind(of *admissionv1.ParamKind, among *kind.Snapshot) (*kind.Version, error) {
	gv, err := schema.ParseGroupVersion(of.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("failed to parse paramKind APIVersion: %w", err)
	}
	for k := range among.InGroup(gv.Group) {
		if k.Name == of.Kind && k.Established {
			if v := k.Version(gv.Version); v != nil {
				return v, nil
			}
		}
	}
	return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", gv.WithKind(of.Kind))
}

// param is a parameter object in the language.
type param struct {
	object *cache.Object // nil if there is none: value is null
	value  cel.Value
}

var null, _ = cel.FromGo(nil)

// collect returns the parameter objects of a binding that names some, each to
// evaluate the policy with.
func (v *enforcement) collect(b *binding, params *kind.Version) ([]param, error) {
	ref := b.ref
	namespace := ""
	switch {
	case !params.Kind.Namespaced && ref.Namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case params.Kind.Namespaced:
		if namespace = ref.Namespace; namespace == "" {
			namespace = v.namespaceName()
		}
		if namespace == "" {
			return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
		}
	}
	var found []param
	var err error
	switch {
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		found, err = v.paramNamed(b, params, namespace, ref.Name)
	case ref.Selector != nil:
		found, err = v.paramsSelected(params, namespace, ref.Selector)
	default:
		return nil, errors.New("one of name or selector must be provided")
	}
	if err == nil && len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionv1.DenyAction {
		err = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	return found, err
}

// namespaceName is the namespace of the request, which a namespace is in
// itself.
func (v *enforcement) namespaceName() string {
	if v.r.Version.Kind.IsNamespaces() {
		return v.r.Name
	}
	return v.r.Namespace
}

// paramNamed is the parameter object of a name; only one that the cache does
// not know is asked for.
func (v *enforcement) paramNamed(b *binding, params *kind.Version, namespace, name string) ([]param, error) {
	res, key := v.Cache.Resource(params.Kind.StoragePrefix), params.Kind.Key(namespace, name)
	o, ok := res.Get(key)
	if !ok {
		if err := res.Fresh(v.ctx); err != nil {
			return nil, err
		}
		if o, ok = res.Get(key); !ok {
			return nil, nil
		}
	}
	if last := b.one.Load(); last != nil && last.object == o {
		return []param{*last}, nil
	}
	value, err := paramValue(o, params)
	if err != nil {
		return nil, err
	}
	b.one.Store(&param{o, value})
	return []param{{o, value}}, nil
}

func paramValue(o *cache.Object, params *kind.Version) (cel.Value, error) {
	view, err := o.View(params)
	if err != nil {
		return cel.Value{}, err
	}
	return cel.FromJSON(view.JSON)
}

// paramsSelected are the parameter objects whose labels a selector selects.
func (v *enforcement) paramsSelected(params *kind.Version, namespace string, by *metav1.LabelSelector) ([]param, error) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return nil, err
	}
	prefix := params.Kind.StoragePrefix + "/"
	if namespace != "" {
		prefix += namespace + "/"
	}
	var found []param
	v.Cache.Resource(params.Kind.StoragePrefix).Snapshot().Ascend(prefix, func(o *cache.Object) bool {
		if len(o.Key) < len(prefix) || o.Key[:len(prefix)] != prefix {
			return false
		}
		view, failed := o.View(params)
		if failed == nil && selector.Matches(view.Labels) {
			var value cel.Value
			if value, failed = cel.FromJSON(view.JSON); failed == nil {
				found = append(found, param{o, value})
			}
		}
		err = failed
		return err == nil
	})
	return found, err
}
