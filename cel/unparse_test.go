package cel

import "testing"

// TestTextIsRead holds that the text of an expression is one with the same value.
func TestTextIsRead(t *testing.T) {
	for expr, want := range map[string]string{
		"-(-self.n)":                             "-dyn(-self.n)",
		"-(-(-self.n))":                          "-dyn(-dyn(-self.n))",
		"-(-9223372036854775808)":                "-dyn(-9223372036854775808)",
		"-(-0.0)":                                "-dyn(-0.0)",
		"!(!self.b)":                             "!dyn(!self.b)",
		"!(-self.n == 1)":                        "!(-self.n == 1)",
		"1 - -1":                                 "1 - -1",
		"self.l.all(x, -(-x) > 0)":               "self.l.all(x, -dyn(-x) > 0)",
		"self.l.map(y, self.l.exists(x, !(!x)))": "self.l.map(y, self.l.exists(x, !dyn(!x)))",
		"--self.n":                               "self.n",
	} {
		language, err := NewLanguage(LanguageOptions{Kubernetes: NewestKubernetes, Variables: []Variable{{Name: "self"}}})
		if err != nil {
			t.Fatal(err)
		}
		x, err := language.CompileExpression(expr)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the first time does not change the expression
			if got, err := x.Text(x.Tree().Expr()); err != nil || got != want {
				t.Errorf("%s: got %s, %v, want %s", expr, got, err, want)
			}
		}
		again, err := language.CompileExpression(want)
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		if got, err := again.Text(again.Tree().Expr()); err != nil || got != want {
			t.Errorf("%s: got %s, %v when it is read again", want, got, err)
		}
	}
}
