// This file has what the commands share that use a server in the same process: the user and the
// existing objects.

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/offline"
)

// openOffline opens a server with the objects in documents. It returns the verdicts on those that
// it refuses.
func openOffline(ctx context.Context, docs []manifest.Document) (*offline.Server, []*verdict, error) {
	s, err := offline.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	refused, added, err := s.Add(ctx, docs)
	if err == nil && added+len(refused) == 0 && len(docs) > 0 {
		err = fmt.Errorf("%s: nothing in it that decides about objects: no definition, policy, role or namespace", docs[0].File)
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	var bad []*verdict
	for _, r := range refused {
		bad = append(bad, verdictOf(r.Document, r.Answer, nil))
	}
	return s, bad, nil
}

// userFlags are kubectl's flags for the user of a request.
type userFlags struct {
	name, uid string
	groups    []string
	extra     []string
}

func (u *userFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&u.name, "as", "", "user who makes the request, a service account as system:serviceaccount:NAMESPACE:NAME (default an administrator)")
	f.StringArrayVar(&u.groups, "as-group", nil, "group of the user named with --as; may be repeated")
	f.StringVar(&u.uid, "as-uid", "", "UID of the user named with --as")
	f.StringArrayVar(&u.extra, "as-user-extra", nil, "further attribute KEY=VALUE of the user named with --as; may be repeated")
}

// user returns the user that the flags name; nil without flags.
func (u *userFlags) user() (*offline.User, error) {
	if u.name == "" {
		if u.uid != "" || len(u.groups)+len(u.extra) > 0 {
			return nil, &usageError{errors.New("--as-group, --as-uid and --as-user-extra say more of a user whom --as names, and it names none")}
		}
		return nil, nil
	}
	user := &offline.User{Name: u.name, UID: u.uid, Groups: u.groups}
	for _, e := range u.extra {
		key, value, ok := strings.Cut(e, "=")
		if !ok || key == "" {
			return nil, &usageError{fmt.Errorf("--as-user-extra: got %q, want KEY=VALUE", e)}
		}
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra[key] = append(user.Extra[key], value)
	}
	return user, nil
}

// notEvaluated returns what a document is, if it decides about objects on a cluster, but not here: a
// webhook, or a policy of another engine. Otherwise it returns "".
func notEvaluated(d manifest.Document) string {
	s := offline.SubjectOf(d, "")
	switch {
	case s.Group == "admissionregistration.k8s.io" && strings.HasSuffix(s.Kind, "WebhookConfiguration"):
		return s.Kind + " " + s.Name + ", whose webhooks are not called,"
	case s.Group == "kyverno.io", s.Group == "policies.kyverno.io", s.Group == "templates.gatekeeper.sh", s.Group == "constraints.gatekeeper.sh":
		return fmt.Sprintf("%s.%s %s, a policy of another engine,", s.Kind, s.Group, s.Name)
	}
	return ""
}
