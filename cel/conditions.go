package cel

import (
	"maps"
	"slices"

	"github.com/google/cel-go/common/types"

	"github.com/keelson-io/keelson/cel/internal/lib"
	"github.com/keelson-io/keelson/cel/internal/val"
)

// This file declares the languages of Kubernetes' conditions, for authorization webhooks,
// authentication and admission.

// Variables of conditions. Their values are data without a schema ([FromGo], [FromJSON], [FromDoc]
// without a type), null if there is none.
const (
	RequestVariable         = "request"
	ObjectVariable          = "object"
	OldObjectVariable       = "oldObject"
	ParamsVariable          = "params"
	NamespaceVariable       = "namespaceObject"
	AuthorizerVariable      = "authorizer"                 // an AuthorizerValue
	RequestResourceVariable = "authorizer.requestResource" // a ResourceAuthorizerValue
	ComposedVariable        = "variables"                  // an object of a Composition, with LazyObject
)

const (
	stringsType = "list(string)"
	extraType   = "map(string, list(string))"
)

// texts returns the declarations of members that are strings.
func texts(names ...string) map[string]string {
	fields := map[string]string{}
	for _, name := range names {
		fields[name] = "string"
	}
	return fields
}

// and returns the union of two sets of declarations.
func and(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// AuthorizationConditions returns the language of the match conditions of authorization webhooks
// (KEP-3221). The variable request is the spec of a SubjectAccessReview. The caller always sets
// user, groups, uid and extra, and all strings of resourceAttributes if that is set.
func AuthorizationConditions() LanguageOptions {
	return LanguageOptions{
		Kubernetes: NewestKubernetes,
		Variables:  []Variable{{Name: RequestVariable, Type: "kubernetes.SubjectAccessReviewSpec"}},
		Objects: []ObjectType{
			{"kubernetes.SubjectAccessReviewSpec", and(texts("user", "uid"), map[string]string{
				"groups": stringsType, "extra": extraType,
				"resourceAttributes": "kubernetes.ResourceAttributes", "nonResourceAttributes": "kubernetes.NonResourceAttributes",
			})},
			{"kubernetes.ResourceAttributes", and(texts("namespace", "verb", "group", "version", "resource", "subresource", "name"), map[string]string{
				"fieldSelector": "kubernetes.FieldSelectorAttributes", "labelSelector": "kubernetes.LabelSelectorAttributes",
			})},
			{"kubernetes.FieldSelectorAttributes", selectorFields},
			{"kubernetes.LabelSelectorAttributes", selectorFields},
			{"kubernetes.SelectorRequirement", and(texts("key", "operator"), map[string]string{"values": stringsType})},
			{"kubernetes.NonResourceAttributes", texts("path", "verb")},
		},
	}
}

// AuthenticationClaims returns the language of expressions over the claims of a token (KEP-3331).
// The variable claims is an object ([LazyObject], with [UnescapedNames] for nested values).
func AuthenticationClaims() LanguageOptions {
	return LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "claims", Type: "map(string, any)"}}}
}

// AuthenticationUser returns the language of expressions over the user that is made from claims.
// The variable user has username, uid, groups and extra.
func AuthenticationUser() LanguageOptions {
	return LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "user", Type: userInfo.Name}}, Objects: []ObjectType{userInfo}}
}

var userInfo = ObjectType{"kubernetes.UserInfo", and(texts("username", "uid"), map[string]string{"groups": stringsType, "extra": extraType})}

var selectorFields = map[string]string{"rawSelector": "string", "requirements": "list(kubernetes.SelectorRequirement)"}

// AdmissionVariables selects the variables of admission besides object, oldObject, request and
// namespaceObject.
type AdmissionVariables struct {
	Params     bool
	Authorizer bool // and authorizer.requestResource
	Composed   bool // variables; [Language.Compose] gives it members
	Patches    bool // literals of Object and JSONPatch, for mutations
	// New restricts the language to that of the previous version, for expressions that are written
	// for the first time: a server of that version can then read them after a rollback.
	New bool
}

// AdmissionConditions returns the language of the match conditions of admission webhooks, and of
// the expressions of admission policies.
func AdmissionConditions(has AdmissionVariables) LanguageOptions {
	o := LanguageOptions{
		Kubernetes: NewestKubernetes,
		Patches:    has.Patches,
		Variables: []Variable{
			{Name: ObjectVariable}, {Name: OldObjectVariable},
			{Name: NamespaceVariable, Type: "kubernetes.Namespace"},
			{Name: RequestVariable, Type: "kubernetes.AdmissionRequest"},
		},
		Objects: append(requestTypes(), namespaceTypes()...),
	}
	if has.Params {
		o.Variables = append(o.Variables, Variable{Name: ParamsVariable})
	}
	if has.Authorizer {
		o.Variables = append(o.Variables, Variable{Name: AuthorizerVariable, Type: lib.AuthorizerType.TypeName()},
			Variable{Name: RequestResourceVariable, Type: lib.ResourceCheckType.TypeName()})
	}
	if has.Composed {
		o.Variables = append(o.Variables, Variable{Name: ComposedVariable, Type: composedType})
		o.Objects = append(o.Objects, ObjectType{Name: composedType})
	}
	if has.New {
		o.Kubernetes = PreviousKubernetes
	}
	return o
}

