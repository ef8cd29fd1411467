package cel

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/keelson-io/keelson/cel/internal/check"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file defines Language, the language for programs other than a Kubernetes server, with their
// own variables and functions and a choice of libraries, functions and macros.

// LanguageOptions configures a Language. The zero value is the language with all libraries that are
// not Kubernetes' own, without variables.
type LanguageOptions struct {
	// Libraries are the libraries besides the standard one. Nil means [GeneralLibraries].
	Libraries []Library
	// Kubernetes is a version such as "1.37". It selects the libraries, checks and semantics of
	// that version's rules, and excludes Libraries.
	Kubernetes string
	// Subset restricts the functions and macros. Nil means no restriction.
	Subset *Subset

	Variables []Variable
	Objects   []ObjectType // to which types of variables refer
	Functions []Function
	Container string // the namespace in which names are looked up, such as "acme.policy"
	// Patches permits literals of the types Object, Object.spec and so on and JSONPatch, and the
	// function jsonpatch.escapeKey(), as in mutating policies.
	Patches bool
	// LenientPresence: has(x.f) is false, as in Kubernetes, if x cannot have members. Otherwise it
	// is an error.
	LenientPresence bool
}

// Variable is an input of expressions.
type Variable struct {
	Name string
	// Type is a type: bool, int, uint, double, string, bytes, timestamp, duration, null_type, dyn,
	// list(T), map(K, V), optional_type(T), wrapper(T), type(T), or the name of an [ObjectType] or
	// of a library's type, such as net.IP. Any other name is an opaque type, whose values only the
	// caller's own functions can use. "" means dyn.
	Type string
	// Schema, instead of Type, is the type of a document's members. The variable must then be set
	// with [FromDoc].
	Schema *Type
}

// ObjectType is a type of objects whose members are checked. Its values are maps, in which declared
// members may be missing.
type ObjectType struct {
	Name   string            // such as "acme.Order"; types of variables and members refer to it
	Fields map[string]string // types of the members, as in Variable
}

// Function is a function that the caller defines.
type Function struct {
	Name   string
	Member bool     // whether it is called as x.f() instead of f(x)
	Params []string // types as in Variable; the receiver of a member comes first
	Result string
	// Call computes the function. Its error is an error of the language, which || and && may
	// absorb. If Call is nil, expressions with the function can only be checked.
	Call func(args []Value) (Value, error)
}

// Language is an environment for expressions. It is immutable and safe for concurrent use. Making
// one takes milliseconds.
type Language struct {
	words    check.Vocabulary
	provider *check.Provider
	check    *checker.Env
	objects  map[string]map[string]*types.Type // members of declared objects
	allowed  *check.Selection                  // nil if there is no Subset
}

// NewLanguage returns the language for o.
func NewLanguage(o LanguageOptions) (*Language, error) {
	options, err := check.LanguageOptions(o.Kubernetes, o.Libraries)
	if err != nil {
		return nil, err
	}
	for _, f := range o.Functions {
		opt, err := f.option()
		if err != nil {
			return nil, err
		}
		options = append(options, opt)
	}
	options = append(options, cel.EnableMacroCallTracking())
	if o.Patches {
		options = append(options, val.PatchLibrary()...)
	}
	if o.Container != "" {
		options = append(options, cel.Container(o.Container))
	}
	base, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("language: %w", err)
	}
	l := &Language{words: check.Vocabulary{Strict: !o.LenientPresence && o.Kubernetes == "", Kubernetes: o.Kubernetes != "", Patches: o.Patches}}
	functions := base.Functions()
	if o.Subset != nil {
		if l.allowed, err = o.Subset.Selection(base); err != nil {
			return nil, err
		}
		if base, err = base.Extend(cel.ClearMacros(), cel.Macros(l.allowed.Macros...)); err != nil {
			return nil, fmt.Errorf("language: %w", err)
		}
		functions = l.allowed.Declarations(functions)
	}
	if l.words.Env, err = check.Declare(base, functions, true); err != nil {
		return nil, err
	}
	return l, l.declare(o.Variables, o.Objects, l.words.Env.Check)
}

