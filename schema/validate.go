package schema

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
)

// This file is Validate: the order of the checks, and the choice between the
// fast path and the slow one.

// Validate validates new; old is what it replaces, nil on create. Both must
// come from Decode of this program or have no shapes at all. Validate looks
// neither at the root's apiVersion, kind and metadata (apart from what the
// schema says about them) nor at the scale subresource.
func (p *Program) Validate(ctx context.Context, new, old *jsondoc.Doc, at Scope) Result {
	return p.ValidateAmong(ctx, new, old, at, Kept{}, nil, nil)
}

// ValidateAmong is Validate for an update of which kept is known, and for an
// object in which other checks have found errors: those of metadata come first
// in the Result, those of the scale subresource after the errors of values. They
// count when it is decided whether rules can be evaluated.
func (p *Program) ValidateAmong(ctx context.Context, new, old *jsondoc.Doc, at Scope, kept Kept, metadata, scale field.ErrorList) Result {
	code, err := p.load()
	if err != nil {
		return Result{Errors: field.ErrorList{field.InternalError(nil, err)}}
	}
	return code.validate(ctx, new, old, at, kept, metadata, scale)
}

func (p *program) validate(ctx context.Context, new, old *jsondoc.Doc, at Scope, kept Kept, metadata, scale field.ErrorList) Result {
	if d, was := p.adopt(new), p.adopt(old); d != new || was != old || was == nil {
		new, old, kept = d, was, Kept{}
	}
	if p.hasRules {
		p.compileRules()
	}
	if len(metadata) == 0 && len(scale) == 0 {
		w := newWork(ctx, maxSteps)
		w.odd = !p.hasRules
		if r, ok := p.ok(&w, new, old, at, kept); ok {
			return r
		}
		if err := w.err(nil); err != nil { // the slow path would end there, too, and later
			return Result{Errors: field.ErrorList{err}}
		}
	}
	return p.explain(ctx, new, old, at, metadata, scale)
}

// DefaultBudget is what the rules of all default values of a schema may cost
// together.
const DefaultBudget = objectBudget

// ValidateDefault validates d, which holds the default value at path that p is
// the schema of, but for rules. Embedded resources are looked at first, and
// values if they are all right. What that takes below junctors is taken from
// steps; it is negative afterwards if they did not suffice.
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

// ValidateDefaultRules asks the rules of p about d, a default value that
// ValidateDefault has nothing to say about: as one that does not change, and if
// that is fine as a new one. What they cost is taken from budget; it is negative
// afterwards if it did not suffice, and no other default is to be looked at.
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

// ok is the fast path. Ratcheting only forgives, so it may leave it out.
func (p *program) ok(w *work, new, old *jsondoc.Doc, at Scope, kept Kept) (r Result, ok bool) {
	switch {
	case kept.all():
		r.KnownValid = true
	case at == Status:
		if !p.statusOK(w, new) {
			return Result{}, false
		}
		if p.hasRules { // if they hold of a whole that is valid, updates need not ask them again
			whole := newWork(w.ctx, maxSteps)
			r.KnownValid = p.wholeOK(&whole, new)
			w.odd = whole.odd
		}
	default:
		if r.KnownValid = p.wholeOK(w, new); !r.KnownValid {
			return Result{}, false
		}
	}
	if p.hasRules {
		r.Spent, ok = p.rulesOK(w.ctx, new, old, r.KnownValid, kept)
		r.KnownValid = r.KnownValid && !w.odd
		return r, ok
	}
	return r, true
}

// wholeOK reports whether all values are valid.
func (p *program) wholeOK(w *work, d *jsondoc.Doc) bool {
	return p.root.ok(d, w, d.Root().Node) && (!p.root.deepEmbedded || len(p.root.embeddedErrors(nil, d.Root())) == 0)
}

// statusOK reports whether the values of the status are valid, and all lists.
func (p *program) statusOK(w *work, d *jsondoc.Doc) bool {
	if status := p.root.prop("status"); status != nil {
		x := d.Root().Get("status").Node
		if x.Kind() != jsondoc.Absent && !status.ok(d, w, x) {
			return false
		}
	}
	return p.root.listsOK(d, d.Root().Node)
}

// ValidateMistyped is Validate for an object that says it is of another kind, which others have said in wrong: values are not looked at.
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

// explain is the slow path.
func (p *program) explain(ctx context.Context, new, old *jsondoc.Doc, at Scope, metadata, scale field.ErrorList) Result {
	var took time.Duration
	c := p.correlate(new, old, &took)
	errs := metadata[:len(metadata):len(metadata)]
	if at == Status {
		errs = append(errs, p.statusErrors(ctx, new, c)...)
	} else {
		errs = append(errs, listed(ctx, nil, p.root, new.Root(), c)...)
	}
	r := p.explainBeyondValues(ctx, new, old, at, c, append(errs, scale...))
	r.Compared = took
	return r
}

// correlate begins to compare two objects, if there are two.
func (p *program) correlate(new, old *jsondoc.Doc, took *time.Duration) *correlation {
	if old == nil {
		return nil
	}
	return &correlation{n: p.root, new: new.Root(), old: old.Root(), took: took}
}

// explainBeyondValues adds to errs what is wrong with embedded resources and with lists, and what rules say.
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

// statusErrors validates the status alone. Its paths start at status, its texts
// below it.
func (p *program) statusErrors(ctx context.Context, new *jsondoc.Doc, c *correlation) field.ErrorList {
	status := p.root.prop("status")
	x := new.Root().Get("status")
	if status == nil || !x.Exists() {
		return nil
	}
	return listed(ctx, field.NewPath("status"), status, x, c.key("status"))
}

// listed lists what is wrong with x by n. If that is too much, or takes too long,
// it says so at the end.
func listed(ctx context.Context, path *field.Path, n *node, x jsondoc.Value, c *correlation) field.ErrorList {
	e := explainer{work: newWork(ctx, maxSteps)}
	return e.list(path, n, x, c)
}

func (e *explainer) list(path *field.Path, n *node, x jsondoc.Value, c *correlation) field.ErrorList {
	errs := fieldErrors(path, e.value(n, x, nil, c).errs)
	if err := e.err(path); err != nil {
		errs = append(errs, err)
	} else if e.enough() {
		errs = append(errs, tooMany(path))
	}
	return errs
}

func tooMany(path *field.Path) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, "there are more errors than are listed")
}

// blocksRules reports whether errors are such that rules might fail in
// confusing ways.
func blocksRules(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

// adopt returns d, or a copy in the shapes of p if d has other ones.
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
