package policy

import (
	"errors"
	"fmt"
	"sync/atomic"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/selector"
	"github.com/keelson-io/keelson/kind"
)

// This file finds the parameter objects of bindings.

// paramKind is the parameter kind of a policy.
type paramKind struct {
	of    *admissionv1.ParamKind // nil: the policy has no parameters
	found atomic.Pointer[foundKind]
}

// foundKind is a version and the snapshot of kinds in which it was found.
type foundKind struct {
	among   *kind.Snapshot
	version *kind.Version
	err     error
}

// version returns the parameter kind's version in a snapshot of kinds; nil if the policy has no
// parameters.
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

// findKind returns the version of a parameter kind in a snapshot. If it is not served, it returns
// an error.
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

// param is a parameter object as a CEL value.
type param struct {
	object *cache.Object // nil if there is none: the value is null
	value  cel.Value
}

var null, _ = cel.FromGo(nil)

// collect returns the parameter objects of a binding. The policy is evaluated once for each.
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
		found, err = v.paramsSelected(params, namespace, b)
	default:
		return nil, errors.New("one of name or selector must be provided")
	}
	if err == nil && len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionv1.DenyAction {
		err = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	return found, err
}

// namespaceName returns the namespace of the request. For a Namespace object it is the object's
// name.
func (v *enforcement) namespaceName() string {
	if v.r.Version.Kind.IsNamespaces() {
		return v.r.Name
	}
	return v.r.Namespace
}

// paramNamed returns the parameter object with a name. It reads the store only if the cache does
// not have the object.
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

// paramValue returns a parameter object as a CEL value.
func paramValue(o *cache.Object, params *kind.Version) (cel.Value, error) {
	view, err := o.View(params)
	if err != nil {
		return cel.Value{}, err
	}
	return cel.FromJSON(view.JSON)
}

// paramSelector is the parsed selector of a binding's paramRef.
type paramSelector struct {
	labels.Selector
	err error
}

// parseParamSelector parses the selector of a paramRef; nil if it has none.
func parseParamSelector(ref *admissionv1.ParamRef) *paramSelector {
	if ref == nil || ref.Selector == nil {
		return nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(ref.Selector)
	return &paramSelector{selector.Label(parsed), err}
}

// looksBetweenChecks is the number of objects after which the context is checked.
const looksBetweenChecks = 64

// paramsSelected returns the parameter objects that match the binding's selector.
func (v *enforcement) paramsSelected(params *kind.Version, namespace string, b *binding) ([]param, error) {
	by, err := b.selector, b.selector.err
	if err != nil {
		return nil, err
	}
	looks := 0
	prefix := params.Kind.StoragePrefix + "/"
	if namespace != "" {
		prefix += namespace + "/"
	}
	var found []param
	v.Cache.Resource(params.Kind.StoragePrefix).Snapshot().Ascend(prefix, func(o *cache.Object) bool {
		if len(o.Key) < len(prefix) || o.Key[:len(prefix)] != prefix {
			return false
		}
		if looks++; looks%looksBetweenChecks == 0 {
			if err = v.ctx.Err(); err != nil {
				return false
			}
		}
		view, failed := o.View(params)
		if failed == nil && by.Matches(view.Labels) {
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
