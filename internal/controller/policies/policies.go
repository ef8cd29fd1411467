// Package policies type-checks every ValidatingAdmissionPolicy, and writes into its status which
// expressions do not fit the kinds that it matches.
//
// The [Controller] watches the policies. Package internal/admission/typecheck checks a policy whose
// specification has changed since the last write of its status (metadata.generation,
// status.observedGeneration), and the result is applied to its status. A failed write is tried
// again.
//
// [Controller.Run] is the function to call.
package policies

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/internal/admission/typecheck"
	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// Name is kube-controller-manager's name of this controller.
const Name = "validatingadmissionpolicy-status-controller"

// Manager is the field manager of upstream's controller.
const Manager = "validatingadmissionpolicy-status"

// API is the part of the API that the controller calls.
type API interface {
	// Apply applies a configuration to a subresource of an object.
	Apply(ctx context.Context, k *kind.Kind, namespace, name, subresource string, body []byte) error
}

// Controller writes the status of policies. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	API    API
	Logger *slog.Logger

	kind *kind.Kind
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	if c.kind = c.Kinds.Load().Lookup(admissionv1.GroupName, "validatingadmissionpolicies"); c.kind == nil {
		return
	}
	l := loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: Name, List: []string{c.kind.StoragePrefix + "/"}, Work: c.check}
	l.See = func(e *loop.Change) {
		if !e.Deleted {
			l.Add(e.Key)
		}
	}
	l.Run(ctx)
}

// check writes the status of one policy if it is outdated.
func (c *Controller) check(ctx context.Context, key string) error {
	item, err := c.Store.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	view, err := c.kind.Storage.Render(item.Value, item.Rev)
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
	return c.API.Apply(ctx, c.kind, "", p.Name, "status", body)
}

// applied is the configuration that is applied to a policy.
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
