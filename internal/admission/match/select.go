package match

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/meta"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file evaluates the parts of criteria that depend on the single request: selectors and names.

// Selects reports whether the candidate is for a request, and by which target.
// A namespace that does not exist is an error if its labels are asked for.
func (c *Candidate) Selects(ctx context.Context, r *admission.Request, n admission.Namespaces) (Target, bool, error) {
	inNamespace, namespaceErr := c.criteria.selectsNamespace(ctx, r, n)
	if !inNamespace && namespaceErr == nil {
		return Target{}, false, nil
	}
	object, objectErr := c.criteria.selectsObject(r)
	if !object && objectErr == nil {
		return Target{}, false, nil
	}
	target, ok := c.target(r.Name)
	switch {
	case !ok:
		return Target{}, false, nil // a malformed selector matters only if the rules match
	case namespaceErr != nil:
		return Target{}, false, namespaceErr
	case objectErr != nil:
		return Target{}, false, objectErr
	}
	return target, true, nil
}

// target returns the target of the first rule that matches an object's name, unless an exclude rule
// does.
func (c *Candidate) target(name string) (Target, bool) {
	for i := range c.excludes {
		if c.excludes[i].appliesTo(name) {
			return Target{}, false
		}
	}
	for i := range c.routes {
		if c.routes[i].appliesTo(name) {
			return c.routes[i].target, true
		}
	}
	return Target{}, false
}

// selectsNamespace evaluates the namespaceSelector. Cluster-scoped objects always match; a
// Namespace matches by its own labels.
func (c *Criteria) selectsNamespace(ctx context.Context, r *admission.Request, n admission.Namespaces) (bool, error) {
	if c.namespaces.matchesAll() {
		return true, nil
	}
	name, itself := r.Namespace, r.Version.Kind.IsNamespaces()
	if itself {
		name = r.Name
	}
	if name == "" && !itself {
		return true, nil
	}
	if c.namespaces.err != nil {
		return false, status.Internal(c.namespaces.err)
	}
	if itself && r.Subresource == "" && r.New != nil {
		return c.namespaces.Matches(meta.Object{Doc: r.New}.Labels()), nil
	}
	view, err := n.Namespace(ctx, name)
	if err != nil {
		return false, err
	}
	return c.namespaces.Matches(view.Labels), nil
}

// selectsObject evaluates the objectSelector. The object matches if its labels do before or after
// the write.
func (c *Criteria) selectsObject(r *admission.Request) (bool, error) {
	if c.objects.matchesAll() {
		return true, nil
	}
	if c.objects.err != nil {
		return false, status.Internal(c.objects.err)
	}
	return selects(c.objects, r.New) || selects(c.objects, r.Old), nil
}

// selects reports whether a selector matches the labels of a document; false if d is nil.
func selects(s labels.Selector, d *jsondoc.Doc) bool {
	return d != nil && s.Matches(meta.Object{Doc: d}.Labels())
}
