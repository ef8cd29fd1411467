// Package authz has the command "authz" of keelson: what a chain of authorizers would decide, and why.
package authz

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/authz/config"
	"github.com/keelson-io/keelson/internal/authz/partial"
	"github.com/keelson-io/keelson/internal/authz/rbac"
	"github.com/keelson-io/keelson/internal/cli/command"
)

// options are the flags that "authz check" and "authz explain" share.
type options struct {
	flags    config.Flags
	rbac     []string
	requests []string
	answers  map[string]string
	unknown  []string
	against  string
	former   []string // roles and bindings to compare with
	audit    []string
	webhooks []string // names in the configurations
	output   string
	explain  bool
}

// Command returns the command "authz".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "authz",
		Short: "Show what a chain of authorizers would decide, and why",
		Long: `Authz decides about requests as a server with the same configuration would, without a server. "can" takes one request from the
command line. "check" reads requests from files, and prints the decision and the authorizer that made it. "explain" also prints the
steps of the other authorizers.

The authorizers are those of an AuthorizationConfiguration, or RBAC. Roles and bindings come from files. Webhooks are not called:
--answer gives their answers.`,
		Example: `  keelson authz can --as jane --rbac roles/ delete widgets -n prod
  keelson authz check --rbac roles/ --request review.yaml
  keelson authz explain --config authz.yaml --rbac roles/ --request review.yaml --answer policy=allow`,
		Annotations: command.Page("everything asked for is allowed", "something is not allowed, or depends on what a webhook says",
			"keelson help authz can, keelson help authz check, keelson help authz explain, keelson help serve"),
		Args: command.OnlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCanCommand(), newVerb(false), newVerb(true))
	return cmd
}

func newVerb(explain bool) *cobra.Command {
	o := options{explain: explain}
	cmd := &cobra.Command{
		Use:   "check --request FILE…",
		Short: "Decide about requests as a server would",
		Args:  command.NoArguments,
		Example: `  # May they, by an AuthorizationConfiguration and roles in files?
  keelson authz check --config authz.yaml --rbac roles/ --request review.yaml

  # If the webhook named policy allows it?
  keelson authz check --config authz.yaml --request review.yaml --answer policy=allow

  # Who may delete secrets in kube-system?
  keelson authz check --config authz.yaml --rbac roles/ --request delete-secrets.yaml --unknown user,groups,name

  # Which of yesterday's requests would the new configuration decide otherwise than the old one?
  keelson authz check --config new.yaml --against old.yaml --rbac roles/ --audit-log audit.log

  # Which of them would changed roles decide otherwise?
  keelson authz check --rbac new-roles/ --against-rbac roles/ --audit-log audit.log`,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	if explain {
		cmd.Use, cmd.Short = "explain --request FILE…", "Decide about requests, and show what every authorizer did"
		cmd.Example = strings.ReplaceAll(cmd.Example, "authz check", "authz explain")
	}
	cmd.Long = cmd.Short + `.

Requests are SubjectAccessReviews, or with --audit-log those that a server has
recorded. Webhooks are not asked: --answer says what one would say, and where
that matters and is not said, the verdict is that it depends. The default roles
count as they do in a server. What nodes need for their pods is not known here.

--unknown names parts of the requests that are not known, whatever the reviews
say there: ` + strings.Join(partial.Parts, ", ") + `.
Then the verdict is whether the request is always allowed, never, or under which
condition: an expression like those of match conditions, for every authorizer
that might have an opinion, in the order in which they are asked; the first that
holds decides.

--against names another configuration, and --against-rbac other roles and bindings,
such as those in force. What is listed then are the requests that the two decide
differently, and how often each is among them, so that one sees before a change
whom it would affect. What is not named again is the same for both, and so are
answers. A webhook is known by its name. Whether somebody denies or nobody has an
opinion makes no difference: it is a refusal.`
	cmd.Annotations = command.Page("everything asked for is allowed, or in a comparison, both decide alike",
		"something is not allowed, or depends on what is not known, or in a comparison, is decided differently",
		"keelson help authz, keelson help serve")
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.flags.File, "config", "", "AuthorizationConfiguration `file`; by default, RBAC decides")
	f.StringVar(&o.flags.PolicyFile, "policy-file", "", "`file` of ABAC policies")
	f.StringArrayVar(&o.rbac, "rbac", nil, "`files` or folders with roles and bindings")
	f.StringArrayVar(&o.requests, "request", nil, "`files` or folders with SubjectAccessReviews; - for standard input")
	f.StringToStringVar(&o.answers, "answer", nil, "the answer of a webhook: `NAME=ANSWER`, where ANSWER is allow, deny, no-opinion or error")
	f.StringSliceVar(&o.unknown, "unknown", nil, "unknown `parts` of the requests")
	f.StringVar(&o.against, "against", "", "AuthorizationConfiguration `file` to compare with")
	f.StringArrayVar(&o.former, "against-rbac", nil, "`files` or folders with roles and bindings to compare with")
	f.StringArrayVar(&o.audit, "audit-log", nil, "audit log `files`, as written by --audit-log-path, with the requests to decide")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	return cmd
}

func (o *options) run(cmd *cobra.Command) error {
	if o.output != "text" && o.output != "json" {
		return command.UsageError(fmt.Errorf("--output: got %q, want text or json", o.output))
	}
	if len(o.requests)+len(o.audit) == 0 {
		return command.UsageError(errors.New("authz: no request named: give files with --request, or --audit-log"))
	}
	asked, err := o.questions(cmd.InOrStdin())
	if err != nil {
		return err
	}
	roles, err := readRoles(o.rbac, cmd.InOrStdin())
	if err != nil {
		return err
	}
	decide, err := o.decider(o.flags, roles)
	if err != nil {
		return err
	}
	if o.against != "" || o.former != nil {
		before, err := o.before(roles, cmd.InOrStdin())
		if err != nil {
			return err
		}
		if err := o.checkAnswers(); err != nil {
			return err
		}
		return o.compare(cmd, asked, before, decide)
	}
	if err := o.checkAnswers(); err != nil {
		return err
	}
	all := true
	rulings := make([]ruling, len(asked))
	for i, q := range asked {
		rulings[i] = decide(cmd.Context(), q.attributes)
		rulings[i].Count = q.count
		all = all && rulings[i].Decision == "allow"
	}
	if err := o.print(cmd.OutOrStdout(), rulings); err != nil {
		return err
	}
	if !all {
		return errors.New("")
	}
	return nil
}

// before returns the decider to compare with. now are the roles of the other one.
func (o *options) before(now *rbac.Index, in io.Reader) (decider, error) {
	flags, roles := o.flags, now
	if o.against != "" {
		flags.File = o.against
	}
	if o.former != nil {
		var err error
		if roles, err = readRoles(o.former, in); err != nil {
			return nil, fmt.Errorf("--against-rbac: %w", err)
		}
	}
	d, err := o.decider(flags, roles)
	if err != nil {
		return nil, fmt.Errorf("--against: %w", err)
	}
	return d, nil
}

func (o *options) print(out io.Writer, rulings []ruling) error {
	if o.output == "json" {
		if !o.explain {
			for i := range rulings {
				rulings[i].Steps = nil
			}
		}
		return command.PrintJSON(out, rulings)
	}
	for i := range rulings {
		rulings[i].print(out, o.explain)
	}
	return nil
}
