package authz

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authn"
	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/cli/command"
	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/nearest"
	"github.com/keelson-io/keelson/kind"
)

// This file has the command "authz can".

// canOptions are the flags of "authz can".
type canOptions struct {
	options
	as            command.UserFlags
	namespace     string
	allNamespaces bool
	subresource   string
	unknown       string // what to do about a resource that nothing names; "" if it is known
}

func newCanCommand() *cobra.Command {
	o := canOptions{}
	cmd := &cobra.Command{
		Use:   "can VERB RESOURCE[/NAME]",
		Short: "Say whether a user may do something, and why",
		Long: `Can decides about one request, written as for kubectl auth can-i. It prints "allowed" or "denied" with the reason: the binding and
role that allow the request, or what is missing. No server is asked. The roles and bindings are those in the files of --rbac, and
the default ones of a server.

RESOURCE is the plural name of a resource, such as widgets, deployments.apps or pods/log, or a path such as /healthz. The API group
is needed only if several groups have the resource: the built-in kinds, the definitions among the files, and the rules of the roles
are searched. "*" stands for all resources or verbs. Other objects in the files are ignored.

--as names the user. Groups that follow from the name of a service account, and system:authenticated, are added.`,
		Example: `  keelson authz can --as jane --rbac roles/ delete widgets -n prod
  keelson authz can --as system:serviceaccount:prod:builder --rbac roles/ create pods/exec -n prod
  keelson authz can --as jane --as-group devs --rbac roles/ get secrets/token -n prod
  keelson authz can --as jane get /metrics`,
		Annotations: command.Page("the request is allowed", "the request is denied, or a webhook would decide",
			"keelson help authz check, keelson help authz explain"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 && len(args) != 3 {
				return command.UsageError(fmt.Errorf("authz can: got %d arguments, want VERB and RESOURCE, such as: delete widgets", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.as.Add(cmd)
	f.Lookup("as").Usage = "the user whose request it is; a service account is system:serviceaccount:NAMESPACE:NAME"
	f.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the request")
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "ask for all namespaces")
	f.StringVar(&o.subresource, "subresource", "", "subresource, such as log or status")
	f.StringVar(&o.flags.File, "config", "", "AuthorizationConfiguration `file`; by default, RBAC decides")
	f.StringVar(&o.flags.PolicyFile, "policy-file", "", "`file` of ABAC policies")
	f.StringArrayVar(&o.rbac, "rbac", nil, "`files` or folders with roles, bindings and definitions")
	f.StringToStringVar(&o.answers, "answer", nil, "the answer of a webhook: `NAME=ANSWER`, where ANSWER is allow, deny, no-opinion or error")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	return cmd
}

// run decides about the request and prints the answer.
func (o *canOptions) run(cmd *cobra.Command, args []string) error {
	if o.output != "text" && o.output != "json" {
		return command.UsageError(fmt.Errorf("--output: got %q, want text or json", o.output))
	}
	user, err := o.user()
	if err != nil {
		return err
	}
	docs, err := manifest.Read(o.rbac, cmd.InOrStdin())
	if err != nil {
		return err
	}
	a, err := o.request(args, user, docs)
	if err != nil {
		return err
	}
	docs = slices.DeleteFunc(docs, func(d manifest.Document) bool { return d.Err == nil && !isRole(d) })
	index, err := indexOf(docs)
	if err != nil {
		return err
	}
	decide, err := o.decider(o.flags, index)
	if err != nil {
		return err
	}
	if err := o.checkAnswers(); err != nil {
		return err
	}
	r := decide(cmd.Context(), a)
	if err := o.printAnswer(cmd.OutOrStdout(), a, &r, len(docs)); err != nil {
		return err
	}
	if r.Decision != "allow" {
		return errors.New("")
	}
	return nil
}

// user returns the user of the request, with the groups that every user has.
func (o *canOptions) user() (*authn.User, error) {
	if o.as.Name == "" {
		return nil, command.UsageError(errors.New("authz can: no user named: add --as jane"))
	}
	u, err := o.as.User()
	if err != nil {
		return nil, err
	}
	out := &authn.User{Name: u.Name, UID: u.UID, Groups: slices.Clone(u.Groups), Extra: u.Extra}
	if rest, ok := strings.CutPrefix(u.Name, "system:serviceaccount:"); ok {
		namespace, name, ok := strings.Cut(rest, ":")
		if !ok || namespace == "" || name == "" {
			return nil, command.UsageError(fmt.Errorf("--as: got %q, want system:serviceaccount:NAMESPACE:NAME", u.Name))
		}
		out.Groups = append(out.Groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
	}
	if u.Name == "system:anonymous" {
		out.Groups = append(out.Groups, "system:unauthenticated")
	} else {
		out.Groups = append(out.Groups, "system:authenticated")
	}
	return out, nil
}

// request returns the request of a command line.
func (o *canOptions) request(args []string, user *authn.User, docs []manifest.Document) (*authz.Attributes, error) {
	a := &authz.Attributes{User: user, Verb: strings.ToLower(args[0]), Trace: &authz.Trace{Full: true}}
	if strings.HasPrefix(args[1], "/") {
		if len(args) == 3 || o.subresource != "" {
			return nil, command.UsageError(fmt.Errorf("authz can: the path %s has no name and no subresource", args[1]))
		}
		a.Path = args[1]
		return a, nil
	}
	resource, rest, _ := strings.Cut(args[1], "/")
	a.ResourceRequest, a.Version, a.Subresource, a.Namespace = true, "*", o.subresource, o.namespace
	a.Resource, a.Group, _ = strings.Cut(resource, ".")
	// What follows the slash is a subresource, as in rules, or a name, as for kubectl auth can-i.
	if rest != "" && o.subresource == "" && isSubresource(a.Resource, rest) {
		a.Subresource, rest = rest, ""
	}
	a.Name = rest
	if len(args) == 3 {
		if a.Name != "" {
			return nil, command.UsageError(fmt.Errorf("authz can: the object is named twice, %q and %q", a.Name, args[2]))
		}
		a.Name = args[2]
	}
	if o.allNamespaces {
		a.Namespace = ""
	}
	scope, err := o.locate(a, strings.Contains(resource, "."), docs)
	if err != nil {
		return nil, err
	}
	if scope == clusterScope {
		a.Namespace = ""
	}
	return a, nil
}

// unservedSubresources lists the subresources of Kubernetes that keelson does not serve, by resource.
var unservedSubresources = map[string][]string{
	"pods":     {"attach", "exec", "log", "portforward", "proxy"},
	"services": {"proxy"},
	"nodes":    {"proxy"},
}

// isSubresource reports whether a name after a resource and a slash is that of a subresource.
func isSubresource(resource, name string) bool {
	if name == "status" || name == "scale" || name == "*" || slices.Contains(unservedSubresources[resource], name) {
		return true
	}
	return slices.ContainsFunc(builtin.All(nil), func(k *kind.Kind) bool {
		return k.Plural == resource && k.Behavior.Subresource(name) != nil
	})
}

// The scopes of a resource.
const (
	anyScope = iota // it is not known
	namespaceScope
	clusterScope
)

// locate sets the API group of a resource that is named without one, and corrects its name, which
// may be the kind. It returns the scope of the resource.
func (o *canOptions) locate(a *authz.Attributes, hasGroup bool, docs []manifest.Document) (scope int, err error) {
	if a.Resource == "*" {
		if !hasGroup {
			a.Group = "*"
		}
		return anyScope, nil
	}
	scopes := map[string]int{} // by group
	var names []string
	add := func(group, plural, singular string, short []string, namespaced bool) {
		names = append(names, plural)
		if (plural != a.Resource && singular != a.Resource && !slices.Contains(short, a.Resource)) || hasGroup && group != a.Group {
			return
		}
		a.Resource = plural
		scopes[group] = clusterScope
		if namespaced {
			scopes[group] = namespaceScope
		}
	}
	for _, k := range builtin.All(nil) {
		add(k.Group, k.Plural, k.Singular, k.ShortNames, k.Namespaced)
	}
	for _, d := range docs {
		var definition struct {
			Kind string
			Spec struct {
				Group, Scope string
				Names        struct {
					Plural, Singular string
					ShortNames       []string
				}
			}
		}
		if d.Err == nil && json.Unmarshal(d.JSON, &definition) == nil && definition.Kind == "CustomResourceDefinition" {
			s := &definition.Spec
			add(s.Group, s.Names.Plural, s.Names.Singular, s.Names.ShortNames, s.Scope != "Cluster")
		}
	}
	if len(scopes) == 0 {
		names = append(names, ruleGroups(a.Resource, hasGroup, a.Group, docs, scopes)...)
	}
	// Events are in two groups with the same objects; the core group is meant.
	if _, core := scopes[""]; core && len(scopes) > 1 && !hasGroup {
		scopes = map[string]int{"": scopes[""]}
	}
	switch {
	case len(scopes) == 1:
		for group, found := range scopes {
			a.Group, scope = group, found
		}
		return scope, nil
	case len(scopes) > 1 && !hasGroup:
		var all []string
		for group := range scopes {
			all = append(all, a.Resource+"."+group)
		}
		slices.Sort(all)
		return 0, command.UsageError(fmt.Errorf("authz can: several groups have %s: write %s", a.Resource, strings.Join(all, " or ")))
	case hasGroup:
		return anyScope, nil
	}
	o.unknown = fmt.Sprintf("; the resource %s is not known: write %s.GROUP, or name its definition with --rbac", a.Resource, a.Resource)
	if like := nearest.Name(a.Resource, names); like != "" {
		o.unknown = fmt.Sprintf("; the resource %s is not known: did you mean %s?", a.Resource, like)
	}
	return anyScope, nil
}

// ruleGroups adds the groups in which rules of roles name a resource to scopes. It returns all
// resources that rules name.
func ruleGroups(resource string, hasGroup bool, group string, docs []manifest.Document, scopes map[string]int) (names []string) {
	for _, d := range docs {
		var role struct{ Rules []rbacv1.PolicyRule }
		if !isRole(d) || json.Unmarshal(d.JSON, &role) != nil {
			continue
		}
		for _, r := range role.Rules {
			names = append(names, r.Resources...)
			if !slices.Contains(r.Resources, resource) {
				continue
			}
			for _, g := range r.APIGroups {
				if g != "*" && (!hasGroup || g == group) {
					scopes[g] = anyScope
				}
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "*" })
}

// isRole reports whether a document is a role or binding.
func isRole(d manifest.Document) bool {
	var head struct{ APIVersion, Kind string }
	if d.Err != nil || json.Unmarshal(d.JSON, &head) != nil {
		return false
	}
	return schema.FromAPIVersionAndKind(head.APIVersion, head.Kind).Group == rbacv1.GroupName
}

// canAnswer is the answer in JSON.
type canAnswer struct {
	Allowed bool `json:"allowed"`
	ruling
}

// printAnswer prints the decision in words.
func (o *canOptions) printAnswer(out io.Writer, a *authz.Attributes, r *ruling, roles int) error {
	if o.output == "json" {
		r.Steps = nil
		return command.PrintJSON(out, canAnswer{r.Decision == "allow", *r})
	}
	paint := command.Painter(out)
	var text string
	switch r.Decision {
	case "allow":
		text = paint("32", "allowed") + ": " + cmp.Or(strings.TrimPrefix(r.Reason, "RBAC: allowed by "), r.By)
	case "depends":
		text = fmt.Sprintf("depends on the webhook %s: say what it answers, --answer %s=allow or --answer %s=deny", r.Depends[0], r.Depends[0], r.Depends[0])
	default:
		text = paint("31", "denied") + ": " + o.denial(a, r, roles)
	}
	_, err := fmt.Fprintln(out, strings.ReplaceAll(text, "\n", "; "))
	return err
}

// denial returns why a request is denied.
func (o *canOptions) denial(a *authz.Attributes, r *ruling, roles int) string {
	switch {
	case r.Decision == "deny":
		return join(r.By, r.Reason)
	case r.Error != "":
		return join("no authorizer allows it", r.Error)
	}
	what := a.Verb + " " + a.Path
	if a.ResourceRequest {
		what = a.Verb + " " + a.Resource
		for _, p := range []struct{ before, value string }{{".", a.Group}, {"/", a.Subresource}, {" ", a.Name}, {" in namespace ", a.Namespace}} {
			if p.value != "" {
				what += p.before + p.value
			}
		}
		if a.Namespace == "" && o.allNamespaces {
			what += " in all namespaces"
		}
	}
	text := fmt.Sprintf("no role gives %s the permission to %s", a.User.Name, what)
	if text += o.unknown; roles == 0 && o.flags.File == "" {
		text += "; only the default roles are known: name files of roles and bindings with --rbac"
	}
	return text
}
