package texts

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestEach holds that loops over lists in one another end soon after their errors have Most bytes, that
// the list ends once and that nothing is lost before.
//
// Ledger: error-lists.
func TestEach(t *testing.T) {
	const items, detail = 10_000, 1 << 10
	var errs field.ErrorList
	loops := 0
	said := Over(&errs)
	for i := range EachOf(said, make([]bool, items)) {
		for j := range EachOf(said, make([]bool, items)) {
			loops++
			errs = append(errs, field.Invalid(field.NewPath("a").Index(i).Child("b").Index(j), "v", strings.Repeat("x", detail)))
		}
	}
	for range Each(&errs, make([]bool, items)) {
		loops++
	}
	if most := Most/detail + 1; loops > most || len(errs) != loops+1 {
		t.Errorf("got %d errors from %d turns, want at most %d and the last one", len(errs), loops, most)
	}
	if n := slices.IndexFunc(errs, IsMore); n != len(errs)-1 {
		t.Errorf("got the last error at %d of %d", n, len(errs))
	}

	errs = nil
	seen := 0
	for i, v := range Until(&errs, slices.All([]string{"a", "b", "c"})) {
		seen++
		errs = append(errs, field.NotFound(field.NewPath("l").Index(i), v))
	}
	if seen != 3 || len(errs) != 3 {
		t.Errorf("got %d items and %v", seen, errs)
	}
}

// TestEachIsNoShorter holds that no loop ends before a Status does, whose texts are complete.
func TestEachIsNoShorter(t *testing.T) {
	path := field.NewPath("f")
	for _, err := range []*field.Error{
		field.Required(path, ""), field.Forbidden(path, ""), field.NotFound(path, "v"), field.Duplicate(path, "v"), field.Invalid(path, "v", "d"),
		field.TooLong(path, "v", 1), field.NotSupported(path, "v", []string{"a"}), field.InternalError(path, errors.New("e")), field.TooMany(path, 2, 1),
		field.Invalid(path, 1, ""), field.Invalid(path, []string{"a"}, ""), field.TypeInvalid(path, "v", ""), More(),
	} {
		if text := err.Error(); size(err) > len(text) {
			t.Errorf("%s: counted as %d bytes, has %d", text, size(err), len(text))
		}
	}
}

// TestOnce holds that repeated errors are removed, and that what is beyond a Status is cut.
func TestOnce(t *testing.T) {
	a, b := field.Required(field.NewPath("a"), ""), field.Required(field.NewPath("b"), "")
	if got := Once(field.ErrorList{a, b, a}); len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("got %v", got)
	}
	var errs field.ErrorList
	for i := range 100 {
		errs = append(errs, field.Invalid(field.NewPath("a").Index(i), make([]byte, 32<<10), ""))
	}
	if got := Once(errs); len(got) > 40 || !IsMore(got[len(got)-1]) {
		t.Errorf("got %d errors", len(got))
	}
}

// TestWarnings holds that warnings end after Most bytes.
func TestWarnings(t *testing.T) {
	var w Warnings
	w.Add("a", "b")
	if got := w.List(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %q", got)
	}
	text := strings.Repeat("x", 1<<10)
	for range 10_000 {
		w.Add(text)
	}
	got := w.List()
	if len(got) > Most/len(text)+4 || got[len(got)-1] != "there are more warnings than are listed" {
		t.Errorf("got %d warnings", len(got))
	}
}
