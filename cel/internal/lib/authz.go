package lib

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

// The types of the values that checks are made of.
var (
	AuthorizerType    = types.NewObjectType("kubernetes.authorization.Authorizer")
	PathCheckType     = types.NewObjectType("kubernetes.authorization.PathCheck")
	GroupCheckType    = types.NewObjectType("kubernetes.authorization.GroupCheck")
	ResourceCheckType = types.NewObjectType("kubernetes.authorization.ResourceCheck")
	DecisionType      = types.NewObjectType("kubernetes.authorization.Decision")
)

// CostCheck is the price of asking an authorizer: an expression affords two.
const CostCheck = 350_000

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

// Access is a check under construction. Its type says how far it is.
type Access struct {
	T     *types.Type
	By    Authorizer
	Check AccessCheck
}

func (a Access) Type() ref.Type                              { return a.T }
func (a Access) Value() any                                  { return a.Check }
func (a Access) Equal(other ref.Val) ref.Val                 { return types.MaybeNoSuchOverloadErr(other) }
func (a Access) ConvertToType(t ref.Type) ref.Val            { return Convert(a, t) }
func (a Access) ConvertToNative(t reflect.Type) (any, error) { return Object{a.T}.ConvertToNative(t) }

// with is the check after one more call.
func (a Access) with(t *types.Type, set func(*AccessCheck)) ref.Val {
	a.T = t
	set(&a.Check)
	return a
}

// Decision is an authorizer's answer.
type Decision struct {
	Object
	allowed bool
	reason  string
	err     error
}

func (d Decision) Value() any                       { return d.allowed }
func (d Decision) Equal(other ref.Val) ref.Val      { return types.MaybeNoSuchOverloadErr(other) }
func (d Decision) ConvertToType(t ref.Type) ref.Val { return Convert(d, t) }

// checkStep declares a member of a check that takes a text.
func checkStep(name, id string, of, result *types.Type, fn func(a Access, text string) ref.Val) cel.EnvOption {
	return cel.Function(name, checkOverload(id, of, result, fn))
}

func checkOverload(id string, of, result *types.Type, fn func(a Access, text string) ref.Val) cel.FunctionOpt {
	return cel.MemberOverload(id, []*types.Type{of, types.StringType}, result,
		binary(func(a Access, s types.String) ref.Val { return fn(a, string(s)) }))
}

// narrow declares a member that sets one of the attributes of a resource.
func narrow(name, id string, set func(c *AccessCheck, text string)) cel.EnvOption {
	return checkStep(name, id, ResourceCheckType, ResourceCheckType, func(a Access, text string) ref.Val {
		return a.with(ResourceCheckType, func(c *AccessCheck) { set(c, text) })
	})
}

// authzLibrary holds the functions that build checks and read answers.
func authzLibrary() []cel.EnvOption {
	return append(decisionFunctions(),
		checkStep("path", "authorizer_path", AuthorizerType, PathCheckType, func(a Access, text string) ref.Val {
			if strings.TrimSpace(text) == "" {
				return types.NewErr("path must not be empty")
			}
			return a.with(PathCheckType, func(c *AccessCheck) { c.Path = text })
		}),
		checkStep("group", "authorizer_group", AuthorizerType, GroupCheckType, func(a Access, text string) ref.Val {
			return a.with(GroupCheckType, func(c *AccessCheck) { c.Group = text })
		}),
		cel.Function("serviceAccount", cel.MemberOverload("authorizer_serviceaccount",
			[]*types.Type{AuthorizerType, types.StringType, types.StringType}, AuthorizerType, cel.FunctionBinding(serviceAccount))),
		checkStep("resource", "groupcheck_resource", GroupCheckType, ResourceCheckType, func(a Access, text string) ref.Val {
			if strings.TrimSpace(text) == "" {
				return types.NewErr("resource must not be empty")
			}
			return a.with(ResourceCheckType, func(c *AccessCheck) { c.Resource = text })
		}),
		narrow("subresource", "resourcecheck_subresource", func(c *AccessCheck, text string) { c.Subresource = text }),
		narrow("namespace", "resourcecheck_namespace", func(c *AccessCheck, text string) { c.Namespace = text }),
		narrow("name", "resourcecheck_name", func(c *AccessCheck, text string) { c.Name = text }),
		cel.Function("check",
			checkOverload("pathcheck_check", PathCheckType, DecisionType, ask),
			checkOverload("resourcecheck_check", ResourceCheckType, DecisionType, ask)),
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
		Method("errored", "decision_errored", DecisionType, types.BoolType, func(d Decision) ref.Val { return types.Bool(d.err != nil) }),
		Method("error", "decision_error", DecisionType, types.StringType, func(d Decision) ref.Val {
			if d.err == nil {
				return types.String("")
			}
			return types.String(d.err.Error())
		}),
		Method("allowed", "decision_allowed", DecisionType, types.BoolType, func(d Decision) ref.Val { return types.Bool(d.allowed) }),
		Method("reason", "decision_reason", DecisionType, types.StringType, func(d Decision) ref.Val { return types.String(d.reason) }),
	}
}

func serviceAccount(args ...ref.Val) ref.Val {
	a, ok := args[0].(Access)
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
	return a.with(AuthorizerType, func(c *AccessCheck) {
		c.ServiceAccountNamespace, c.ServiceAccountName = string(namespace), string(name)
	})
}

// ask puts the check to the authorizer.
func ask(a Access, verb string) ref.Val {
	a.Check.Verb = verb
	allowed, reason, err := a.By.Authorize(a.Check)
	return Decision{Object{DecisionType}, allowed, reason, err}
}
