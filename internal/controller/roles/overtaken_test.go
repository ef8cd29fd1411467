package roles

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/keelson-io/keelson/internal/testapi"
	"github.com/keelson-io/keelson/kind"
)

const rolesPath = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

// replacing is an API before whose first write the role becomes another one of the same name.
type replacing struct {
	API
	replace func()
}

func (r *replacing) Apply(ctx context.Context, k *kind.Kind, namespace, name, subresource string, body []byte) error {
	if r.replace != nil {
		r.replace()
		r.replace = nil
	}
	return r.API.Apply(ctx, k, namespace, name, subresource, body)
}

// TestReplacedRoleKeepsItsRules holds that a role which takes the place of an aggregated one keeps its rules, even if the aggregator was
// about to write them.
func TestReplacedRoleKeepsItsRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := testapi.New(t)
		api.Must("POST", rolesPath, `{"metadata":{"name":"part","labels":{"part":"true"}},"rules":[{"verbs":["get"],"apiGroups":["a.io"],"resources":["gathered"]}]}`)
		api.Must("POST", rolesPath, `{"metadata":{"name":"all"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"part":"true"}}]}}`)
		a := &Aggregator{Config: Config{Kinds: api.Kinds, Cache: api.Cache, Store: api.Store}, Logger: api.Logger}
		a.API = &replacing{api.As(Manager), func() {
			api.Must("DELETE", rolesPath+"/all", "")
			api.Must("POST", rolesPath, `{"metadata":{"name":"all"},"rules":[{"verbs":["get"],"apiGroups":["a.io"],"resources":["own"]}]}`)
		}}
		api.Run(a.Run)
		synctest.Wait()
		if got := api.Must("GET", rolesPath+"/all", ""); !strings.Contains(got, `"own"`) || strings.Contains(got, `"gathered"`) {
			t.Errorf("got %s, want the role's own rules", got)
		}
	})
}
