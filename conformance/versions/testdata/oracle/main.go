// Command oracle answers questions about one version of Kubernetes, with the libraries that it is
// linked with: one JSON object a line on the standard input, one answer a line on the standard
// output. The test of the folder above builds it once for each version. It is compiled with
// libraries of nine versions, so that what differs between their Go interfaces is called by reflection.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"unsafe"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/parser"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	_ "k8s.io/apiextensions-apiserver/pkg/features"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// question is one line of the input. One of its fields is set.
type question struct {
	Definition  json.RawMessage // a CustomResourceDefinition to create
	Expression  string          // an expression without variables, to compile and estimate
	Functions   bool            // the functions for new expressions
	Gates       bool            // the feature gates with their defaults
	Expressions []policyExpression
}

// policyExpression is an expression of a policy. Expressions with a Name are variables of those that
// follow.
type policyExpression struct {
	Name, Expression  string
	Params, Authorize bool   // whether params and authorizer are declared
	Patch             bool   // whether the types of patches are declared
	Want              string // bool, string, any, or a type of patches
}

// answer is one line of the output.
type answer struct {
	Errors     []string            `json:",omitempty"` // of the server's validation, or of the compiler
	Unknown    []string            `json:",omitempty"` // what a strict reader says
	Dropped    []string            `json:",omitempty"` // the fields that the server removes
	Cost       uint64              `json:",omitempty"` // the upper estimate of an expression
	Version    string              `json:",omitempty"`
	Compatible string              `json:",omitempty"`
	Functions  map[string][]string `json:",omitempty"` // by name, the overloads
	Macros     []string            `json:",omitempty"`
	Gates      map[string]string   `json:",omitempty"` // true or false, with the stage
}

func main() {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	o := &oracle{scheme: scheme, codecs: serializer.NewCodecFactory(scheme, serializer.EnableStrict), envs: envSet()}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	read, write := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var q question
		if err := read.Decode(&q); err != nil {
			return
		}
		if err := write.Encode(o.answer(&q)); err != nil {
			return
		}
		out.Flush()
	}
}

type oracle struct {
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	envs   *environment.EnvSet
}

// answer answers one question. A panic of a library is an error.
func (o *oracle) answer(q *question) (a *answer) {
	defer func() {
		if p := recover(); p != nil {
			a = &answer{Errors: []string{fmt.Sprint("panic: ", p)}}
		}
	}()
	switch {
	case q.Definition != nil:
		return o.definition(q.Definition)
	case q.Expression != "":
		return o.expression(q.Expression)
	case q.Functions:
		return o.functions()
	case q.Gates:
		return gates()
	}
	return o.policy(q.Expressions)
}

// envSet returns the environments that the server of this version makes: strictly priced where
// there is a choice.
func envSet() *environment.EnvSet {
	f := reflect.ValueOf(environment.MustBaseEnvSet)
	in := []reflect.Value{reflect.ValueOf(environment.DefaultCompatibilityVersion())}
	if f.Type().NumIn() == 2 {
		in = append(in, reflect.ValueOf(true))
	}
	return f.Call(in)[0].Interface().(*environment.EnvSet)
}

// definition validates a definition as a new one.
func (o *oracle) definition(text []byte) *answer {
	a := new(answer)
	obj, _, err := o.codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		strict, ok := runtime.AsStrictDecodingError(err)
		if !ok {
			a.Errors = append(a.Errors, err.Error())
			return a
		}
		for _, e := range strict.Errors() {
			a.Unknown = append(a.Unknown, e.Error())
		}
		if obj == nil {
			lax := serializer.NewCodecFactory(o.scheme)
			if obj, _, err = lax.UniversalDecoder().Decode(text, nil, nil); err != nil {
				a.Errors = append(a.Errors, err.Error())
				return a
			}
		}
	}
	def := &apiextensions.CustomResourceDefinition{}
	if err := o.scheme.Convert(obj, def, nil); err != nil {
		a.Errors = append(a.Errors, err.Error())
		return a
	}
	before := o.external(def)
	drop(def)
	missing(before["spec"], o.external(def)["spec"], "spec", &a.Dropped)
	sort.Strings(a.Dropped)
	def.Status.StoredVersions = nil
	for _, v := range def.Spec.Versions {
		if v.Storage {
			def.Status.StoredVersions = append(def.Status.StoredVersions, v.Name)
			break
		}
	}
	for _, e := range validation.ValidateCustomResourceDefinition(context.Background(), def) {
		a.Errors = append(a.Errors, e.Error())
	}
	return a
}

// drop removes the fields of a new definition whose feature gates are off, as the registry of
// definitions does, which is not linked: it would bring all of the server with it.
func drop(def *apiextensions.CustomResourceDefinition) {
	if !enabled("CRDValidationRatcheting") {
		for i := range def.Spec.Versions {
			if s := def.Spec.Versions[i].Schema; s != nil {
				validation.SchemaHas(s.OpenAPIV3Schema, withoutOldSelf)
			}
		}
		if def.Spec.Validation != nil {
			validation.SchemaHas(def.Spec.Validation.OpenAPIV3Schema, withoutOldSelf)
		}
	}
	if !enabled("CustomResourceFieldSelectors") {
		clearField(&def.Spec, "SelectableFields")
		for i := range def.Spec.Versions {
			clearField(&def.Spec.Versions[i], "SelectableFields")
		}
	}
}

// enabled returns the default of a feature gate. A gate that was removed is on; one that is not
// known yet is off, and its field does not exist.
func enabled(gate string) bool {
	if _, ok := utilfeature.DefaultMutableFeatureGate.GetAll()[featuregate.Feature(gate)]; !ok {
		return true
	}
	return utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(gate))
}

