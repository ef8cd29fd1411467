package schema

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file bounds the work below allOf, anyOf, oneOf and not. Only there do checks multiply: each
// branch checks each value.

const (
	// DefaultSteps is the bound for all default values of a schema together.
	DefaultSteps = maxSteps

	maxSteps  = 10_000_000 // steps for one object
	perStep   = 16         // bytes of a text, members or items that count as one more step
	perError  = 16         // steps for an error that is built below a junctor
	betweenUp = 1 << 16    // steps between two looks at the context
)

// work counts the steps of one walk over a value. A step is the check of a value by one schema
// below a junctor; long values take more steps.
type work struct {
	ctx               context.Context
	left              int64 // remaining steps, negative if the walk must end
	nextCheck         int64 // the value of left at which the context is checked next
	formatsUnverified bool  // some string may not parse as its declared format, so that rules must check
}

// newWork returns the work for a number of steps.
func newWork(ctx context.Context, steps int64) work {
	return work{ctx: ctx, left: steps, nextCheck: max(steps-betweenUp, 0)}
}

// read checks whether rules can parse the string x by the format of n. Upstream accepts some
// strings that they cannot.
func (w *work) read(n *node, d *jsondoc.Doc, x jsondoc.Node) {
	if s := d.Str(x); !w.formatsUnverified && !(n.format == "date-time" && isStamp(s)) {
		w.formatsUnverified = !n.reads.Reads(s)
	}
}

// visit counts the steps of checking x by n. It returns false if the walk must end; its result is
// then ignored.
func (w *work) visit(n *node, kind jsondoc.Kind, x jsondoc.Node) bool {
	size := int64(1)
	if kind >= jsondoc.String {
		size += int64(x.Len()+len(n.checked)) / perStep
	}
	return w.spend(size)
}

// spend subtracts steps, and reports whether the walk may continue.
func (w *work) spend(steps int64) bool {
	if w.left -= steps; w.left >= w.nextCheck {
		return true
	}
	if w.left >= 0 && w.ctx.Err() != nil {
		w.left = -1
	}
	w.nextCheck = max(w.left-betweenUp, 0)
	return w.left >= 0
}

// mustEnd reports whether the walk must end.
func (w *work) mustEnd() bool { return w.left < 0 }

// err returns the reason why the walk ended, nil if it did not.
func (w *work) err(path *field.Path) *field.Error {
	if !w.mustEnd() {
		return nil
	}
	detail := fmt.Sprintf("validation of values below allOf, anyOf, oneOf and not takes more than %d steps, it was not completed", maxSteps)
	if err := w.ctx.Err(); err != nil {
		detail = fmt.Sprintf("validation of values was interrupted: %v", err)
	}
	return field.Invalid(path, field.OmitValueType{}, detail)
}
