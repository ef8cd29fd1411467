package gc

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-io/keelson/internal/cache"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
)

// This file sends an event about a reference to an owner that is in another namespace, and so
// counts as absent. As upstream's recorders do, it raises the count of an event that is sent again,
// when the deletion of an object is refused, and limits the events for one object.

// maxSearched is the number of owners that are remembered to be in no other namespace, so that the
// dependents of one owner search for it once.
const maxSearched = 1024

// wall is the clock for events.
type wall struct{}

func (wall) Now() time.Time                  { return time.Now() }
func (wall) Since(t time.Time) time.Duration { return time.Since(t) }

// report sends the event about a reference to an absent owner, if the owner is found in another
// namespace.
func (t *target) report(ctx context.Context, r *reference) {
	k := t.c.ownerKind(r)
	if k == nil || !k.Namespaced || !t.c.elsewhere(k, r) {
		return
	}
	events := t.c.Kinds.Load().Lookup("", "events")
	if events == nil {
		return
	}
	namespace, now := t.namespace, time.Now()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	said, err := t.c.told.EventCorrelate(&corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", t.name, now.UnixNano()), Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: t.kind.Storage.APIVersion(), Kind: t.kind.Name, Namespace: t.namespace, Name: t.name, UID: types.UID(t.uid)},
		Reason:         "OwnerRefInvalidNamespace",
		Message: fmt.Sprintf("ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
			r.of.Value().apiVersion, r.of.Value().kind, t.namespace, r.name, r.uid, t.namespace),
		FirstTimestamp: metav1.Time{Time: now}, LastTimestamp: metav1.Time{Time: now},
		Count: 1, Type: corev1.EventTypeWarning,
		Source: corev1.EventSource{Component: Name}, ReportingController: Name,
	})
	if err == nil && said.Skip { // too many for one object
		return
	}
	if err == nil {
		err = t.c.send(ctx, events, said.Event)
	}
	if err != nil { // events may get lost
		t.c.Logger.Debug("garbage collector cannot send an event", "reason", "OwnerRefInvalidNamespace", "error", err)
	}
}

// send creates an event, or raises the count of an existing one.
func (c *Controller) send(ctx context.Context, events *kind.Kind, e *corev1.Event) error {
	if e.Count > 1 {
		err := c.API.Modify(ctx, events, e.Namespace, e.Name, func(o meta.Object) error {
			o.Doc.Set(jsondoc.IntNode(int64(e.Count)), "count")
			o.Doc.Set(o.Doc.NewString(e.LastTimestamp.UTC().Format(time.RFC3339)), "lastTimestamp")
			o.Doc.Set(o.Doc.NewString(e.Message), "message")
			return nil
		})
		if !isReason(err, metav1.StatusReasonNotFound) {
			return err
		}
		// Events expire; this one is created again, with its count.
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := c.API.Create(ctx, events, e.Namespace, e.Name, text); err != nil {
		return err
	}
	c.told.UpdateState(e)
	return nil
}

// elsewhere reports whether an owner is found in any namespace, by kind, name and uid.
func (c *Controller) elsewhere(k *kind.Kind, r *reference) bool {
	c.mu.Lock()
	searched := c.searched[r.uid]
	c.mu.Unlock()
	if searched {
		return false
	}
	found := false
	owners := c.Cache.Resource(k.StoragePrefix)
	c.namespaces(func(namespace string) bool {
		if o, ok := owners.Get(k.Key(namespace, r.name)); ok {
			d := jsondoc.Get()
			found = k.Storage.Load(d, o.Raw, o.Rev) == nil && meta.Object{Doc: d}.UID() == r.uid
			d.Release()
		}
		return !found
	})
	if !found {
		c.mu.Lock()
		if len(c.searched) >= maxSearched {
			clear(c.searched)
		}
		c.searched[r.uid] = true
		c.mu.Unlock()
	}
	return found
}

// namespaces calls fn with the name of each namespace until it returns false.
func (c *Controller) namespaces(fn func(name string) bool) {
	k := c.Kinds.Load().Lookup("", "namespaces")
	if k == nil {
		return
	}
	prefix := k.StoragePrefix + "/"
	c.Cache.Resource(k.StoragePrefix).Snapshot().Ascend(prefix, func(o *cache.Object) bool {
		name, ok := strings.CutPrefix(o.Key, prefix)
		return ok && fn(name)
	})
}
