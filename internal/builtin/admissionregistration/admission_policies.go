package admissionregistration

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/internal/requests"
	"github.com/keelson-io/keelson/internal/texts"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file checks admission policies.

// composer compiles the expressions of one policy, each in the language of its place. A variable
// can be used in the expressions after it.
type composer struct {
	composition *requests.Composition // nil: the expressions have no variables
	params      bool
	made        map[cel.AdmissionVariables]*requests.Language
}

// newComposer returns a composer. composed is set if the policy has variables, params if it has
// parameters.
func newComposer(composed, params bool) *composer {
	c := &composer{params: params, made: map[cel.AdmissionVariables]*requests.Language{}}
	if composed {
		c.composition = requests.NewComposition()
	}
	return c
}

// language returns the language with the given variables.
func (c *composer) language(has cel.AdmissionVariables) *requests.Language {
	has.Params, has.Composed = c.params, c.composition != nil
	if l := c.made[has]; l != nil {
		return l
	}
	l := requests.For(has)
	if has.Composed {
		l = l.With(c.composition)
	}
	c.made[has] = l
	return l
}

// The variables of expressions besides those that all of them have.
var (
	withAuthorizer = cel.AdmissionVariables{Authorizer: true}
	plain          = cel.AdmissionVariables{}
	withPatches    = cel.AdmissionVariables{Authorizer: true, Patches: true}
)

// compile compiles an expression, one that was stored before or a new one.
func (c *composer) compile(has cel.AdmissionVariables, stored bool, text string, types ...string) *requests.Expression {
	has.New = !stored
	return c.language(has).Compile(text, types...)
}

// storedIn returns the expressions of the match conditions of a policy.
func storedIn(list []admissionv1.MatchCondition) sets.Set[string] {
	stored := sets.Set[string]{}
	for _, c := range list {
		stored.Insert(c.Expression)
	}
	return stored
}

// checkValidatingPolicy checks a ValidatingAdmissionPolicy. Its expressions are compiled.
func checkValidatingPolicy(_ *kind.Version, d, before *jsondoc.Doc, scope schema.Scope) field.ErrorList {
	p, failed := goType[admissionv1.ValidatingAdmissionPolicy](d)
	old, failedOld := goType[admissionv1.ValidatingAdmissionPolicy](before)
	switch {
	case failed != nil || failedOld != nil:
		return field.ErrorList{cmpError(failed, failedOld)}
	case scope == schema.Status:
		return checkTypeChecking(p.Status)
	}
	at, spec := field.NewPath("spec"), &p.Spec
	same := before != nil && equality.Semantic.DeepEqual(spec.ParamKind, old.Spec.ParamKind) &&
		equality.Semantic.DeepEqual(spec.MatchConditions, old.Spec.MatchConditions)
	errs := checkScope(spec.FailurePolicy, spec.ParamKind, spec.MatchConstraints, at)
	if !same {
		errs = append(errs, checkMatchConditions(spec.MatchConditions, storedIn(old.Spec.MatchConditions), spec.ParamKind != nil, at.Child("matchConditions"))...)
	}
	was := rememberValidations(&old.Spec)
	c := newComposer(len(spec.Variables) > 0, spec.ParamKind != nil)
	errs = append(errs, c.checkVariables(spec.Variables, was.validations, at.Child("variables"))...)
	if len(spec.Validations) == 0 && len(spec.AuditAnnotations) == 0 {
		const missing = "validations or auditAnnotations must contain at least one item"
		errs = append(errs, field.Required(at.Child("validations"), missing), field.Required(at.Child("auditAnnotations"), missing))
	}
	for i := range texts.Each(&errs, spec.Validations) {
		errs = append(errs, c.checkValidation(&spec.Validations[i], was, at.Child("validations").Index(i))...)
	}
	errs = append(errs, c.checkAnnotations(p.Name, spec.AuditAnnotations, was.annotations, at.Child("auditAnnotations"))...)
	return append(errs, reservedName(p.Name, before)...)
}

