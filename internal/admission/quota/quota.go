// Package quota keeps namespaces within their ResourceQuotas: the admission plugin ResourceQuota.
//
// # Model
//
// The status of a ResourceQuota has the limits (hard) and the use (used). Before an object is
// stored, the [Step] adds what the object uses to the status of each quota that concerns it, with
// compare-and-swap, and refuses the object if that exceeds the limit. What an object uses is its
// [Measure]: pods count by their requests and limits, claims by their storage, every other
// resource, custom resources included, by the number of its objects. The controller of package
// internal/controller/quota calculates the status anew when objects go, and corrects charges for objects
// that were not stored in the end.
//
// # Invariants
//
//   - Two requests never spend the same room: a charge is decided on the stored status, and is
//     stored only if that has not changed.
//   - A request in a namespace without quotas is not decoded and costs one look at the cache.
//   - A request that one quota refuses leaves no charge with the others, unless the store fails.
//   - Decisions and texts are those of Kubernetes' plugin.
//
// [New] makes the Step.
//
// Source: https://kubernetes.io/docs/concepts/policy/resource-quotas/.
package quota

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/lookup"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// Configuration is the configuration of the plugin.
type Configuration struct {
	metav1.TypeMeta  `json:",inline"`
	LimitedResources []LimitedResource `json:"limitedResources"` // of which nothing may be used without a quota
}

// DeepCopyObject implements runtime.Object.
func (c *Configuration) DeepCopyObject() runtime.Object {
	return &Configuration{c.TypeMeta, slices.Clone(c.LimitedResources)}
}

// Check lists the mistakes in a configuration.
func (c *Configuration) Check() field.ErrorList {
	var errs field.ErrorList
	for i, l := range c.LimitedResources {
		if l.Resource == "" {
			errs = append(errs, field.Required(field.NewPath("limitedResources").Index(i).Child("resource"), ""))
		}
	}
	return errs
}

// Update changes the stored status of a quota by fn. fn is called again if another writer was faster;
// its errors are those of Update.
type Update func(ctx context.Context, namespace, name string, fn func(*corev1.ResourceQuota) error) error

// Step is the plugin.
type Step struct {
	quotas  *lookup.Lister[corev1.ResourceQuota]
	limited []LimitedResource
	update  Update
	turns   turns
}

// New returns the Step. The configuration may be nil.
func New(s lookup.Source, c *Configuration, update Update) *Step {
	step := &Step{quotas: lookup.New[corev1.ResourceQuota](s, schema.GroupResource{Resource: "resourcequotas"}), update: update}
	if c != nil {
		step.limited = c.LimitedResources
	}
	return step
}

// Validate implements admission.Validator.
func (s *Step) Validate(ctx context.Context, r *admission.Request) error {
	if r.Namespace == "" || r.Operation == admission.Delete || r.Foreign != nil {
		return nil
	}
	gr := r.Version.Kind.GroupResource()
	if r.Operation == admission.Create && r.Subresource != "" || r.Operation == admission.Update && measures[gr] == nil {
		return nil
	}
	quotas, err := s.quotas.List(ctx, r.Namespace)
	if err != nil || len(quotas) == 0 && len(s.limited) == 0 {
		return err
	}
	m := MeasureOf(gr)
	if m == nil {
		return nil
	}
	d, err := readDemand(r, m)
	if err != nil || d == nil {
		return err
	}
	return s.enforce(ctx, d, quotas)
}

// enforce charges all quotas, or refuses the request.
func (s *Step) enforce(ctx context.Context, d *demand, quotas []*corev1.ResourceQuota) error {
	var concerned []*corev1.ResourceQuota
	var refusal error
	for _, q := range quotas {
		more, err := d.charge(q)
		if err != nil {
			refusal = err
		}
		if err != nil || len(more) > 0 {
			concerned = append(concerned, q)
		}
	}
	if err := d.covered(quotas, s.limited); err != nil {
		return err
	}
	if d.r.DryRun || len(concerned) == 0 {
		return refusal
	}
	leave, err := s.turns.enter(ctx, d.r.Namespace)
	if err != nil {
		return status.Internal(err)
	}
	defer leave()
	return s.charge(ctx, d, concerned)
}

// charge charges some quotas as they are stored. If one of them refuses, the charges to the others
// are undone.
func (s *Step) charge(ctx context.Context, d *demand, quotas []*corev1.ResourceQuota) error {
	namespace := d.r.Namespace
	charged := make([]corev1.ResourceList, 0, len(quotas))
	for _, q := range quotas {
		var more corev1.ResourceList
		err := s.update(ctx, namespace, q.Name, func(live *corev1.ResourceQuota) (err error) {
			if more, err = d.charge(live); err == nil && len(more) > 0 {
				live.Status.Used = Add(live.Status.Used, more)
			}
			return err
		})
		if err != nil && status.From(err).Reason == metav1.StatusReasonNotFound {
			err, more = nil, nil // the quota was deleted
		}
		if err != nil {
			for i, back := range charged {
				s.refund(context.WithoutCancel(ctx), namespace, quotas[i].Name, back)
			}
			return err
		}
		charged = append(charged, more)
	}
	return nil
}

// refund undoes a charge. If that fails, the controller corrects the status.
func (s *Step) refund(ctx context.Context, namespace, name string, back corev1.ResourceList) {
	if len(back) == 0 {
		return
	}
	_ = s.update(ctx, namespace, name, func(live *corev1.ResourceQuota) error {
		live.Status.Used = Add(growth(live.Status.Used, back), Mask(zero(live.Status.Used), Names(live.Status.Used)))
		return nil
	})
}

// zero returns a list with the same names and nothing of each.
func zero(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name := range list {
		out[name] = count(0)
	}
	return out
}

// turns lets the requests of a namespace charge its quotas one after another, so that they do not
// contend for the compare-and-swap. Correctness does not depend on it.
type turns struct {
	mu    sync.Mutex
	queue map[string]*turn // of the namespaces with requests
}

// turn is the queue of a namespace.
type turn struct {
	token chan struct{} // has room for the request whose turn it is
	users int
}

// enter waits for the turn of a namespace. The caller calls leave when it has finished.
func (t *turns) enter(ctx context.Context, namespace string) (leave func(), err error) {
	t.mu.Lock()
	if t.queue == nil {
		t.queue = map[string]*turn{}
	}
	mine := t.queue[namespace]
	if mine == nil {
		mine = &turn{token: make(chan struct{}, 1)}
		t.queue[namespace] = mine
	}
	mine.users++
	t.mu.Unlock()
	gone := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if mine.users--; mine.users == 0 {
			delete(t.queue, namespace)
		}
	}
	select {
	case mine.token <- struct{}{}:
		return func() { <-mine.token; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
}

// On returns a change of a stored quota's status by fn, in the form that package objects uses.
func On(fn func(*corev1.ResourceQuota) error) func(meta.Object) error {
	return func(o meta.Object) error {
		v, err := read[corev1.ResourceQuota](o.Doc)
		if err != nil {
			return err
		}
		q := v.(*corev1.ResourceQuota)
		if err := fn(q); err != nil {
			return err
		}
		text, err := json.Marshal(q.Status)
		if err != nil {
			return status.Internal(err)
		}
		d := jsondoc.Get()
		defer d.Release()
		if err := jsondoc.Parse(d, text); err != nil {
			return status.Internal(err)
		}
		o.Doc.Set(o.Doc.Import(d.Root()), "status")
		return nil
	}
}
