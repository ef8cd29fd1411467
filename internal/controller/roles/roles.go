// Package roles creates the default roles, and gives aggregated roles the rules that they gather.
//
// # Model
//
// [Defaults] and [Components] return the roles and bindings of Kubernetes. The server has the former
// when it starts to serve, and the latter soon after. [Ensure] writes the missing parts of them. A
// ClusterRole with an aggregation rule has the rules of all ClusterRoles that its selectors select;
// [Aggregator] keeps them up to date.
//
// # Invariants
//
//   - Ensure adds to existing objects and removes nothing. It does not change objects with the
//     annotation rbac.authorization.kubernetes.io/autoupdate: "false".
//   - If nothing is missing, Ensure only reads, and only from the cache.
package roles

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/selector"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

const (
	autoUpdate   = "rbac.authorization.kubernetes.io/autoupdate"
	bootstrapped = "kubernetes.io/bootstrapping"
)

// Config has the parts that the package works with.
type Config struct {
	Kinds *kind.Registry
	Cache *cache.Cache
	Store store.Store
}

// object is a default role or binding.
type object interface {
	metav1.Object
	// join adds what default has and the object lacks, and reports whether that is anything.
	join(defaults object) bool
	plural() string
	// stands reports whether the object can be brought in line; if not, it is to be replaced.
	stands(defaults object) bool
	empty() object
}

type (
	role               struct{ rbacv1.Role }
	roleBinding        struct{ rbacv1.RoleBinding }
	clusterRole        struct{ rbacv1.ClusterRole }
	clusterRoleBinding struct{ rbacv1.ClusterRoleBinding }
)

func (*role) plural() string               { return "roles" }
func (*roleBinding) plural() string        { return "rolebindings" }
func (*clusterRole) plural() string        { return "clusterroles" }
func (*clusterRoleBinding) plural() string { return "clusterrolebindings" }

func (*role) empty() object               { return new(role) }
func (*roleBinding) empty() object        { return new(roleBinding) }
func (*clusterRole) empty() object        { return new(clusterRole) }
func (*clusterRoleBinding) empty() object { return new(clusterRoleBinding) }

func (*role) stands(object) bool        { return true }
func (*clusterRole) stands(object) bool { return true }

func (b *roleBinding) stands(d object) bool {
	return b.RoleRef == d.(*roleBinding).RoleRef
}

func (b *clusterRoleBinding) stands(d object) bool {
	return b.RoleRef == d.(*clusterRoleBinding).RoleRef
}

func (r *role) join(d object) bool {
	return addRules(&r.Rules, d.(*role).Rules)
}

func (r *clusterRole) join(d object) bool {
	of := d.(*clusterRole)
	if of.AggregationRule == nil {
		return addRules(&r.Rules, of.Rules)
	}
	if r.AggregationRule == nil {
		r.AggregationRule = of.AggregationRule
		return true
	}
	changed := false
	for _, s := range of.AggregationRule.ClusterRoleSelectors {
		if !slices.ContainsFunc(r.AggregationRule.ClusterRoleSelectors, func(o metav1.LabelSelector) bool { return equality.Semantic.DeepEqual(o, s) }) {
			r.AggregationRule.ClusterRoleSelectors = append(r.AggregationRule.ClusterRoleSelectors, s)
			changed = true
		}
	}
	return changed
}

func (b *roleBinding) join(d object) bool {
	return addSubjects(&b.Subjects, d.(*roleBinding).Subjects)
}

func (b *clusterRoleBinding) join(d object) bool {
	return addSubjects(&b.Subjects, d.(*clusterRoleBinding).Subjects)
}

// addRules adds the rules that the existing ones do not cover.
func addRules(rules *[]rbacv1.PolicyRule, defaults []rbacv1.PolicyRule) bool {
	changed := false
	for _, r := range defaults {
		if !slices.ContainsFunc(*rules, func(o rbacv1.PolicyRule) bool { return covers(&o, &r) }) {
			*rules = append(*rules, r)
			changed = true
		}
	}
	return changed
}

// covers reports whether a rule has everything that another has.
func covers(held, r *rbacv1.PolicyRule) bool {
	all := func(held, want []string) bool {
		return !slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(held, s) && !slices.Contains(held, "*") })
	}
	names := len(held.ResourceNames) == 0 || len(r.ResourceNames) > 0 && all(held.ResourceNames, r.ResourceNames)
	return names && all(held.Verbs, r.Verbs) && all(held.APIGroups, r.APIGroups) && all(held.Resources, r.Resources) &&
		all(held.NonResourceURLs, r.NonResourceURLs)
}