// cmpError returns the first error that is not nil.
func cmpError(a, b *field.Error) *field.Error {
	if a != nil {
		return a
	}
	return b
}

// reservedName checks that a name does not have the ending that is reserved for configuration in
// files.
func reservedName(name string, before *jsondoc.Doc) field.ErrorList {
	if before != nil || !strings.HasSuffix(name, reservedSuffix) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, reserved)}
}

const (
	reservedSuffix = ".static.k8s.io"
	reserved       = `names ending with ".static.k8s.io" are reserved for static manifest-based configurations and cannot be managed via the API`
)

// warnReserved returns a warning for a stored object with such a name.
func warnReserved(d, before *jsondoc.Doc) []string {
	if before == nil || !strings.HasSuffix(d.Root().At("metadata", "name").Text(), reservedSuffix) {
		return nil
	}
	return []string{"metadata.name: " + reserved}
}

// rememberedValidations are the expressions of a policy as it was.
type rememberedValidations struct{ validations, messages, annotations sets.Set[string] }

// rememberValidations returns the expressions of a policy.
func rememberValidations(spec *admissionv1.ValidatingAdmissionPolicySpec) rememberedValidations {
	was := rememberedValidations{sets.Set[string]{}, sets.Set[string]{}, sets.Set[string]{}}
	for _, v := range spec.Validations {
		was.validations.Insert(v.Expression)
		was.messages.Insert(v.MessageExpression)
	}
	for _, a := range spec.AuditAnnotations {
		was.annotations.Insert(a.ValueExpression)
	}
	return was
}

// checkScope checks the fields that all policies have: parameters, matched resources and
// failurePolicy.
func checkScope(failure *admissionv1.FailurePolicyType, params *admissionv1.ParamKind, m *admissionv1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if failure == nil {
		errs = append(errs, field.Required(at.Child("failurePolicy"), ""))
	} else {
		errs = append(errs, oneOf(at.Child("failurePolicy"), *failure, "Fail", "Ignore")...)
	}
	if params != nil {
		errs = append(errs, checkParamKind(params, at.Child("paramKind"))...)
	}
	at = at.Child("matchConstraints")
	if m == nil {
		return append(errs, field.Required(at, ""))
	}
	errs = append(errs, checkMatchResources(m, at)...)
	if len(m.ResourceRules) == 0 {
		errs = append(errs, field.Required(at.Child("resourceRules"), ""))
	}
	return errs
}

// checkParamKind checks the kind of a policy's parameters.
func checkParamKind(k *admissionv1.ParamKind, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	group, version, divided := strings.Cut(k.APIVersion, "/")
	if !divided {
		group, version = "", group
	}
	switch {
	case k.APIVersion == "":
		errs = append(errs, field.Required(at.Child("apiVersion"), ""))
	case strings.Contains(version, "/"):
		errs = append(errs, field.Invalid(at.Child("apiVersion"), k.APIVersion, "unexpected GroupVersion string: "+k.APIVersion))
	default:
		if msgs := validation.IsDNS1123Subdomain(group); group != "" && len(msgs) > 0 {
			errs = append(errs, field.Invalid(at.Child("apiVersion"), group, strings.Join(msgs, ",")))
		}
		if version == "" {
			errs = append(errs, field.Invalid(at.Child("apiVersion"), k.APIVersion, "version must be specified"))
		} else if msgs := validation.IsDNS1035Label(version); len(msgs) > 0 {
			errs = append(errs, field.Invalid(at.Child("apiVersion"), version, strings.Join(msgs, ",")))
		}
	}
	if k.Kind == "" {
		errs = append(errs, field.Required(at.Child("kind"), ""))
	} else if msgs := validation.IsDNS1035Label(strings.ToLower(k.Kind)); len(msgs) > 0 {
		errs = append(errs, field.Invalid(at.Child("kind"), k.Kind, "may have mixed case, but should otherwise match: "+strings.Join(msgs, ",")))
	}
	return errs
}

var (
	identifier    = regexp.MustCompile("^[_a-zA-Z][_a-zA-Z0-9]*$")
	reservedWords = []string{"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
		"let", "loop", "package", "namespace", "return", "var", "void", "while"}
)

