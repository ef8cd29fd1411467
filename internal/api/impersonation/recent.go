package impersonation

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
)

// This file is what is remembered, and what it is known by.

// lifetime is how long a permission is remembered, from the moment in which it was asked for.
const lifetime = 10 * time.Second

// recent remembers values for a while; no lifetime means for as long as there
// is room. Where there are more than it has room for it starts afresh: nothing
// depends on what it remembers but how often is asked.
type recent[T any] struct {
	room int
	ttl  time.Duration

	mu     sync.Mutex
	values map[string]remembered[T]
}

// remembered is a value, and when it was asked for.
type remembered[T any] struct {
	value T
	since time.Time
}

// newRecent returns a memory for a number of values. A ttl of 0 means without end.
func newRecent[T any](room int, ttl time.Duration) *recent[T] {
	return &recent[T]{room: room, ttl: ttl, values: map[string]remembered[T]{}}
}

// get returns what is remembered of a key, if it is still valid.
func (r *recent[T]) get(key string) (remembered[T], bool) {
	r.mu.Lock()
	have, ok := r.values[key]
	r.mu.Unlock()
	if !ok || key == "" || r.ttl > 0 && time.Since(have.since) > r.ttl {
		return remembered[T]{}, false
	}
	return have, true
}

// set remembers a value.
func (r *recent[T]) set(key string, value remembered[T]) {
	if key == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.values) >= r.room {
		clear(r.values)
	}
	r.values[key] = value
}

// userKey is what the permission to be a user is known by.
func userKey(wanted, requester *authn.User) string { return digest(*wanted, *requester) }

// keyOf is what the permission to be a user in a request is known by; "" if the
// request is not fully understood, which is not remembered.
func keyOf(wanted *authn.User, a *authz.Attributes) string {
	fields, err := a.FieldRequirements()
	if err != nil {
		return ""
	}
	labels, err := a.LabelRequirements()
	if err != nil {
		return ""
	}
	return digest(*wanted, *a.User, a.Verb, a.Namespace, a.Resource, a.Subresource, a.Name, a.Group, a.Version, a.ResourceRequest, a.Path,
		fields, labels)
}

// digest returns a hash that two lists of parts share only if they are equal: quoting distinguishes
// all bytes, and maps are printed by key.
func digest(parts ...any) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q", parts)
	return string(h.Sum(nil))
}
