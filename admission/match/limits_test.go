package match

import (
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/admission"
)

// TestKindsOfRequestsAreBounded asks for more kinds of requests than an index remembers.
func TestKindsOfRequestsAreBounded(t *testing.T) {
	v, _ := widgets(true)
	x := NewIndex([]Criteria{{Rules: []admissionv1.NamedRuleWithOperations{rule("*", "*", "*", "*")}}}, all)
	full := map[key][]Candidate{} // of nearly as many kinds of requests as are remembered
	for n := range maxMemo - 20 {
		full[key{v, fmt.Sprint("before", n), admission.Create}] = nil
	}
	x.memo.Store(&full)
	most := 0
	for n := range 70 {
		r := &admission.Request{Version: v, Subresource: fmt.Sprint("s", n), Operation: admission.Create}
		x.For(r)
		most = max(most, len(*x.memo.Load()))
	}
	if now := len(*x.memo.Load()); most != 4096 || now > 50 {
		t.Errorf("remembers at most %d kinds of requests, and %d at the end, want 4,096 and 50", most, now)
	}
}