// checkVariables checks and compiles the variables of a policy.
func (c *composer) checkVariables(list []admissionv1.Variable, stored sets.Set[string], at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range texts.Each(&errs, list) {
		at := at.Index(i)
		switch {
		case strings.TrimSpace(v.Name) == "":
			errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
		case !identifier.MatchString(v.Name) || slices.Contains(reservedWords, v.Name):
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
			continue
		}
		x := c.compile(withAuthorizer, stored.Has(v.Expression), v.Expression)
		errs = append(errs, compileError(x, v.Expression, at.Child("expression"))...)
		c.composition.Add(v.Name, x)
	}
	return errs
}

// checkValidation checks and compiles one validation.
func (c *composer) checkValidation(v *admissionv1.Validation, was rememberedValidations, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
	} else {
		x := c.compile(withAuthorizer, was.validations.Has(v.Expression), v.Expression, "bool")
		errs = append(errs, compileError(x, v.Expression, at.Child("expression"))...)
	}
	const empty = "must be non-empty if specified"
	switch {
	case strings.TrimSpace(v.MessageExpression) != "":
		x := c.compile(plain, was.messages.Has(v.MessageExpression), v.MessageExpression, "string")
		errs = append(errs, compileError(x, v.MessageExpression, at.Child("messageExpression"))...)
	case v.MessageExpression != "":
		errs = append(errs, field.Invalid(at.Child("messageExpression"), v.MessageExpression, empty))
	}
	switch text := strings.TrimSpace(v.Message); {
	case v.Message != "" && text == "":
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, empty))
	case strings.ContainsAny(text, "\r\n"):
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, "must not contain line breaks"))
	}
	if v.Reason != nil {
		errs = append(errs, oneOf(at.Child("reason"), *v.Reason, "Forbidden", "Invalid", "RequestEntityTooLarge")...)
	}
	return errs
}

const (
	maxAnnotations          = 20
	maxAnnotationExpression = 5 * 1024
)

// shownAnnotation prints like upstream's annotation in an error with %#v: the fields have no JSON
// names.
type shownAnnotation struct {
	Key             string `json:"Key"`
	ValueExpression string `json:"ValueExpression"`
}

// checkAnnotations checks and compiles the audit annotations of a policy.
func (c *composer) checkAnnotations(policy string, list []admissionv1.AuditAnnotation, stored sets.Set[string], at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxAnnotations {
		shown := make([]shownAnnotation, len(list))
		for i, a := range list {
			shown[i] = shownAnnotation(a)
		}
		errs = append(errs, field.Invalid(at, shown, fmt.Sprintf("must not have more than %d auditAnnotations", maxAnnotations)))
	}
	keys := sets.Set[string]{}
	for i, a := range texts.Each(&errs, list) {
		at := at.Index(i)
		if policy == "" {
			errs = append(errs, field.Invalid(at.Child("key"), a.Key, "requires metadata.name be non-empty"))
		} else {
			errs = append(errs, checkQualifiedName(policy+"/"+a.Key, at.Child("key"))...)
		}
		text := strings.TrimSpace(a.ValueExpression)
		switch {
		case text == "":
			errs = append(errs, field.Required(at.Child("valueExpression"), "valueExpression is not specified"))
		case len(text) > maxAnnotationExpression:
			errs = append(errs, field.Required(at.Child("valueExpression"), fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationExpression)))
		default:
			x := c.compile(withAuthorizer, stored.Has(a.ValueExpression), text, "string", "null_type")
			errs = append(errs, compileError(x, a.ValueExpression, at.Child("valueExpression"))...)
		}
		if keys.Has(a.Key) {
			errs = append(errs, field.Duplicate(at.Child("key"), a.Key))
		}
		keys.Insert(a.Key)
	}
	return errs
}

