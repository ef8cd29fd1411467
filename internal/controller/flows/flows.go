// Package flows gives package flow the FlowSchemas and PriorityLevelConfigurations of the store.
//
// The [Controller] follows both kinds. A change of a specification replaces the configuration of
// the [flow.Controller]. The condition Dangling in the status of a schema shows whether its level
// is missing. The default objects (package internal/flow/bootstrap) are created. Their specifications are
// restored if the objects are mandatory or have the annotation apf.kubernetes.io/autoupdate-spec
// with the value true.
//
// [Controller.Run] is the function to call.
package flows

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/internal/flow"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/store"
	"github.com/keelson-io/keelson/kind"
)

// Producer and Consumer are upstream's field managers: of the objects, and of their status.
const (
	Producer = "api-priority-and-fairness-config-producer-v1"
	Consumer = "api-priority-and-fairness-config-consumer-v1"
)

// API is the part of the API that the controller calls.
type API interface {
	// Ensure creates an object from its JSON unless it exists.
	Ensure(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error
	// Modify changes an object. It returns the errors of fn unchanged.
	Modify(ctx context.Context, k *kind.Kind, namespace, name string, fn func(meta.Object) error) error
	// Delete deletes an object if it exists.
	Delete(ctx context.Context, k *kind.Kind, namespace, name string) error
	// Apply applies a configuration to a subresource of an object.
	Apply(ctx context.Context, k *kind.Kind, namespace, name, subresource string, body []byte) error
}

// Controller keeps the configuration. Its fields are set before Run.
type Controller struct {
	Kinds  *kind.Registry
	Cache  *cache.Cache
	Store  store.Store
	Logger *slog.Logger

	Flow     *flow.Controller // nil: objects are kept, and no request is queued
	Producer API              // writes objects
	Consumer API              // writes status

	loop    loop.Loop
	schemas known[flowcontrolv1.FlowSchema]
	levels  known[flowcontrolv1.PriorityLevelConfiguration]
}

// known has the objects of one kind, by name. Objects are replaced, not changed.
type known[T any] struct {
	kind   *kind.Kind
	prefix string // of keys
	byName map[string]*T
}

func newKnown[T any](k *kind.Kind) known[T] {
	return known[T]{kind: k, prefix: k.StoragePrefix + "/", byName: map[string]*T{}}
}

// update adds the object of a change, or removes it. It returns false if the key is of another
// kind.
func (n *known[T]) update(e *loop.Change) (name string, ok bool, err error) {
	if name, ok = strings.CutPrefix(e.Key, n.prefix); !ok {
		return "", false, nil
	}
	delete(n.byName, name)
	if e.Deleted {
		return name, true, nil
	}
	view, err := n.kind.Storage.Render(e.Value, e.Rev)
	if err != nil {
		return name, true, err
	}
	o := new(T)
	if err := json.Unmarshal(view.JSON, o); err != nil {
		return name, true, err
	}
	n.byName[name] = o
	return name, true, nil
}

// all returns the objects in the order of their names.
func (n *known[T]) all() []*T {
	var all []*T
	for _, name := range slices.Sorted(maps.Keys(n.byName)) {
		all = append(all, n.byName[name])
	}
	return all
}

// Keys of work that is not for one schema.
const (
	configure = "configure" // replace the configuration
	maintain  = "maintain"  // keep the default objects
)

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	now := c.Kinds.Load()
	schemas, levels := now.Lookup(flowcontrolv1.GroupName, "flowschemas"), now.Lookup(flowcontrolv1.GroupName, "prioritylevelconfigurations")
	if schemas == nil || levels == nil {
		return
	}
	c.schemas, c.levels = newKnown[flowcontrolv1.FlowSchema](schemas), newKnown[flowcontrolv1.PriorityLevelConfiguration](levels)
	c.loop = loop.Loop{Cache: c.Cache, Store: c.Store, Logger: c.Logger, Name: "priority and fairness", List: []string{c.levels.prefix, c.schemas.prefix},
		Begin: c.begin, See: c.see, Work: c.work}
	c.loop.Run(ctx)
}

func (c *Controller) begin() {
	clear(c.schemas.byName)
	clear(c.levels.byName)
	c.loop.Add(configure)
	c.loop.Add(maintain)
}

// see schedules the work after a change.
func (c *Controller) see(e *loop.Change) {
	_, ok, err := c.schemas.update(e)
	if !ok {
		_, _, err = c.levels.update(e)
	}
	if err != nil {
		c.Logger.Error("object of priority and fairness cannot be read, it has no effect", "key", e.Key, "error", err)
	}
	c.loop.Add(configure)
	c.loop.Add(maintain)
}

// work does the work of a key.
func (c *Controller) work(ctx context.Context, key string) error {
	switch key {
	case configure:
		c.apply()
		return nil
	case maintain:
		return c.maintain(ctx)
	}
	return c.writeStatus(ctx, key)
}

// apply replaces the configuration, and schedules the schemas whose status is outdated.
func (c *Controller) apply() {
	if c.Flow == nil {
		return
	}
	schemas := c.schemas.all()
	c.Flow.Configure(c.levels.all(), schemas)
	for _, s := range schemas {
		if _, behind := c.condition(s); behind {
			c.loop.Add(s.Name)
		}
	}
}

// condition returns the wanted condition Dangling of a schema, and whether its status has another
// one.
func (c *Controller) condition(s *flowcontrolv1.FlowSchema) (want flowcontrolv1.FlowSchemaCondition, behind bool) {
	level := s.Spec.PriorityLevelConfiguration.Name
	want = flowcontrolv1.FlowSchemaCondition{Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse, Reason: "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists", level)}
	if c.Flow.Dangles(s) {
		want.Status, want.Reason = flowcontrolv1.ConditionTrue, "NotFound"
		want.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", level)
	}
	for _, have := range s.Status.Conditions {
		if have.Type == want.Type {
			return want, have.Status != want.Status || have.Reason != want.Reason || have.Message != want.Message
		}
	}
	return want, true
}

// applied is the configuration that is applied to a schema.
type applied struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        map[string]string              `json:"metadata"`
	Status          flowcontrolv1.FlowSchemaStatus `json:"status"`
}

// writeStatus writes the status of a schema.
func (c *Controller) writeStatus(ctx context.Context, name string) error {
	s := c.schemas.byName[name]
	if s == nil {
		return nil
	}
	want, behind := c.condition(s)
	if !behind {
		return nil
	}
	want.LastTransitionTime = metav1.NewTime(time.Now())
	body, err := json.Marshal(applied{TypeMeta: metav1.TypeMeta{APIVersion: flowcontrolv1.SchemeGroupVersion.String(), Kind: "FlowSchema"},
		Metadata: map[string]string{"name": name}, Status: flowcontrolv1.FlowSchemaStatus{Conditions: []flowcontrolv1.FlowSchemaCondition{want}}})
	if err != nil {
		return err
	}
	return loop.UnlessGone(c.Consumer.Apply(ctx, c.schemas.kind, "", name, "status", body))
}
