package lib

import (
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/validation"
)

// This file defines Kubernetes' functions for authorization checks. They are declared for the
// versions in which Kubernetes declares them. Only a caller with an authorizer sets a variable on
// which they can be called.

// The types of the values in a chain of calls for a check.
var (
	AuthorizerType    = types.NewObjectType("kubernetes.authorization.Authorizer")
	PathCheckType     = types.NewObjectType("kubernetes.authorization.PathCheck")
	GroupCheckType    = types.NewObjectType("kubernetes.authorization.GroupCheck")
	ResourceCheckType = types.NewObjectType("kubernetes.authorization.ResourceCheck")
	DecisionType      = types.NewObjectType("kubernetes.authorization.Decision")
)

// CostCheck is the cost of one check, in units. The limit of an expression permits two checks.
const CostCheck = 350_000

// Authorizer decides expressions such as
// authorizer.group("apps").resource("deployments").check("create").allowed(). It belongs to one
// request, whose user and context it knows.
type Authorizer interface {
	// Authorize decides. A denial and no opinion are both not allowed. reason and err are the
	// results of decision.reason() and decision.error().
	Authorize(check AccessCheck) (allowed bool, reason string, err error)
}

// AccessCheck is a check that an expression requests from an [Authorizer].
type AccessCheck struct {
	Verb string
	// Path is the path of a request without a resource. If it is "", the check is for a resource,
	// in any version of its group.
	Path string

	Group, Resource, Subresource, Namespace, Name string
	// The selectors in the expression, "" if there are none. A malformed selector restricts
	// nothing, but the attributes carry its error.
	FieldSelector, LabelSelector string

	// The service account for which the check is made, instead of the request's user. Either both
	// are set or none.
	ServiceAccountNamespace, ServiceAccountName string
}

// Access is a check that is not complete yet. Its type says which calls may follow.
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

// with returns the check after one more call.
func (a Access) with(t *types.Type, set func(*AccessCheck)) ref.Val {
	a.T = t
	set(&a.Check)
	return a
}

// Decision is the result of a check.
type Decision struct {
	Object
	allowed bool
	reason  string
	err     error
}

func (d Decision) Value() any                       { return d.allowed }
func (d Decision) Equal(other ref.Val) ref.Val      { return types.MaybeNoSuchOverloadErr(other) }
func (d Decision) ConvertToType(t ref.Type) ref.Val { return Convert(d, t) }

// checkStep declares a member function of a check with a string parameter.
func checkStep(name, id string, of, result *types.Type, fn func(a Access, text string) ref.Val) cel.EnvOption {
	return cel.Function(name, checkOverload(id, of, result, fn))
}

// checkOverload is one overload of such a function.
func checkOverload(id string, of, result *types.Type, fn func(a Access, text string) ref.Val) cel.FunctionOpt {
	return cel.MemberOverload(id, []*types.Type{of, types.StringType}, result,
		binary(func(a Access, s types.String) ref.Val { return fn(a, string(s)) }))
}

// attribute declares a member function that sets an attribute of a resource.
func attribute(name, id string, set func(c *AccessCheck, text string)) cel.EnvOption {
	return checkStep(name, id, ResourceCheckType, ResourceCheckType, func(a Access, text string) ref.Val {
		return a.with(ResourceCheckType, func(c *AccessCheck) { set(c, text) })
	})
}

// authzLibrary returns the functions that build checks and read decisions.
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
		attribute("subresource", "resourcecheck_subresource", func(c *AccessCheck, text string) { c.Subresource = text }),
		attribute("namespace", "resourcecheck_namespace", func(c *AccessCheck, text string) { c.Namespace = text }),
		attribute("name", "resourcecheck_name", func(c *AccessCheck, text string) { c.Name = text }),
		cel.Function("check",
			checkOverload("pathcheck_check", PathCheckType, DecisionType, decide),
			checkOverload("resourcecheck_check", ResourceCheckType, DecisionType, decide)),
	)
}

// authzSelectors returns the functions that restrict a check to objects that selectors match.
func authzSelectors() []cel.EnvOption {
	return []cel.EnvOption{
		attribute("fieldSelector", "authorizer_fieldselector", func(c *AccessCheck, text string) { c.FieldSelector = text }),
		attribute("labelSelector", "authorizer_labelselector", func(c *AccessCheck, text string) { c.LabelSelector = text }),
	}
}

// decisionFunctions returns the functions of decisions.
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

// serviceAccount replaces the user of the check by a service account.
func serviceAccount(args ...ref.Val) ref.Val {
	a, ok := args[0].(Access)
	namespace, ok1 := args[1].(types.String)
	name, ok2 := args[2].(types.String)
	switch {
	case !ok || !ok1 || !ok2:
		return types.NoSuchOverloadErr()
	case len(validation.IsDNS1123Subdomain(string(name))) > 0:
		return types.NewErr("Invalid service account name")
	case len(validation.IsDNS1123Label(string(namespace))) > 0:
		return types.NewErr("Invalid service account namespace")
	}
	return a.with(AuthorizerType, func(c *AccessCheck) {
		c.ServiceAccountNamespace, c.ServiceAccountName = string(namespace), string(name)
	})
}

// decide passes the check to the authorizer.
func decide(a Access, verb string) ref.Val {
	a.Check.Verb = verb
	allowed, reason, err := a.By.Authorize(a.Check)
	return Decision{Object{DecisionType}, allowed, reason, err}
}
