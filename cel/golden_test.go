package cel

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
)

// TestGolden compares outcomes, prices and estimates with those that upstream
// gave (testdata/golden.txt says how they are made), over documents of both
// layouts.
func TestGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/golden.txt")
	if err != nil {
		t.Fatal(err)
	}
	env := testEnv(t)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	var f *fixture
	schema := ""
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "# "):
		case strings.HasPrefix(line, "schema "):
			schema = line[len("schema "):]
		case strings.HasPrefix(line, "data "):
			f = newFixture(t, env, schema, line[len("data "):])
		default:
			i++
			want := strings.TrimPrefix(lines[i], "\t")
			for _, shaped := range []bool{true, false} {
				if got := f.outcome(t, line, shaped); got != want {
					t.Errorf("golden.txt:%d: %s (shaped %t)\n\tgot  %s\n\twant %s", i, line, shaped, got, want)
				}
			}
		}
	}
}

// typeNumbers are the numbers of the types of roots, which have no meaning.
var typeNumbers = regexp.MustCompile(`\bselfType[0-9]+\b`)

// outcome is what golden.txt holds about an expression.
func (f *fixture) outcome(t testing.TB, expr string, shaped bool) string {
	p, err := f.types.Compile(expr, f.self, CompileOptions{Want: AnyResult})
	if err != nil {
		return "compile: " + strings.ReplaceAll(typeNumbers.ReplaceAllString(err.Error(), "selfType"), "\n", "\\n")
	}
	self := f.doc
	if !shaped {
		self = f.document(t, string(f.doc.AppendJSON(nil)), f.self, false)
	}
	a := Activation{Self: self, OldSelf: self, HasOldSelf: true}
	v, cost, err := p.Eval(context.Background(), &a, 1_000_000)
	if err != nil {
		return fmt.Sprintf("est=%d cost=%d value= err=%q", p.MaxCost(), cost, err)
	}
	return fmt.Sprintf("est=%d cost=%d value=%s err=\"\"", p.MaxCost(), cost, describe(v))
}

// describe prints a value so that different kinds differ.
func describe(v Value) string {
	if v.K == KindOptional {
		if v.Ptr == nil {
			return "none"
		}
		return "some " + describe(*v.Optional())
	}
	if s := types.Format(v.Ref()); !strings.Contains(s, "%!") && !strings.HasPrefix(s, "{") {
		return v.TypeName() + " " + s
	}
	return v.TypeName()
}
