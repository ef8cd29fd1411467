package cel_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	apicel "k8s.io/apiserver/pkg/cel"

	"github.com/keelson-io/keelson/cel"
)

// This file compares how the names of members are spelled in rules.

// TestNames escapes and unescapes names that are made of what matters in them.
func TestNames(t *testing.T) {
	parts := strings.Fields("true false null in as break const continue else for function if import let loop package namespace return var void while " +
		"underscores dot dash slash _ __ ___ a B 0 9 . - / : ä $ nope __dot__ __if__ __x__")
	r := rand.New(rand.NewPCG(1, 1))
	escaped, unescaped := 0, 0
	for n := range 200_000 {
		name := ""
		if n > len(parts) {
			for range r.IntN(5) {
				name += parts[r.IntN(len(parts))]
			}
		} else if n > 0 {
			name = parts[n-1]
		}
		got, ok := cel.Escape(name)
		if want, wantOK := apicel.Escape(name); got != want || ok != wantOK {
			t.Fatalf("%q escaped: got %q, %t, upstream %q, %t", name, got, ok, want, wantOK)
		}
		if ok {
			escaped++
		}
		if got, ok = cel.Unescape(name); ok {
			unescaped++
		}
		if want, wantOK := apicel.Unescape(name); ok != wantOK || ok && got != want {
			t.Fatalf("%q unescaped: got %q, %t, upstream %q, %t", name, got, ok, want, wantOK)
		}
	}
	if escaped == 0 || unescaped == 0 {
		t.Errorf("%d escaped, %d unescaped", escaped, unescaped)
	}
}
