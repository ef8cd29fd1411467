package eventrate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/jsondoc"
)

// TestLimits holds which events share a bucket, and that no more buckets are kept than configured.
func TestLimits(t *testing.T) {
	d := jsondoc.Get()
	defer d.Release()
	if err := jsondoc.Parse(d, []byte(`{"source":{"component":"c"},"involvedObject":{"name":"n"}}`)); err != nil {
		t.Fatal(err)
	}
	event := func(namespace, user string) *admission.Request {
		return &admission.Request{Operation: admission.Create, Namespace: namespace, User: &authn.User{Name: user}, New: d}
	}
	for _, row := range []struct {
		limit   string
		refused bool // the second event, of another namespace and user
		text    string
	}{
		{perServer, true, "limit reached on type Server for key "},
		{perNamespace, false, "limit reached on type Namespace for key a"},
		{perUser, false, "limit reached on type User for key u"},
		{perSource, true, "limit reached on type SourceAndObject for key cn"},
	} {
		l := New(&Configuration{Limits: []Limit{{Type: row.limit, QPS: 1, Burst: 1}}})
		if err := l.Validate(t.Context(), event("a", "u")); err != nil {
			t.Errorf("%s: the first event: %v", row.limit, err)
		}
		if err := l.Validate(t.Context(), event("b", "v")); (err != nil) != row.refused {
			t.Errorf("%s: another event: %v", row.limit, err)
		}
		if err := l.Validate(t.Context(), event("a", "u")); err == nil || !strings.Contains(err.Error(), row.text) {
			t.Errorf("%s: the same event: got %v, want %q", row.limit, err, row.text)
		}
		dry := event("a", "u")
		dry.DryRun = true
		if err := l.Validate(t.Context(), dry); err != nil {
			t.Errorf("%s: a dry run: %v", row.limit, err)
		}
	}
	l := New(&Configuration{Limits: []Limit{{Type: perNamespace, QPS: 1, Burst: 1, CacheSize: 3}}})
	for i := range 100 {
		if err := l.Validate(t.Context(), event(fmt.Sprint(i), "u")); err != nil {
			t.Fatal(err)
		}
	}
	if b := l.limits[0]; len(b.byKey) != 3 || b.used.Len() != 3 {
		t.Errorf("got %d and %d buckets, want 3", len(b.byKey), b.used.Len())
	}
}
