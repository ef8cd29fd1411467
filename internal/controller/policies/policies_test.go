package policies

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/internal/testapi"
)

// This file runs the controller over the API with a store in memory, by a clock that moves only while
// everybody waits.

const path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

func policy(name, expression string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]},
		"validations":[{"expression":%q}]}}`, name, expression)
}

// settle lets everything happen that happens within a second.
func settle() {
	synctest.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
}

func TestStatusOfPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := testapi.New(t)
		status := func(name string) admissionv1.ValidatingAdmissionPolicyStatus {
			t.Helper()
			settle()
			var p admissionv1.ValidatingAdmissionPolicy
			if !a.Get(path+"/"+name, &p) {
				t.Fatalf("policy %s is gone", name)
			}
			return p.Status
		}
		warnings := func(s admissionv1.ValidatingAdmissionPolicyStatus) []admissionv1.ExpressionWarning {
			if s.TypeChecking == nil {
				return nil
			}
			return s.TypeChecking.ExpressionWarnings
		}
		a.Must("POST", path, policy("before", "object.data.a == 'x'"))
		a.Run((&Controller{Kinds: a.Kinds, Cache: a.Cache, Store: a.Store, API: a.As(Manager), Logger: a.Logger}).Run)
		if s := status("before"); s.ObservedGeneration != 1 || s.TypeChecking == nil || len(warnings(s)) != 0 {
			t.Errorf("a policy from before the start: got %+v", s)
		}
		a.Must("POST", path, policy("wrong", "object.missing == 'x'"))
		s := status("wrong")
		if len(warnings(s)) != 1 || warnings(s)[0].FieldRef != "spec.validations[0].expression" || !strings.Contains(warnings(s)[0].Warning, "undefined field 'missing'") {
			t.Errorf("an expression that does not fit: got %+v", s)
		}
		a.Must("PATCH", path+"/wrong", `{"spec":{"validations":[{"expression":"true"}]}}`)
		if s := status("wrong"); s.ObservedGeneration != 2 || len(warnings(s)) != 0 {
			t.Errorf("after it was corrected: got %+v", s)
		}
		// What leaves the specification alone is not checked again.
		revision := func() string { return a.Must("GET", path+"/wrong", "") }
		a.Must("PATCH", path+"/wrong", `{"metadata":{"labels":{"a":"b"}}}`)
		before := revision()
		settle()
		if after := revision(); after != before {
			t.Errorf("got %s, want %s", after, before)
		}
		a.Must("DELETE", path+"/wrong", "")
		settle()
		if a.Exists(path + "/wrong") {
			t.Error("a deleted policy is there again")
		}
	})
}