func addSubjects(subjects *[]rbacv1.Subject, defaults []rbacv1.Subject) bool {
	changed := false
	for _, s := range defaults {
		if !slices.Contains(*subjects, s) {
			*subjects = append(*subjects, s)
			changed = true
		}
	}
	return changed
}

// joinMeta adds labels and annotations.
func joinMeta(o, defaults object) bool {
	labels, a := addKeys(o.GetLabels(), defaults.GetLabels())
	annotations, b := addKeys(o.GetAnnotations(), defaults.GetAnnotations())
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	return a || b
}

func addKeys(m, defaults map[string]string) (map[string]string, bool) {
	changed := false
	for k, v := range defaults {
		if _, ok := m[k]; !ok {
			if m == nil {
				m = map[string]string{}
			}
			m[k], changed = v, true
		}
	}
	return m, changed
}

// Ensure writes the default roles and bindings that are missing, except those of components.
func Ensure(ctx context.Context, c Config) error {
	if err := c.prime(ctx); err != nil {
		return fmt.Errorf("clusterrolebindings %s: %w", publicBinding, err)
	}
	return c.ensureAll(ctx, Defaults())
}

// EnsureComponents writes the roles and bindings of components that are missing.
func EnsureComponents(ctx context.Context, c Config) error { return c.ensureAll(ctx, Components()) }

