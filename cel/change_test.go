package cel

import (
	"slices"
	"strings"
	"testing"
)

// TestChanges lists the changes of expressions. Each changed text must differ, and compile unless
// the change is one of types.
func TestChanges(t *testing.T) {
	f := newFixture(t, testEnv(t), strings.ReplaceAll(listSchema, "\t", " "), listData)
	for _, test := range []struct {
		rule string
		want []string
	}{
		{"self.num > 3 && (self.b || has(self.t))", []string{
			"(self.b || has(self.t))", "(self.num > 3)", "self.num >= 3 && (self.b || has(self.t))", "self.num > 4 && (self.b || has(self.t))", "self.num > 3 || (self.b || has(self.t))",
			"self.num > 3 && (!self.b || has(self.t))", "self.num > 3 && ((has(self.t)))", "self.num > 3 && ((self.b))", "self.num > 3 && (self.b && has(self.t))", "self.num > 3 && (self.b || !has(self.t))"}},
		{"!self.l.all(x, x.v == -1)", []string{
			"(self.l.all(x, x.v == -1))", "!!self.l.all(x, x.v == -1)", "!self.l.exists(x, x.v == -1)", "!self.l.all(x, x.v != -1)", "!self.l.all(x, x.v == 0)"}},
		{"(self.b ? self.t : '') == \"y\"", []string{
			"((self.t)) == \"y\"", "((''))" + " == \"y\"", "(!self.b ? self.t : '') == \"y\"", "(self.b ? self.t : \"x\") == \"y\"", "(self.b ? self.t : '') != \"y\"", "(self.b ? self.t : '') == \"\""}},
		{"self.t.startsWith('a') == true", []string{
			"!(self.t.startsWith('a')) == true", "self.t.startsWith(\"\") == true", "self.t.startsWith('a') != true", "self.t.startsWith('a') == false"}},
		{"self.num - 2 * (self.num) < 5", []string{
			"self.num + 2 * (self.num) < 5", "self.num - 3 * (self.num) < 5", "self.num - 2 / (self.num) < 5", "self.num - 2 * (self.num) <= 5", "self.num - 2 * (self.num) < 6"}},
	} {
		e, err := f.types.Explainer(test.rule, f.self, CompileOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range e.Changes() {
			text := c.Apply(test.rule)
			if _, err := f.types.Compile(text, f.self, CompileOptions{Want: BoolResult}); err != nil {
				t.Errorf("%s: %s: %s: %v", test.rule, c.What, text, err)
			}
			got = append(got, text)
		}
		want := slices.Clone(test.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", test.rule, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
