package cel

import (
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/validation"
)

// This file defines Kubernetes' functions that ask what a user may do. They are
// declared wherever Kubernetes declares them; only a host that has an
// authorizer gives expressions a value to call them on.

var (
	authorizerType    = types.NewObjectType("kubernetes.authorization.Authorizer")
	pathCheckType     = types.NewObjectType("kubernetes.authorization.PathCheck")
	groupCheckType    = types.NewObjectType("kubernetes.authorization.GroupCheck")
	resourceCheckType = types.NewObjectType("kubernetes.authorization.ResourceCheck")
	decisionType      = types.NewObjectType("kubernetes.authorization.Decision")
)

// costCheck is the price of asking an authorizer: an expression affords two.
const costCheck = 350_000

// Authorizer answers expressions such as
// authorizer.group("apps").resource("deployments").check("create").allowed().
// It belongs to one request, whose user and context it knows.
type Authorizer interface {
	// Authorize decides. A denial and no opinion are both not allowed; reason
	// and err are what decision.reason() and decision.error() show.
	Authorize(check AccessCheck) (allowed bool, reason string, err error)
}

// AccessCheck is what an expression asks an [Authorizer].
type AccessCheck struct {
	Verb string
	// Path of a request that is for no resource. Empty: the check is for a
	// resource, of any version of its group.
	Path string

	Group, Resource, Subresource, Namespace, Name string
	// Selectors as the expression wrote them, empty if it did not. One that
	// does not parse restricts nothing, but the attributes carry its error.
	FieldSelector, LabelSelector string

	// The service account that is asked about in place of the request's user;
	// both are empty or neither is.
	ServiceAccountNamespace, ServiceAccountName string
}

// AuthorizerValue is the value of the variable authorizer.
func AuthorizerValue(a Authorizer) Value {
	return opaqueValue(access{t: authorizerType, by: a})
}

// ResourceAuthorizerValue is the value of the variable
// authorizer.requestResource: a check for the resource of the request, which
// check names.
func ResourceAuthorizerValue(a Authorizer, check AccessCheck) Value {
	return opaqueValue(access{t: resourceCheckType, by: a, check: check})
}

// access is a check under construction. Its type says how far it is.
type access struct {
	t     *types.Type
	by    Authorizer
	check AccessCheck
}

func (a access) Type() ref.Type                              { return a.t }
func (a access) Value() any                                  { return a.check }
func (a access) Equal(other ref.Val) ref.Val                 { return types.MaybeNoSuchOverloadErr(other) }
func (a access) ConvertToType(t ref.Type) ref.Val            { return convert(a, t) }
func (a access) ConvertToNative(t reflect.Type) (any, error) { return object{a.t}.ConvertToNative(t) }

// with is the check after one more call.
func (a access) with(t *types.Type, set func(*AccessCheck)) ref.Val {
	a.t = t
	set(&a.check)
	return a
}

// decision is an authorizer's answer.
type decision struct {
	object
	allowed bool
	reason  string
	err     error
}

func (d decision) Value() any                       { return d.allowed }
func (d decision) Equal(other ref.Val) ref.Val      { return types.MaybeNoSuchOverloadErr(other) }
func (d decision) ConvertToType(t ref.Type) ref.Val { return convert(d, t) }

// checkStep declares a member of a check that takes a text.
func checkStep(name, id string, of, result *types.Type, fn func(a access, text string) ref.Val) cel.EnvOption {
	return cel.Function(name, checkOverload(id, of, result, fn))
}

func checkOverload(id string, of, result *types.Type, fn func(a access, text string) ref.Val) cel.FunctionOpt {
	return cel.MemberOverload(id, []*types.Type{of, types.StringType}, result,
		binary(func(a access, s types.String) ref.Val { return fn(a, string(s)) }))
}

// narrow declares a member that sets one of the attributes of a resource.
func narrow(name, id string, set func(c *AccessCheck, text string)) cel.EnvOption {
	return checkStep(name, id, resourceCheckType, resourceCheckType, func(a access, text string) ref.Val {
		return a.with(resourceCheckType, func(c *AccessCheck) { set(c, text) })
	})
}