// AdmissionTypes returns the language in which expressions of policies are checked against the
// types of objects. The variables object, oldObject and params are not declared: declare them with
// [Language.Extend].
func AdmissionTypes() LanguageOptions {
	o := AdmissionConditions(AdmissionVariables{Authorizer: true, Composed: true})
	o.Variables = slices.DeleteFunc(o.Variables, func(v Variable) bool {
		return v.Name == ObjectVariable || v.Name == OldObjectVariable || v.Name == RequestResourceVariable
	})
	return o
}

// requestTypes returns the types of an admission request.
func requestTypes() []ObjectType {
	return []ObjectType{
		{"kubernetes.AdmissionRequest", and(texts("subResource", "requestSubResource", "name", "namespace", "operation"), map[string]string{
			"kind": "kubernetes.GroupVersionKind", "requestKind": "kubernetes.GroupVersionKind",
			"resource": "kubernetes.GroupVersionResource", "requestResource": "kubernetes.GroupVersionResource",
			"userInfo": "kubernetes.UserInfo", "dryRun": "bool", "options": "dyn",
		})},
		{"kubernetes.GroupVersionKind", texts("group", "version", "kind")},
		{"kubernetes.GroupVersionResource", texts("group", "version", "resource")},
		userInfo,
	}
}

// namespaceTypes returns the types of namespaceObject, as upstream declares them: times are
// timestamps for the checker, but strings at run time.
func namespaceTypes() []ObjectType {
	const labels, time = "map(string, string)", "timestamp"
	return []ObjectType{
		{"kubernetes.Namespace", map[string]string{
			"metadata": "kubernetes.NamespaceMetadata", "spec": "kubernetes.NamespaceSpec", "status": "kubernetes.NamespaceStatus",
		}},
		{"kubernetes.NamespaceMetadata", and(texts("name", "generateName", "namespace", "UID", "resourceVersion"), map[string]string{
			"labels": labels, "annotations": labels, "creationTimestamp": time, "deletionTimestamp": time,
			"deletionGracePeriodSeconds": "int", "generation": "int", "finalizers": stringsType,
		})},
		{"kubernetes.NamespaceSpec", map[string]string{"finalizers": stringsType}},
		{"kubernetes.NamespaceStatus", map[string]string{"conditions": "list(kubernetes.NamespaceCondition)", "phase": "string"}},
		{"kubernetes.NamespaceCondition", and(texts("status", "type", "message", "reason"), map[string]string{"lastTransitionTime": time})},
	}
}

const composedType = "kubernetes.variables"

// Composition has the members of the variable variables, for the languages that share it
// ([Language.Compose]). It must not change while an expression of one of them is compiled.
type Composition struct{ fields map[string]*types.Type }

// NewComposition returns a Composition without members.
func NewComposition() *Composition { return &Composition{map[string]*types.Type{}} }

// Add declares a member, or replaces it. x is nil for an expression that does not compile.
func (c *Composition) Add(name string, x *Expression) {
	c.fields[name] = types.DynType
	if x != nil {
		c.fields[name] = composed(x.tree.GetType(x.tree.Expr().ID()))
	}
}

// Compose returns a language in which the members of c are those of the variable variables. l must
// be a language of AdmissionVariables with Composed. The members at the time of compilation count.
func (l *Language) Compose(c *Composition) (*Language, error) {
	out, err := l.Extend(nil, nil)
	if err != nil {
		return nil, err
	}
	out.objects[composedType] = c.fields
	return out, nil
}

// composed returns the type of a composed variable as other expressions see it: lists, maps and
// scalars keep their type, other types become dyn.
func composed(t *types.Type) *types.Type {
	switch t {
	case types.AnyType, types.BoolType, types.BytesType, types.DoubleType, types.DurationType, types.IntType,
		types.NullType, types.StringType, types.TimestampType, types.UintType:
		return t
	}
	switch params := t.Parameters(); t.Kind() {
	case types.ListKind:
		return types.NewListType(composed(params[0]))
	case types.MapKind:
		return types.NewMapType(composed(params[0]), composed(params[1]))
	}
	return types.DynType
}

// LazyObject returns an object whose members are computed when an expression first reads them, at
// most once each. An error of get becomes an error of the language. Unlike other values, the object
// belongs to one evaluation at a time. Expressions may escape names: a__dot__b is the member a.b.
func LazyObject(names []string, get func(name string) (Value, error)) Value {
	m := &val.MapBox{Unescape: true}
	for _, name := range names {
		m.Put(val.ConstString(name), Value{})
	}
	m.Get = func(name string) Value {
		v, err := get(name)
		if err != nil {
			return val.ErrorOf(err)
		}
		return v
	}
	return val.MapValue(m)
}

// UnescapedNames returns data whose maps can be read by escaped names: m.a__dot__b is m["a.b"].
func UnescapedNames(v Value) Value {
	switch {
	case v.FromDoc():
	case v.K == KindList:
		var items []Value
		for _, item := range v.Items() {
			items = append(items, UnescapedNames(item))
		}
		return val.ListValue(items)
	case v.K == KindMap:
		m := &val.MapBox{Unescape: true}
		val.EachEntry(v, func(k, item Value) bool {
			m.Put(k, UnescapedNames(item))
			return true
		})
		return val.MapValue(m)
	}
	return v
}
