// This file has what the commands share that use a server in the same process: the user, the
// existing objects, and the verdicts.

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/internal/offline"
	"github.com/keelson-io/keelson/status"
)

// verdict is the server's answer for one object.
type verdict struct {
	Source     string            `json:"source"`
	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Namespace  string            `json:"namespace,omitempty"`
	Name       string            `json:"name,omitempty"`
	Valid      bool              `json:"valid"`
	Warnings   []string          `json:"warnings,omitempty"`
	Audit      map[string]string `json:"auditAnnotations,omitempty"`
	Status     *metav1.Status    `json:"status,omitempty"` // the refusal, as the server would send it
}

// verdictOf converts an answer to a verdict. err says why there is no answer.
func verdictOf(d manifest.Document, a *offline.Answer, err error) verdict {
	v := verdict{Source: d.String()}
	if a != nil {
		v.APIVersion, v.Kind, v.Namespace, v.Name = a.Version.APIVersion(), a.Version.Kind.Name, a.Namespace, a.Name
	}
	if err != nil {
		var unknown *offline.UnknownKindError
		if errors.As(err, &unknown) && len(unknown.Versions) == 0 {
			err = fmt.Errorf("%w; name the file that defines it with -f", err)
		}
		v.Status = &status.BadRequest("%s", err).Status
		return v
	}
	v.Valid, v.Warnings, v.Audit, v.Status = a.Refusal == nil, a.Warnings, a.Annotations, a.Refusal
	return v
}

// openOffline opens a server with the objects in documents. It returns the verdicts on those that
// it refuses.
func openOffline(ctx context.Context, docs []manifest.Document) (*offline.Server, []verdict, error) {
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
	var bad []verdict
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