// checkMutatingPolicy checks a MutatingAdmissionPolicy. Its expressions are compiled.
func checkMutatingPolicy(_ *kind.Version, d, before *jsondoc.Doc, _ schema.Scope) field.ErrorList {
	p, failed := goType[admissionv1.MutatingAdmissionPolicy](d)
	old, failedOld := goType[admissionv1.MutatingAdmissionPolicy](before)
	if failed != nil || failedOld != nil {
		return field.ErrorList{cmpError(failed, failedOld)}
	}
	at, spec := field.NewPath("spec"), &p.Spec
	same := before != nil && equality.Semantic.DeepEqual(spec.ParamKind, old.Spec.ParamKind) &&
		equality.Semantic.DeepEqual(spec.MatchConditions, old.Spec.MatchConditions)
	errs := checkScope(spec.FailurePolicy, spec.ParamKind, spec.MatchConstraints, at)
	errs = append(errs, checkMutated(spec.MatchConstraints, at.Child("matchConstraints"))...)
	if !same {
		errs = append(errs, checkMatchConditions(spec.MatchConditions, storedIn(old.Spec.MatchConditions), spec.ParamKind != nil, at.Child("matchConditions"))...)
	}
	// The old mutations of either type: upstream looks for JSON patches among the apply
	// configurations, too.
	applied := sets.Set[string]{}
	for _, m := range old.Spec.Mutations {
		if m.ApplyConfiguration != nil {
			applied.Insert(m.ApplyConfiguration.Expression)
		}
	}
	c := newComposer(true, spec.ParamKind != nil)
	errs = append(errs, c.checkVariables(spec.Variables, nil, at.Child("variables"))...)
	if len(spec.Mutations) == 0 {
		errs = append(errs, field.Required(at.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range texts.Each(&errs, spec.Mutations) {
		errs = append(errs, c.checkMutation(&spec.Mutations[i], applied, at.Child("mutations").Index(i))...)
	}
	if spec.ReinvocationPolicy == "" {
		errs = append(errs, field.Required(at.Child("reinvocationPolicy"), ""))
	} else {
		errs = append(errs, oneOf(at.Child("reinvocationPolicy"), spec.ReinvocationPolicy, "IfNeeded", "Never")...)
	}
	return append(errs, reservedName(p.Name, before)...)
}

// checkMutated refuses DELETE among the operations: a deleted object cannot be changed.
func checkMutated(m *admissionv1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m == nil {
		return nil
	}
	for _, r := range m.ResourceRules {
		for _, op := range r.Operations {
			errs = append(errs, oneOf(at.Child("resourceRules", "operations"), op, "*", "CONNECT", "CREATE", "UPDATE")...)
		}
	}
	return errs
}

// checkMutation checks one mutation: it has the expression of its type and no other.
func (c *composer) checkMutation(m *admissionv1.Mutation, stored sets.Set[string], at *field.Path) field.ErrorList {
	patch, apply := at.Child("jsonPatch"), at.Child("applyConfiguration")
	var errs field.ErrorList
	switch m.PatchType {
	case "":
		errs = append(errs, field.Required(at.Child("patchType"), ""))
	case admissionv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(patch, "must be specified when patchType is JSONPatch"))
		} else {
			errs = append(errs, c.checkPatch(m.JSONPatch.Expression, stored, "list(JSONPatch)", patch)...)
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(apply, "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
	case admissionv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(apply, "must be specified when patchType is ApplyConfiguration"))
		} else {
			errs = append(errs, c.checkPatch(m.ApplyConfiguration.Expression, stored, "Object", apply)...)
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(patch, "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
	default:
		errs = append(errs, oneOf(at.Child("patchType"), m.PatchType, "ApplyConfiguration", "JSONPatch")...)
	}
	return errs
}

// checkPatch compiles an expression of a mutation, which must return a value of the type want.
func (c *composer) checkPatch(expression string, stored sets.Set[string], want string, at *field.Path) field.ErrorList {
	text := strings.TrimSpace(expression)
	if text == "" {
		return field.ErrorList{field.Required(at.Child("expression"), "")}
	}
	return compileError(c.compile(withPatches, stored.Has(expression), text, want), text, at.Child("expression"))
}
