package selector

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// listed are labels that can be listed. They count how they are looked at.
type listed struct {
	labels.Set
	looks *int
}

func (l listed) All() iter.Seq2[string, string] {
	*l.looks += len(l.Set)
	return maps.All(l.Set)
}

func (l listed) Lookup(key string) (string, bool) { *l.looks++; return l.Set.Lookup(key) }

// TestEqualsApimachinery compares compiled selectors with apimachinery's.
func TestEqualsApimachinery(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []string{"", "1", "2", "3", "-1", "x", "9223372036854775807", "-9223372036854775808"}
	pick := func() string { return values[r.IntN(len(values))] }
	matched := 0
	for range 20_000 {
		var terms, terms2 []string
		keys := []string{"a", "b", "c"}[:1+r.IntN(3)]
		for range 1 + r.IntN(6) {
			key := keys[r.IntN(len(keys))]
			some := strings.Join([]string{pick(), pick(), pick(), pick(), pick()}, ",")
			number := []string{"0", "1", "2", "9223372036854775807", "-9223372036854775808", "9223372036854775806"}[r.IntN(6)]
			terms = append(terms, []string{key, "!" + key, key + " in (" + some + ")", key + " notin (" + some + ")", key + "=" + pick(),
				key + "!=" + pick(), key + ">" + number, key + "<" + number}[r.IntN(8)])
			terms2 = append(terms2, key+[]string{"=", "!="}[min(1, r.IntN(4))]+pick())
		}
		for i := range short {
			terms, terms2 = append(terms, fmt.Sprintf("!z%d", i)), append(terms2, "a!=z")
		}
		have := labels.Set{}
		for _, key := range []string{"a", "b", "c", "d"} {
			if r.IntN(3) > 0 {
				have[key] = pick()
			}
		}
		s, err := labels.Parse(strings.Join(terms, ","))
		if err != nil {
			continue
		}
		c, looks := Label(s), 0
		if _, ok := c.(*labelSelector); !ok {
			t.Fatalf("%s: not compiled", s)
		}
		want := s.Matches(have)
		if want {
			matched++
		}
		if c.Matches(have) != want || c.Matches(listed{have, &looks}) != want {
			t.Fatalf("%s: %v: got %v and %v, want %v", s, have, c.Matches(have), c.Matches(listed{have, &looks}), want)
		}
		f, err := fields.ParseSelector(strings.Join(terms2, ","))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := Field(f).Matches(fields.Set(have)), f.Matches(fields.Set(have)); got != want {
			t.Fatalf("%s: %v: got %v, want %v", f, have, got, want)
		}
	}
	if matched < 1000 {
		t.Errorf("%d matched: the test is too strict to say anything", matched)
	}
}

// TestCost holds that the cost of a selector depends only on the labels of the object.
func TestCost(t *testing.T) {
	var terms, in []string
	for i := range 100_000 {
		terms, in = append(terms, fmt.Sprintf("!k%d", i)), append(in, fmt.Sprintf("v%d", i))
	}
	s, err := labels.Parse(strings.Join(terms, ",") + ",a in (" + strings.Join(in, ",") + ")")
	if err != nil {
		t.Fatal(err)
	}
	c, looks := Label(s), 0
	for range 5000 {
		if !c.Matches(listed{labels.Set{"a": "v99999", "b": "c"}, &looks}) {
			t.Fatal("does not match")
		}
	}
	if looks != 2*5000 {
		t.Errorf("%d labels looked at, want %d", looks, 2*5000)
	}
	if Label(nil) != nil || Field(nil) != nil {
		t.Error("no selector became one")
	}
}