// Extend returns the language with more variables and objects. It replaces objects with the same
// name. It takes microseconds.
func (l *Language) Extend(variables []Variable, objects []ObjectType) (*Language, error) {
	out := *l
	return &out, out.declare(variables, objects, l.check)
}

// declare adds variables and objects to those of before and of l.
func (l *Language) declare(vars []Variable, objects []ObjectType, before *checker.Env) error {
	l.words.Schemas, l.words.Known, l.objects = cloned(l.words.Schemas), cloned(l.words.Known), cloned(l.objects)
	if err := l.declareObjects(objects); err != nil {
		return err
	}
	earlier := l.provider
	l.provider = check.NewProvider(l.words.Env)
	l.provider.Inherit(earlier)
	l.provider.Named, l.provider.Patches = l.objects, l.words.Patches
	var err error
	if l.check, err = check.NewChecker(l.words.Env.Base, l.provider, before); err != nil {
		return err
	}
	for _, v := range l.words.Env.Base.Variables() {
		l.words.Known[v.Name()] = true
	}
	for _, v := range vars {
		t := types.DynType
		switch {
		case v.Schema != nil && v.Type != "":
			return fmt.Errorf("variable %q: got Type and Schema, want one of them", v.Name)
		case v.Schema != nil:
			t = l.provider.NamedType(v.Schema, v.Name+"Type")
			l.words.Schemas[v.Name] = v.Schema
		case v.Type != "":
			if t, err = check.ParseType(v.Type); err != nil {
				return fmt.Errorf("variable %q: %w", v.Name, err)
			}
		}
		if err := l.check.AddIdents(check.NewVariable(v.Name, t)); err != nil {
			return fmt.Errorf("variable %q: %w", v.Name, err)
		}
		l.words.Known[v.Name] = true
	}
	return nil
}

// declareObjects parses the types of members.
func (l *Language) declareObjects(objects []ObjectType) error {
	for _, o := range objects {
		fields := map[string]*types.Type{}
		for _, name := range slices.Sorted(maps.Keys(o.Fields)) {
			t, err := check.ParseType(o.Fields[name])
			if err != nil {
				return fmt.Errorf("object %q: member %q: %w", o.Name, name, err)
			}
			fields[name] = t
		}
		l.objects[o.Name] = fields
	}
	return nil
}

// cloned returns a copy of m, which is not nil.
func cloned[V any](m map[string]V) map[string]V {
	out := map[string]V{}
	maps.Copy(out, m)
	return out
}

// option returns the declaration of the function for cel-go.
func (f Function) option() (cel.EnvOption, error) {
	var params []*types.Type
	for _, p := range f.Params {
		t, err := check.ParseType(p)
		if err != nil {
			return nil, fmt.Errorf("function %q: %w", f.Name, err)
		}
		params = append(params, t)
	}
	result, err := check.ParseType(f.Result)
	if err != nil {
		return nil, fmt.Errorf("function %q: %w", f.Name, err)
	}
	id := fmt.Sprintf("%s%v", f.Name, params)
	declare := cel.Overload
	if f.Member {
		if len(params) == 0 {
			return nil, fmt.Errorf("function %q: a member has no receiver among its parameters", f.Name)
		}
		id, declare = "member_"+id, cel.MemberOverload
	}
	call := f.Call
	if call == nil {
		call = func([]Value) (Value, error) { return Value{}, fmt.Errorf("function %q: it is declared only", f.Name) }
	}
	return cel.Function(f.Name, declare(id, params, result, cel.FunctionBinding(func(args ...ref.Val) ref.Val {
		values := make([]Value, len(args))
		for i, arg := range args {
			values[i] = val.FromRef(arg)
		}
		v, err := call(values)
		if err != nil {
			return types.WrapErr(err)
		}
		return v.Ref()
	}))), nil
}

// CompileExpression parses, checks and compiles an expression. The text of an error shows the
// position.
func (l *Language) CompileExpression(expr string) (*Expression, error) {
	return l.compile(expr, false)
}

