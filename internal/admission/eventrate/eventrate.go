// Package eventrate limits how many events clients write: the admission plugin EventRateLimit.
//
// A [Limiter] has some limits: for the whole server, for each namespace, user, or source and object.
// Each limit is a token bucket for each key. An event that exceeds any of them is refused with the
// code 429; dry runs are not counted. Texts are Kubernetes'.
//
// # Invariants
//
//   - A limit has at most as many buckets as its cacheSize. The one that was not used for the longest
//     time is dropped, and is full if its key comes back.
package eventrate

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/status"
)

// Resource is the resource that the step is for. As in Kubernetes, events that are written as
// events.k8s.io are not limited.
var Resource = schema.GroupResource{Resource: "events"}

// Configuration is the configuration of the plugin, a kind of the group
// eventratelimit.admission.k8s.io.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	Limits          []Limit `json:"limits"` // each must be kept
}

// Limit is a limit of one type.
type Limit struct {
	Type      string `json:"type"`                // what shares the limit: Server, Namespace, User or SourceAndObject
	QPS       int32  `json:"qps"`                 // events a second
	Burst     int32  `json:"burst"`               // events at once
	CacheSize int32  `json:"cacheSize,omitempty"` // how many namespaces, users or sources are told apart; default 4,096
}

// DeepCopyObject implements runtime.Object.
func (c *Configuration) DeepCopyObject() runtime.Object {
	return &Configuration{c.TypeMeta, slices.Clone(c.Limits)}
}

// The types of limits.
const (
	perServer    = "Server"
	perNamespace = "Namespace"
	perUser      = "User"
	perSource    = "SourceAndObject"
)

var types = []string{perNamespace, perServer, perSource, perUser}

// Check lists the mistakes in a configuration.
func (c *Configuration) Check() field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("limits")
	if len(c.Limits) == 0 {
		errs = append(errs, field.Invalid(path, c.Limits, "must not be empty"))
	}
	for i, l := range c.Limits {
		at := path.Index(i)
		if !slices.Contains(types, l.Type) {
			errs = append(errs, field.NotSupported(at.Child("type"), l.Type, types))
		}
		if l.Burst <= 0 {
			errs = append(errs, field.Invalid(at.Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			errs = append(errs, field.Invalid(at.Child("qps"), l.QPS, "must be positive"))
		}
		if l.Type != perServer && l.CacheSize < 0 {
			errs = append(errs, field.Invalid(at.Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
	}
	return errs
}

// Limiter is the step.
type Limiter struct{ limits []*buckets }

// New returns a Limiter for a configuration without mistakes.
func New(c *Configuration) *Limiter {
	var l Limiter
	for _, limit := range c.Limits {
		l.limits = append(l.limits, newBuckets(limit))
	}
	return &l
}

// Validate implements admission.Validator.
func (l *Limiter) Validate(_ context.Context, r *admission.Request) error {
	if r.Operation == admission.Delete || r.DryRun {
		return nil
	}
	var errs []error
	for _, b := range l.limits {
		if key := b.keyOf(r); !b.allow(key) {
			errs = append(errs, fmt.Errorf("limit reached on type %v for key %v", b.limit.Type, key))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		refusal := status.TooManyRequests("Too many requests: "+err.Error(), 0)
		refusal.Details = nil
		return refusal
	}
	return nil
}

// buckets are the token buckets of a limit, by key.
type buckets struct {
	limit Limit
	size  int

	mu    sync.Mutex
	byKey map[string]*list.Element
	used  *list.List // of *bucket, the one that was used last first
}

// bucket limits the events of one key.
type bucket struct {
	key string
	*rate.Limiter
}

// newBuckets returns the buckets of a limit. 4096 keys is upstream's default.
func newBuckets(l Limit) *buckets {
	size := int(l.CacheSize)
	if size == 0 {
		size = 4096
	}
	return &buckets{limit: l, size: size, byKey: map[string]*list.Element{}, used: list.New()}
}

// allow uses up a token of the bucket of a key. It reports false if the bucket is empty.
func (b *buckets) allow(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byKey[key]
	if e == nil {
		if b.used.Len() >= b.size {
			oldest := b.used.Back()
			delete(b.byKey, b.used.Remove(oldest).(*bucket).key)
		}
		e = b.used.PushFront(&bucket{key, rate.NewLimiter(rate.Limit(b.limit.QPS), int(b.limit.Burst))})
		b.byKey[key] = e
	}
	b.used.MoveToFront(e)
	return e.Value.(*bucket).Allow()
}

// keyOf returns the key of a request.
func (b *buckets) keyOf(r *admission.Request) string {
	switch b.limit.Type {
	case perNamespace:
		return r.Namespace
	case perUser:
		return r.User.Name
	case perSource:
		return sourceKey(r)
	}
	return ""
}

// sourceKey returns the source and the object of an event.
func sourceKey(r *admission.Request) string {
	source, about := r.New.Root().Get("source"), r.New.Root().Get("involvedObject")
	return strings.Join([]string{
		source.Get("component").Text(), source.Get("host").Text(), about.Get("kind").Text(), about.Get("namespace").Text(),
		about.Get("name").Text(), about.Get("uid").Text(), about.Get("apiVersion").Text(),
	}, "")
}
