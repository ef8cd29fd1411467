// Package policies writes into the status of every ValidatingAdmissionPolicy
// which of its expressions do not fit the kinds that it is for.
//
// The [Controller] watches the policies. One whose specification changed since
// its status was written (metadata.generation, status.observedGeneration) is
// checked by package admission/typecheck, and the outcome is applied to its
// status. What could not be written is tried again.
//
// [Controller.Run] is the function to call.
package policies

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/admission/typecheck"
	"github.com/keelson-io/keelson/cache"
	"github.com/keelson-io/keelson/kind"
)

// Name is what kube-controller-manager calls the controller.
const Name = "validatingadmissionpolicy-status-controller"

// manager is whom upstream's controller writes as.
const manager = "validatingadmissionpolicy-status"

// retryAfter is how long to wait before what went wrong is tried again.
const retryAfter = 100 * time.Millisecond

// API is what the controller asks of the API.
type API interface {
	// ApplyStatus applies a body to the status of an object.
	ApplyStatus(ctx context.Context, k *kind.Kind, namespace, name, manager string, body []byte) error
}

// Controller writes the status of policies. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	API    API
	Logger *slog.Logger

	kind *kind.Kind
	due  map[string]*cache.Object // to be looked at, by key
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.kind = c.Kinds.Load().Lookup(admissionv1.GroupName, "validatingadmissionpolicies"); c.kind == nil {
		return
	}
	for ctx.Err() == nil {
		if err := c.follow(ctx); err != nil && ctx.Err() == nil {
			c.Logger.Debug("watch of admission policies ended, starting another", "error", err)
			pause(ctx)
		}
	}
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(retryAfter):
	}
}

// follow looks at all policies, and at each that changes.
func (c *Controller) follow(ctx context.Context) error {
	res := c.Cache.Resource(c.kind.StoragePrefix)
	if err := res.Ready(ctx); err != nil {
		return err
	}
	snapshot := res.Snapshot()
	watch, err := res.Watch(snapshot.Rev(), "")
	if err != nil {
		return err
	}
	defer watch.Close()
	c.due = map[string]*cache.Object{}
	snapshot.Ascend("", func(o *cache.Object) bool {
		c.due[o.Key] = o
		return true
	})
	for {
		wait, cancel := ctx, context.CancelFunc(func() {})
		if c.work(ctx); len(c.due) > 0 {
			wait, cancel = context.WithTimeout(ctx, retryAfter)
		}
		events, _, err := watch.Next(wait)
		cancel()
		if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
		for _, e := range events {
			if e.Type == cache.Deleted {
				delete(c.due, e.Object.Key)
			} else {
				c.due[e.Object.Key] = e.Object
			}
		}
	}
}

// work does what is due. What fails stays so.
func (c *Controller) work(ctx context.Context) {
	for key, o := range c.due {
		if ctx.Err() != nil {
			return
		}
		if err := c.settle(ctx, o); err != nil {
			c.Logger.Debug("admission policy: its status is not written yet", "key", key, "error", err)
			continue
		}
		delete(c.due, key)
	}
}

// settle writes the status of one policy if that is behind.
func (c *Controller) settle(ctx context.Context, o *cache.Object) error {
	view, err := o.View(c.kind.Storage)
	if err != nil {
		return err
	}
	p := new(admissionv1.ValidatingAdmissionPolicy)
	if err := json.Unmarshal(view.JSON, p); err != nil {
		return err
	}
	if p.Generation <= p.Status.ObservedGeneration {
		return nil
	}
	body, err := json.Marshal(statusOf(p, typecheck.Check(p, c.Kinds.Load())))
	if err != nil {
		return err
	}
	err = c.API.ApplyStatus(ctx, c.kind, "", p.Name, manager, body)
	if _, there := c.Cache.Resource(c.kind.StoragePrefix).Get(o.Key); !there {
		return nil
	}
	return err
}

// applied is what is applied to a policy.
type applied struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Status     appliedStatus     `json:"status"`
}

type appliedStatus struct {
	ObservedGeneration int64                    `json:"observedGeneration"`
	TypeChecking       admissionv1.TypeChecking `json:"typeChecking"`
}

func statusOf(p *admissionv1.ValidatingAdmissionPolicy, warnings []admissionv1.ExpressionWarning) applied {
	return applied{
		APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy", Metadata: map[string]string{"name": p.Name},
		Status: appliedStatus{p.Generation, admissionv1.TypeChecking{ExpressionWarnings: warnings}},
	}
}
