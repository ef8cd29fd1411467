package schema

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file implements Validate: the order of the checks, and the choice between the fast path and
// the plain one.

// Validate validates new. old is the object that it replaces, nil on create. Both must come from
// Decode of this program, or have no shapes. Validate does not check the root's apiVersion, kind
// and metadata, except by the schema, and not the scale subresource.
func (p *Program) Validate(ctx context.Context, new, old *jsondoc.Doc, at Scope) Result {
	return p.ValidateAmong(ctx, new, old, at, Kept{}, nil, nil)
}

// ValidateAmong is Validate for an update that kept describes, and for an object in which other
// checks found errors. Errors of metadata come first in the Result, those of the scale subresource
// after the errors of values. They count for the decision whether rules can be evaluated.
func (p *Program) ValidateAmong(ctx context.Context, new, old *jsondoc.Doc, at Scope, kept Kept, metadata, scale field.ErrorList) Result {
	code, err := p.load()
	if err != nil {
		return Result{Errors: field.ErrorList{field.InternalError(nil, err)}}
	}
	return code.validate(ctx, new, old, at, kept, metadata, scale)
}

// validate is ValidateAmong for a compiled schema.
func (p *program) validate(ctx context.Context, new, old *jsondoc.Doc, at Scope, kept Kept, metadata, scale field.ErrorList) Result {
	// Documents of another program are copied; what is known of them does not hold.
	if d, was := p.adopt(new), p.adopt(old); d != new || was != old || was == nil {
		new, old, kept = d, was, Kept{}
	}
	if p.hasRules {
		p.compileRules()
	}
	if len(metadata) == 0 && len(scale) == 0 {
		w := newWork(ctx, maxSteps)
		w.formatsUnverified = !p.hasRules
		if r, ok := p.ok(&w, new, old, at, kept); ok {
			return r
		}
		if err := w.err(nil); err != nil { // the plain path would end there, too, only later
			return Result{Errors: field.ErrorList{err}}
		}
	}
	return p.explain(ctx, new, old, at, metadata, scale)
}

// DefaultBudget is the cost limit for the rules of all default values of a schema together.
const DefaultBudget = objectBudget

// ValidateDefault validates d, except by rules. d has the default value at path, whose schema p is.
// If embedded resources have errors, values are not checked. It subtracts the steps below junctors
// from steps, which is negative afterwards if they did not suffice.
func (p *Program) ValidateDefault(d *jsondoc.Doc, path *field.Path, steps *int64) field.ErrorList {
	code, err := p.load()
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	d = code.adopt(d)
	if errs := code.root.embeddedErrors(path, d.Root()); len(errs) > 0 {
		return errs
	}
	e := explainer{work: newWork(context.Background(), *steps)}
	errs := e.list(path, code.root, d.Root(), nil)
	*steps = e.left
	return errs
}

// ValidateDefaultRules evaluates the rules of p for d, a default value for which ValidateDefault
// returned no error: first as an unchanged value, then as a new one. It subtracts the cost from
// budget, which is negative afterwards if it did not suffice; then no other default is to be
// checked.
func (p *Program) ValidateDefaultRules(ctx context.Context, d *jsondoc.Doc, path *field.Path, budget *int64) field.ErrorList {
	code, err := p.load()
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	d = code.adopt(d)
	code.compileRules()
	left := *budget
	for _, old := range []jsondoc.Value{d.Root(), {}} {
		s := slowRules{ctx: ctx, budget: *budget}
		s.node(code.root, path, d.Root(), old, ratchet{})
		if left = min(left, s.left()); len(s.Errors) > 0 {
			*budget = left
			return s.Errors
		}
	}
	*budget = left
	return nil
}

// ok is the fast path. It ignores ratcheting, which can only remove errors.
func (p *program) ok(w *work, new, old *jsondoc.Doc, at Scope, kept Kept) (r Result, ok bool) {
	switch {
	case kept.all():
		r.KnownValid = true
	case at == Status:
		if !p.statusOK(w, new) {
			return Result{}, false
		}
		if p.hasRules { // if the whole object is valid, later updates need not evaluate its rules again
			whole := newWork(w.ctx, maxSteps)
			r.KnownValid = p.wholeOK(&whole, new)
			w.formatsUnverified = whole.formatsUnverified
		}
	default:
		if r.KnownValid = p.wholeOK(w, new); !r.KnownValid {
			return Result{}, false
		}
	}
	if p.hasRules {
		r.Spent, ok = p.rulesOK(w.ctx, new, old, r.KnownValid, kept)
		r.KnownValid = r.KnownValid && !w.formatsUnverified
		return r, ok
	}
	return r, true
}

// wholeOK reports whether all values are valid.
func (p *program) wholeOK(w *work, d *jsondoc.Doc) bool {
	return p.root.ok(d, w, d.Root().Node) && (!p.root.deepEmbedded || len(p.root.embeddedErrors(nil, d.Root())) == 0)
}

