package webhook

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/keelson-io/keelson/internal/admission"
	"github.com/keelson-io/keelson/internal/admission/conditions"
	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/kind"
)

// This file calls validating webhooks, all at the same time.

// shown holds the JSON of a request's objects in one version.
type shown struct{ object, old []byte }

// Validate implements admission.Validator. If several webhooks refuse, the client sees the error of
// the first one by order.
func (w *Webhooks) Validate(ctx context.Context, r *admission.Request) error {
	s, found := w.candidates(r)
	if len(found) == 0 {
		return nil
	}
	var calls []call
	objects := map[*kind.Version]shown{}
	for i := range found {
		c, ok, err := w.asks(ctx, r, s, &found[i])
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if _, made := objects[c.target.Version]; !made {
			object, old, err := conditions.Objects(r, c.target)
			if err != nil {
				return status.Internal(err)
			}
			objects[c.target.Version] = shown{object, old}
		}
		c.index = len(calls)
		calls = append(calls, c)
	}
	if len(calls) == 0 {
		return nil
	}
	if err := overdue(ctx); err != nil {
		return err
	}
	return w.validateWith(ctx, r, calls, objects)
}

// answered is the result of one call.
type answered struct {
	verdict *verdict
	err     error
	start   time.Time
}

// validateWith makes all calls and returns their results in order. objects has the JSON for the
// version of each call.
func (w *Webhooks) validateWith(ctx context.Context, r *admission.Request, calls []call, objects map[*kind.Version]shown) error {
	answers := make([]answered, len(calls))
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() {
			c, a := &calls[i], &answers[i]
			defer func() {
				if p := recover(); p != nil {
					a.err = status.Internal(fmt.Errorf("ValidatingAdmissionWebhook/%v has panicked: %v", c.name, p))
				}
			}()
			o := objects[c.target.Version]
			a.start = time.Now()
			a.verdict, a.err = c.send(ctx, r, o.object, o.old)
			if a.err == nil && !a.verdict.allowed {
				a.err = &rejection{denied(c.name, a.verdict.result)}
			}
		})
	}
	all.Wait()
	var first error
	for i := range calls {
		c, a := &calls[i], &answers[i]
		if a.verdict != nil {
			w.passOn(a.verdict, r, c)
		}
		key := fmt.Sprintf("%s%sround_0_index_%d", annotationFailedOpen, annotationValidating, i)
		if err := w.outcome(ctx, r, c, a.start, a.err, key); err != nil && first == nil {
			first = err
		}
	}
	return first
}