// ensureAll writes what is missing of the objects, all at once.
func (c *Config) ensureAll(ctx context.Context, list []object) error {
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, d := range list {
		all.Go(func() {
			if err := c.ensure(ctx, d); err != nil {
				errs[i] = fmt.Errorf("%s %s: %w", d.plural(), d.GetName(), err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// The binding of the role that everybody has was split from that of discovery.
const (
	discoveryBinding = "system:discovery"
	publicBinding    = "system:public-info-viewer"
)

// prime creates the binding of system:public-info-viewer like that of system:discovery, if only the latter
// exists. So an operator who removed anonymous users from the latter does not give them the version
// again.
func (c *Config) prime(ctx context.Context) error {
	k := c.Kinds.Load().Lookup(rbacv1.GroupName, "clusterrolebindings")
	if k == nil {
		return errors.New("not served")
	}
	res := c.Cache.Resource(k.StoragePrefix)
	if err := res.Ready(ctx); err != nil {
		return err
	}
	from, ok := res.Get(k.Key("", discoveryBinding))
	if _, exists := res.Get(k.Key("", publicBinding)); exists || !ok {
		return nil
	}
	old := new(clusterRoleBinding)
	if err := read(k, from.Raw, from.Rev, old); err != nil {
		return err
	}
	b := &clusterRoleBinding{rbacv1.ClusterRoleBinding{TypeMeta: head("ClusterRoleBinding"),
		ObjectMeta: metav1.ObjectMeta{Name: publicBinding, Labels: old.Labels, Annotations: old.Annotations}, Subjects: old.Subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: publicBinding}}}
	text, err := newObject(b)
	if err != nil {
		return err
	}
	if _, err = c.Store.Create(ctx, k.Key("", publicBinding), text); errors.Is(err, store.ErrExists) {
		return nil
	}
	return err
}

// ensure writes one object if a part of it is missing.
func (c *Config) ensure(ctx context.Context, d object) error {
	k := c.Kinds.Load().Lookup(rbacv1.GroupName, d.plural())
	if k == nil {
		return errors.New("not served")
	}
	res, key := c.Cache.Resource(k.StoragePrefix), k.Key(d.GetNamespace(), d.GetName())
	if err := res.Ready(ctx); err != nil {
		return err
	}
	var known *store.Item
	if o, ok := res.Get(key); ok {
		known = &store.Item{Key: key, Value: o.Raw, Rev: o.Rev}
	}
	_, err := store.Change(ctx, c.Store, key, known, func(now store.Item) ([]byte, error) { return c.completed(ctx, k, d, now) })
	return err
}

// completed returns the JSON of a stored object with what it lacks of d; nil if that is nothing. An object that
// cannot be completed is deleted, and replaced by d.
func (c *Config) completed(ctx context.Context, k *kind.Kind, d object, now store.Item) ([]byte, error) {
	if now.Rev == 0 {
		return newObject(d)
	}
	o := d.empty()
	if err := read(k, now.Value, now.Rev, o); err != nil {
		return nil, err
	}
	if o.GetAnnotations()[autoUpdate] == "false" {
		return nil, nil
	}
	if !o.stands(d) {
		// The write that follows finds that the object is gone, and creates the new one.
		if _, err := c.Store.Delete(ctx, now.Key, now.Rev); err != nil {
			return nil, err
		}
		return newObject(d)
	}
	joined := o.join(d)
	if !joinMeta(o, d) && !joined {
		return nil, nil
	}
	return json.Marshal(o)
}

// newObject returns the JSON of a new object.
func newObject(d object) ([]byte, error) {
	d.SetUID(types.UID(uuid.NewUUID()))
	now := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	d.SetCreationTimestamp(now)
	fields, err := json.Marshal(fieldsOf(d))
	if err != nil {
		return nil, err
	}
	d.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: rbacv1.SchemeGroupVersion.String(), Time: &now,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(fields)),
	}})
	return json.Marshal(d)
}

// fields is a set of fields in the form of managedFields.
type fields map[string]fields

// fieldsOf returns the fields of a default object that its writer owns. Rules that are gathered
// from other roles are not among them.
func fieldsOf(d object) fields {
	keys := func(m map[string]string) fields {
		out := fields{".": {}}
		for key := range m {
			out["f:"+key] = fields{}
		}
		return out
	}
	all := fields{"f:metadata": {"f:annotations": keys(d.GetAnnotations()), "f:labels": keys(d.GetLabels())}}
	switch o := d.(type) {
	case *roleBinding:
		all["f:roleRef"], all["f:subjects"] = fields{}, fields{}
	case *clusterRoleBinding:
		if all["f:roleRef"] = (fields{}); len(o.Subjects) > 0 {
			all["f:subjects"] = fields{}
		}
	case *clusterRole:
		if o.AggregationRule != nil {
			all["f:aggregationRule"] = fields{".": {}, "f:clusterRoleSelectors": {}}
			return all
		}
		all["f:rules"] = fields{}
	case *role:
		all["f:rules"] = fields{}
	}
	return all
}

// read reads a stored object.
func read(k *kind.Kind, raw []byte, rev int64, into any) error {
	if !bytes.HasPrefix(raw, []byte("{")) {
		view, err := k.Storage.Render(raw, rev)
		if err != nil {
			return err
		}
		raw = view.JSON
	}
	return json.Unmarshal(raw, into)
}

// Gather returns the rules of all roles that the selectors select, except the named one, in the
// order of the roles' names, each rule once.
func Gather(name string, selectors []metav1.LabelSelector, all []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	parsed, err := parse(selectors)
	if err != nil {
		return nil, err
	}
	return gather(name, parsed, all), nil
}

// parse returns the selectors of an aggregation rule.
func parse(texts []metav1.LabelSelector) ([]labels.Selector, error) {
	out := make([]labels.Selector, len(texts))
	for i := range texts {
		parsed, err := metav1.LabelSelectorAsSelector(&texts[i])
		if err != nil {
			return nil, err
		}
		out[i] = selector.Label(parsed)
	}
	return out, nil
}

// gather is Gather with selectors that are parsed.
func gather(name string, selectors []labels.Selector, all []*rbacv1.ClusterRole) []rbacv1.PolicyRule {
	all = slices.SortedFunc(slices.Values(all), func(a, b *rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	var rules []rbacv1.PolicyRule
	gathered := map[string]bool{} // rules as text: comparing each with each is quadratic
	var text []byte
	for _, s := range selectors {
		for _, r := range all {
			if r.Name == name || !s.Matches(labelSet(r.Labels)) {
				continue
			}
			for _, rule := range r.Rules {
				if text = appendRule(text[:0], &rule); !gathered[string(text)] {
					gathered[string(text)] = true
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules
}

// appendRule appends a text that is the same for equal rules only. Empty and missing lists are
// equal.
func appendRule(b []byte, r *rbacv1.PolicyRule) []byte {
	for _, list := range [][]string{r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, s := range list {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
	}
	return b
}

// labelSet adapts labels to selectors.
type labelSet map[string]string

func (l labelSet) Has(key string) bool { _, ok := l[key]; return ok }
func (l labelSet) Get(key string) string {
	return l[key]
}
func (l labelSet) Lookup(key string) (string, bool) { v, ok := l[key]; return v, ok }