// statusOK reports whether the values of the status, and all lists of the object, are valid.
func (p *program) statusOK(w *work, d *jsondoc.Doc) bool {
	if status := p.root.prop("status"); status != nil {
		x := d.Root().Get("status").Node
		if x.Kind() != jsondoc.Absent && !status.ok(d, w, x) {
			return false
		}
	}
	return p.root.listsOK(d, d.Root().Node)
}

// ValidateMistyped is Validate for an object of a wrong kind. wrong has the errors that say so.
// Values are not checked.
func (p *Program) ValidateMistyped(ctx context.Context, new, old *jsondoc.Doc, at Scope, wrong field.ErrorList) Result {
	code, err := p.load()
	if err != nil {
		return Result{Errors: field.ErrorList{field.InternalError(nil, err)}}
	}
	new, old = code.adopt(new), code.adopt(old)
	if code.hasRules {
		code.compileRules()
	}
	var took time.Duration
	r := code.explainBeyondValues(ctx, new, old, at, code.correlate(new, old, &took), wrong[:len(wrong):len(wrong)])
	r.Compared = took
	return r
}

// explain is the plain path.
func (p *program) explain(ctx context.Context, new, old *jsondoc.Doc, at Scope, metadata, scale field.ErrorList) Result {
	var took time.Duration
	c := p.correlate(new, old, &took)
	errs := metadata[:len(metadata):len(metadata)]
	if at == Status {
		errs = append(errs, p.statusErrors(ctx, new, c)...)
	} else {
		errs = append(errs, valueErrors(ctx, nil, p.root, new.Root(), c)...)
	}
	r := p.explainBeyondValues(ctx, new, old, at, c, append(errs, scale...))
	r.Compared = took
	return r
}

// correlate returns the correlation of two objects, nil if old is nil.
func (p *program) correlate(new, old *jsondoc.Doc, took *time.Duration) *correlation {
	if p.options.NoRatcheting {
		return nil
	}
	if old == nil {
		return nil
	}
	return &correlation{n: p.root, new: new.Root(), old: old.Root(), took: took}
}

// explainBeyondValues appends to errs the errors of embedded resources, lists and rules.
func (p *program) explainBeyondValues(ctx context.Context, new, old *jsondoc.Doc, at Scope, c *correlation, errs field.ErrorList) Result {
	if at != Status {
		errs = append(errs, p.root.embeddedErrors(nil, new.Root())...)
	}
	if old == nil || len(p.root.duplicates(nil, old.Root())) == 0 {
		errs = append(errs, p.root.duplicates(nil, new.Root())...)
	}
	if !p.hasRules {
		return Result{Errors: errs}
	}
	if blocksRules(errs) {
		return Result{Errors: append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))}
	}
	r := p.ruleErrors(ctx, new, old, c)
	r.Errors = append(errs, r.Errors...)
	return r
}

// statusErrors validates only the status. Its field paths start at status; the paths in texts are
// relative to it, as upstream.
func (p *program) statusErrors(ctx context.Context, new *jsondoc.Doc, c *correlation) field.ErrorList {
	status := p.root.prop("status")
	x := new.Root().Get("status")
	if status == nil || !x.Exists() {
		return nil
	}
	return valueErrors(ctx, field.NewPath("status"), status, x, c.key("status"))
}

// valueErrors returns the errors of x by n. If there are too many, or the work is used up, the last
// error says so.
func valueErrors(ctx context.Context, path *field.Path, n *node, x jsondoc.Value, c *correlation) field.ErrorList {
	e := explainer{work: newWork(ctx, maxSteps)}
	return e.list(path, n, x, c)
}

// list is valueErrors with the explainer e.
func (e *explainer) list(path *field.Path, n *node, x jsondoc.Value, c *correlation) field.ErrorList {
	errs := fieldErrors(path, e.value(n, x, nil, c).errs)
	if err := e.err(path); err != nil {
		errs = append(errs, err)
	} else if e.enough() {
		errs = append(errs, tooMany(path))
	}
	return errs
}

// tooMany returns the last error of a list that was cut off.
func tooMany(path *field.Path) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, "there are more errors than are listed")
}

// blocksRules reports whether errors prevent the evaluation of rules, which would fail in confusing
// ways. The types are upstream's.
func blocksRules(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

// adopt returns d, or a copy in the shapes of p if d has others. d may be nil.
func (p *program) adopt(d *jsondoc.Doc) *jsondoc.Doc {
	if d == nil {
		return nil
	}
	shapes := d.Shapes()
	if len(shapes) == 0 || &shapes[0] == &p.shapes[0] {
		return d
	}
	own := new(jsondoc.Doc)
	own.Reset(p.shapes)
	own.SetRoot(own.ImportAs(d.Root(), p.root.shape))
	return own
}
