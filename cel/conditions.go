package cel

import (
	"maps"

	"github.com/google/cel-go/common/types"
)

// This file declares the languages of Kubernetes' conditions: those that choose
// what an authorization webhook is asked, and those of admission.

// Variables of conditions. What they hold is data without a schema ([FromGo],
// [FromJSON], [FromDoc] without a type); null where there is none.
const (
	RequestVariable         = "request"
	ObjectVariable          = "object"
	OldObjectVariable       = "oldObject"
	ParamsVariable          = "params"
	NamespaceVariable       = "namespaceObject"
	AuthorizerVariable      = "authorizer"                 // an AuthorizerValue
	RequestResourceVariable = "authorizer.requestResource" // a ResourceAuthorizerValue
	ComposedVariable        = "variables"                  // an object of ComposedVariables, with LazyObject
)

const (
	stringsType = "list(string)"
	extraType   = "map(string, list(string))"
)

// texts are members that are strings.
func texts(names ...string) map[string]string {
	fields := map[string]string{}
	for _, name := range names {
		fields[name] = "string"
	}
	return fields
}

// and is a with the members of b.
func and(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// AuthorizationConditions is the language of the match conditions of
// authorization webhooks (KEP-3221): variable request is the specification of a
// SubjectAccessReview. A webhook's host gives user, groups, uid and extra in any
// case, and all texts of resourceAttributes if it gives those at all.
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

// AuthenticationClaims is the language of the expressions over the claims of a
// token (KEP-3331): variable claims is an object of them ([LazyObject], with
// [UnescapedNames] for what is in it).
func AuthenticationClaims() LanguageOptions {
	return LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "claims", Type: "map(string, any)"}}}
}

// AuthenticationUser is the language of the expressions over the user that
// claims make: variable user has username, uid, groups and extra.
func AuthenticationUser() LanguageOptions {
	return LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "user", Type: userInfo.Name}}, Objects: []ObjectType{userInfo}}
}

var userInfo = ObjectType{"kubernetes.UserInfo", and(texts("username", "uid"), map[string]string{"groups": stringsType, "extra": extraType})}

var selectorFields = map[string]string{"rawSelector": "string", "requirements": "list(kubernetes.SelectorRequirement)"}

// AdmissionVariables says which of the variables of admission there are besides
// object, oldObject, request and namespaceObject.
type AdmissionVariables struct {
	Params     bool
	Authorizer bool // and authorizer.requestResource
	Composed   bool // variables; [Language.Extend] adds its members with [ComposedVariables]
	Patches    bool // literals of Object and JSONPatch, for mutations
}

// AdmissionConditions is the language of the match conditions of admission
// webhooks, and of the expressions of admission policies.
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
		o.Variables = append(o.Variables, Variable{Name: AuthorizerVariable, Type: authorizerType.TypeName()},
			Variable{Name: RequestResourceVariable, Type: resourceCheckType.TypeName()})
	}
	if has.Composed {
		o.Variables = append(o.Variables, Variable{Name: ComposedVariable, Type: composedType})
		o.Objects = append(o.Objects, ComposedVariables(nil))
	}
	return o
}

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

// namespaceTypes are declared as upstream declares them. Times are timestamps to
// the checker and texts at run time, as upstream has it.
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

// ComposedVariables is the type of variable variables once these expressions
// have names; nil stands for one that does not compile.
func ComposedVariables(named map[string]*Expression) ObjectType {
	fields := map[string]string{}
	for name, x := range named {
		fields[name] = types.DynType.String()
		if x != nil {
			fields[name] = composed(x.tree.GetType(x.tree.Expr().ID())).String()
		}
	}
	return ObjectType{composedType, fields}
}

// composed is what a variable's type is to the expressions that read it: lists,
// maps and scalars keep theirs.
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

// LazyObject is an object whose members are computed when an expression first
// reads them, each at most once. An error of get is an error in the language.
// Unlike other values it belongs to one evaluation at a time. Names may be
// written escaped: a__dot__b is the member a.b.
func LazyObject(names []string, get func(name string) (Value, error)) Value {
	m := &mapBox{unescape: true}
	for _, name := range names {
		m.put(constString(name), Value{})
	}
	m.get = func(name string) Value {
		v, err := get(name)
		if err != nil {
			return errorOf(err)
		}
		return v
	}
	return mapValue(m)
}

// UnescapedNames is data whose maps may be read by escaped names: m.a__dot__b is
// m["a.b"].
func UnescapedNames(v Value) Value {
	switch {
	case v.fromDoc():
	case v.kind == KindList:
		var items []Value
		for _, item := range v.items() {
			items = append(items, UnescapedNames(item))
		}
		return listValue(items)
	case v.kind == KindMap:
		m := &mapBox{unescape: true}
		eachEntry(v, func(k, item Value) bool {
			m.put(k, UnescapedNames(item))
			return true
		})
		return mapValue(m)
	}
	return v
}
