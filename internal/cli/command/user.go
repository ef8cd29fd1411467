// This file has the flags for the user of a request.

package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/offline"
)

// UserFlags are kubectl's flags for the user of a request.
type UserFlags struct {
	Name, uid string
	groups    []string
	extra     []string
}

// Add adds the flags to a command.
func (u *UserFlags) Add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&u.Name, "as", "", "the user whose request it is; a service account is system:serviceaccount:NAMESPACE:NAME (default an administrator)")
	f.StringArrayVar(&u.groups, "as-group", nil, "group of the user named with --as; may be repeated")
	f.StringVar(&u.uid, "as-uid", "", "UID of the user named with --as")
	f.StringArrayVar(&u.extra, "as-user-extra", nil, "further attribute KEY=VALUE of the user named with --as; may be repeated")
}

// User returns the user that the flags name; nil without flags.
func (u *UserFlags) User() (*offline.User, error) {
	if u.Name == "" {
		if u.uid != "" || len(u.groups)+len(u.extra) > 0 {
			return nil, UsageError(errors.New("--as-group, --as-uid and --as-user-extra say more of a user whom --as names, and it names none"))
		}
		return nil, nil
	}
	user := &offline.User{Name: u.Name, UID: u.uid, Groups: u.groups}
	for _, e := range u.extra {
		key, value, ok := strings.Cut(e, "=")
		if !ok || key == "" {
			return nil, UsageError(fmt.Errorf("--as-user-extra: got %q, want KEY=VALUE", e))
		}
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra[key] = append(user.Extra[key], value)
	}
	return user, nil
}
