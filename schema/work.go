package schema

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file bounds the work below allOf, anyOf, oneOf and not, the one place
// where checks of values multiply: each branch is tried for each value that has
// it.

const (
	// DefaultSteps is what all default values of a schema may take together.
	DefaultSteps = maxSteps

	maxSteps  = 10_000_000 // steps of one object
	perStep   = 16         // bytes of a text, members or items that one more step stands for
	perError  = 16         // steps of an error that is made below a junctor
	betweenUp = 1 << 16    // steps from one look at the context to the next
)

// work counts the steps of one walk over a value. A step is a look at a value
// by one schema below a junctor; long values take more of them.
type work struct {
	ctx  context.Context
	left int64 // negative once the walk is to end
	look int64 // what is left when the context is looked at next
	odd  bool  // nobody asks any more whether rules can read all texts by their formats
}

func newWork(ctx context.Context, steps int64) work {
	return work{ctx: ctx, left: steps, look: max(steps-betweenUp, 0)}
}

// read looks whether rules can read the text x of n by its format. Upstream lets some pass as valid that they cannot.
func (w *work) read(n *node, d *jsondoc.Doc, x jsondoc.Node) {
	if s := d.Str(x); !w.odd && !(n.format == "date-time" && isStamp(s)) {
		w.odd = !n.reads.Reads(s)
	}
}

// visit takes the steps of a look at x by n. It is false if the walk is to end:
// then nothing that it says counts.
func (w *work) visit(n *node, kind jsondoc.Kind, x jsondoc.Node) bool {
	size := int64(1)
	if kind >= jsondoc.String {
		size += int64(x.Len()+len(n.checked)) / perStep
	}
	return w.take(size)
}

func (w *work) take(steps int64) bool {
	if w.left -= steps; w.left >= w.look {
		return true
	}
	if w.left >= 0 && w.ctx.Err() != nil {
		w.left = -1
	}
	w.look = max(w.left-betweenUp, 0)
	return w.left >= 0
}

// out reports whether the walk is to end.
func (w *work) out() bool { return w.left < 0 }

// err says why the walk ended, nil if it did not.
func (w *work) err(path *field.Path) *field.Error {
	if !w.out() {
		return nil
	}
	detail := fmt.Sprintf("validation of values below allOf, anyOf, oneOf and not takes more than %d steps, it was not completed", maxSteps)
	if err := w.ctx.Err(); err != nil {
		detail = fmt.Sprintf("validation of values was interrupted: %v", err)
	}
	return field.Invalid(path, field.OmitValueType{}, detail)
}
