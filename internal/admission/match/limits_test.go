package match

import (
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/keelson-io/keelson/internal/admission"
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

// TestCandidatesAreBounded asks an index of many criteria about several kinds of requests, of which it cannot remember all.
func TestCandidatesAreBounded(t *testing.T) {
	v, _ := widgets(true)
	criteria := make([]Criteria, maxCandidates/2)
	for i := range criteria {
		criteria[i].Rules = []admissionv1.NamedRuleWithOperations{rule("*", "*", "*", "*/*")}
	}
	x := NewIndex(criteria, all)
	for _, sub := range []string{"", "status", "scale", "", "status"} {
		if n := len(x.For(&admission.Request{Version: v, Subresource: sub, Operation: admission.Create})); n != len(criteria) {
			t.Fatalf("%q: %d of %d criteria match", sub, n, len(criteria))
		}
		held := 0
		for _, found := range *x.memo.Load() {
			held += len(found)
		}
		if held > maxCandidates {
			t.Errorf("%d candidates are remembered, want at most %d", held, maxCandidates)
		}
	}
}