// CompileUnchecked compiles an expression without checking types: a wrong type is an error of the
// evaluation.
func (l *Language) CompileUnchecked(expr string) (*Expression, error) {
	return l.compile(expr, true)
}

// InstantiationError is the error of an expression that is well typed and cannot be run, for
// example because of a constant that cannot be converted. It has the text of its cause.
type InstantiationError struct{ Err error }

func (e *InstantiationError) Error() string { return e.Err.Error() }
func (e *InstantiationError) Unwrap() error { return e.Err }

// CheckExpression parses and checks an expression. The result has a type, but cannot be evaluated.
func (l *Language) CheckExpression(expr string) (*Expression, error) {
	x, _, err := l.checked(expr, false)
	return x, err
}

// checked returns an expression that is not compiled yet, and cel-go's form of it.
func (l *Language) checked(expr string, unchecked bool) (*Expression, *cel.Ast, error) {
	parsed, issues := l.words.Env.Base.Parse(expr)
	if issues.Err() != nil {
		return nil, nil, errors.New(issues.String())
	}
	tree := parsed.NativeRep()
	x := &Expression{lang: l, source: expr, unchecked: unchecked}
	if unchecked {
		x.tree = l.words.ResolveNames(tree)
	} else {
		checked, err := l.words.Env.CheckTree(parsed, l.check)
		if err != nil {
			return nil, nil, err
		}
		x.tree = checked
	}
	if l.allowed != nil {
		if err := l.allowed.Verify(expr, x.tree); err != nil {
			return nil, nil, err
		}
	}
	return x, parsed, nil
}

// compile parses, checks unless unchecked, and compiles.
func (l *Language) compile(expr string, unchecked bool) (*Expression, error) {
	x, parsed, err := l.checked(expr, unchecked)
	if err != nil {
		return nil, err
	}
	if err := x.build(); err != nil {
		return nil, &InstantiationError{err}
	}
	if !unchecked {
		*parsed.NativeRep() = *x.tree
		cost, err := l.words.Env.Base.EstimateCost(parsed, &check.Estimator{Vars: l.words.Schemas})
		if err != nil {
			return nil, fmt.Errorf("cost estimation failed: %w", err)
		}
		x.maxCost = cost.Max
	}
	return x, nil
}

// Functions returns the sorted functions and operators that expressions may use, with the names
// that [Subset] uses.
func (l *Language) Functions() []string {
	return l.functions(func(*decls.OverloadDecl) bool { return true })
}

// Members returns the sorted functions that are called on a value, as in x.size().
func (l *Language) Members() []string { return l.functions((*decls.OverloadDecl).IsMemberFunction) }

// functions returns the functions with an overload for which like returns true.
func (l *Language) functions(like func(*decls.OverloadDecl) bool) []string {
	symbols := map[string]string{}
	for symbol, names := range check.OperatorNames {
		for _, name := range names {
			symbols[name] = symbol
		}
	}
	var names []string
	for name, fn := range l.words.Env.Base.Functions() {
		if fn.IsDeclarationDisabled() || check.IsInternal(name) || l.allowed != nil && !l.allowed.Offers(name) || !slices.ContainsFunc(fn.OverloadDecls(), like) {
			continue
		}
		if symbol, ok := symbols[name]; ok {
			name = symbol
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Overloads returns the function of a name of [Language.Functions] that is not an operator: once for
// each combination of types, in the form of [LanguageOptions], without Call.
func (l *Language) Overloads(name string) []Function {
	fn := l.words.Env.Base.Functions()[name]
	if fn == nil || !slices.Contains(l.Functions(), name) {
		return nil
	}
	var out []Function
	for _, o := range fn.OverloadDecls() {
		f := Function{Name: name, Member: o.IsMemberFunction(), Result: o.ResultType().String()}
		for _, p := range o.ArgTypes() {
			f.Params = append(f.Params, p.String())
		}
		out = append(out, f)
	}
	return out
}

// Macros returns the sorted names of the macros.
func (l *Language) Macros() []string {
	var names []string
	for _, m := range l.words.Env.Base.Macros() {
		names = append(names, m.Function())
	}
	slices.Sort(names)
	return slices.Compact(names)
}