// withoutOldSelf removes optionalOldSelf from the rules of a schema.
func withoutOldSelf(s *apiextensions.JSONSchemaProps) bool {
	for i := range s.XValidations {
		s.XValidations[i].OptionalOldSelf = nil
	}
	return false
}

// clearField sets a field of a struct to its zero value, if there is one of the name.
func clearField(p any, name string) {
	if f := reflect.ValueOf(p).Elem().FieldByName(name); f.IsValid() {
		f.SetZero()
	}
}

// external returns a definition as JSON data of v1.
func (o *oracle) external(def *apiextensions.CustomResourceDefinition) map[string]any {
	v1 := new(apiextensionsv1.CustomResourceDefinition)
	if err := o.scheme.Convert(def.DeepCopy(), v1, nil); err != nil {
		panic(err)
	}
	text, err := json.Marshal(v1)
	if err != nil {
		panic(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

// missing adds the paths that before has and after lacks.
func missing(before, after any, path string, out *[]string) {
	switch b := before.(type) {
	case map[string]any:
		a, _ := after.(map[string]any)
		for k, v := range b {
			if w, ok := a[k]; ok {
				missing(v, w, path+"."+k, out)
			} else {
				*out = append(*out, path+"."+k)
			}
		}
	case []any:
		a, _ := after.([]any)
		for i, v := range b {
			if i < len(a) {
				missing(v, a[i], fmt.Sprintf("%s[%d]", path, i), out)
			} else {
				*out = append(*out, fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
}

// expression compiles an expression in the environment for new ones, and estimates it.
func (o *oracle) expression(text string) *answer {
	env := o.envs.NewExpressionsEnv()
	checked, issues := env.Compile(text)
	if issues.Err() != nil {
		return &answer{Errors: []string{issues.Err().Error()}}
	}
	if _, err := env.Program(checked); err != nil {
		return &answer{Errors: []string{"program: " + err.Error()}}
	}
	cost, err := env.EstimateCost(checked, &library.CostEstimator{})
	if err != nil {
		return &answer{Errors: []string{"estimate: " + err.Error()}}
	}
	return &answer{Cost: cost.Max}
}

// functions returns the functions and macros for new expressions.
func (o *oracle) functions() *answer {
	env := o.envs.NewExpressionsEnv()
	a := &answer{Functions: map[string][]string{}, Compatible: environment.DefaultCompatibilityVersion().String()}
	for name, fn := range private[map[string]*decls.FunctionDecl](env, "functions") {
		list := []string{}
		for _, o := range fn.OverloadDecls() {
			list = append(list, signature(name, o))
		}
		sort.Strings(list)
		a.Functions[name] = list
	}
	for _, m := range private[[]parser.Macro](env, "macros") {
		a.Macros = append(a.Macros, m.MacroKey())
	}
	sort.Strings(a.Macros)
	return a
}

// signature returns an overload as "id: T.name(U) V" for a member, otherwise "id: name(T, U) V".
func signature(name string, o *decls.OverloadDecl) string {
	args := []string{}
	for _, t := range o.ArgTypes() {
		args = append(args, t.String())
	}
	if o.IsMemberFunction() && len(args) > 0 {
		name, args = args[0]+"."+name, args[1:]
	}
	return fmt.Sprintf("%s: %s(%s) %s", o.ID(), name, strings.Join(args, ", "), o.ResultType())
}

// private returns a field of cel-go's environment. Only later versions of cel-go have a method for it.
func private[T any](env *cel.Env, name string) T {
	f := reflect.ValueOf(env).Elem().FieldByName(name)
	return *(*T)(unsafe.Pointer(f.UnsafeAddr()))
}

// gates returns the defaults of the feature gates of the two libraries.
func gates() *answer {
	a := &answer{Gates: map[string]string{}}
	mutable := utilfeature.DefaultMutableFeatureGate
	for name, spec := range mutable.GetAll() {
		stage := string(spec.PreRelease)
		if stage == "" {
			stage = "GA"
		}
		a.Gates[string(name)] = fmt.Sprintf("%v %s", mutable.Enabled(featuregate.Feature(name)), stage)
	}
	return a
}

// policy compiles the expressions of a policy as the validation of a new policy does.
func (o *oracle) policy(list []policyExpression) *answer {
	a := new(answer)
	compiler, err := plugincel.NewCompositedCompiler(o.envs)
	if err != nil {
		return &answer{Errors: []string{err.Error()}}
	}
	for i, e := range list {
		options := plugincel.OptionalVariableDeclarations{HasParams: e.Params, HasAuthorizer: e.Authorize}
		fields := reflect.ValueOf(&options).Elem()
		for name, value := range map[string]bool{"StrictCost": true, "HasPatchTypes": e.Patch} {
			if f := fields.FieldByName(name); f.IsValid() {
				f.SetBool(value)
			}
		}
		var result plugincel.CompilationResult
		if e.Name != "" {
			result = compiler.CompileAndStoreVariable(accessor(e), options, environment.NewExpressions)
		} else {
			result = compiler.CompileCELExpression(accessor(e), options, environment.NewExpressions)
		}
		if result.Error != nil {
			a.Errors = append(a.Errors, fmt.Sprintf("%d: %s", i, strings.TrimSpace(result.Error.Detail)))
		}
	}
	return a
}

// accessor gives upstream's compiler an expression.
type accessor policyExpression

func (a accessor) GetName() string       { return a.Name }
func (a accessor) GetExpression() string { return a.Expression }
func (a accessor) ReturnTypes() []*cel.Type {
	switch a.Want {
	case "bool":
		return []*cel.Type{cel.BoolType}
	case "string":
		return []*cel.Type{cel.StringType}
	case "any", "":
		return []*cel.Type{cel.AnyType, cel.DynType}
	}
	return []*cel.Type{cel.ObjectType(a.Want)}
}