// authzLibrary holds the functions that build checks and read answers.
func authzLibrary() []cel.EnvOption {
	return append(decisionFunctions(),
		checkStep("path", "authorizer_path", authorizerType, pathCheckType, func(a access, text string) ref.Val {
			if strings.TrimSpace(text) == "" {
				return types.NewErr("path must not be empty")
			}
			return a.with(pathCheckType, func(c *AccessCheck) { c.Path = text })
		}),
		checkStep("group", "authorizer_group", authorizerType, groupCheckType, func(a access, text string) ref.Val {
			return a.with(groupCheckType, func(c *AccessCheck) { c.Group = text })
		}),
		cel.Function("serviceAccount", cel.MemberOverload("authorizer_serviceaccount",
			[]*types.Type{authorizerType, types.StringType, types.StringType}, authorizerType, cel.FunctionBinding(serviceAccount))),
		checkStep("resource", "groupcheck_resource", groupCheckType, resourceCheckType, func(a access, text string) ref.Val {
			if strings.TrimSpace(text) == "" {
				return types.NewErr("resource must not be empty")
			}
			return a.with(resourceCheckType, func(c *AccessCheck) { c.Resource = text })
		}),
		narrow("subresource", "resourcecheck_subresource", func(c *AccessCheck, text string) { c.Subresource = text }),
		narrow("namespace", "resourcecheck_namespace", func(c *AccessCheck, text string) { c.Namespace = text }),
		narrow("name", "resourcecheck_name", func(c *AccessCheck, text string) { c.Name = text }),
		cel.Function("check",
			checkOverload("pathcheck_check", pathCheckType, decisionType, ask),
			checkOverload("resourcecheck_check", resourceCheckType, decisionType, ask)),
	)
}

// authzSelectors holds the functions that narrow a check to what selectors match.
func authzSelectors() []cel.EnvOption {
	return []cel.EnvOption{
		narrow("fieldSelector", "authorizer_fieldselector", func(c *AccessCheck, text string) { c.FieldSelector = text }),
		narrow("labelSelector", "authorizer_labelselector", func(c *AccessCheck, text string) { c.LabelSelector = text }),
	}
}

func decisionFunctions() []cel.EnvOption {
	return []cel.EnvOption{
		method("errored", "decision_errored", decisionType, types.BoolType, func(d decision) ref.Val { return types.Bool(d.err != nil) }),
		method("error", "decision_error", decisionType, types.StringType, func(d decision) ref.Val {
			if d.err == nil {
				return types.String("")
			}
			return types.String(d.err.Error())
		}),
		method("allowed", "decision_allowed", decisionType, types.BoolType, func(d decision) ref.Val { return types.Bool(d.allowed) }),
		method("reason", "decision_reason", decisionType, types.StringType, func(d decision) ref.Val { return types.String(d.reason) }),
	}
}

func serviceAccount(args ...ref.Val) ref.Val {
	a, ok := args[0].(access)
	namespace, ok1 := args[1].(types.String)
	name, ok2 := args[2].(types.String)
	switch {
	case !ok || !ok1 || !ok2:
		return types.NoSuchOverloadErr()
	case len(validation.ValidateServiceAccountName(string(name), false)) > 0:
		return types.NewErr("Invalid service account name")
	case len(validation.ValidateNamespaceName(string(namespace), false)) > 0:
		return types.NewErr("Invalid service account namespace")
	}
	return a.with(authorizerType, func(c *AccessCheck) {
		c.ServiceAccountNamespace, c.ServiceAccountName = string(namespace), string(name)
	})
}

// ask puts the check to the authorizer.
func ask(a access, verb string) ref.Val {
	a.check.Verb = verb
	allowed, reason, err := a.by.Authorize(a.check)
	return decision{object{decisionType}, allowed, reason, err}
}
