package cel

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestConcurrent compiles and evaluates from many goroutines.
func TestConcurrent(t *testing.T) {
	f := newFixture(t, testEnv(t), strings.ReplaceAll(listSchema, "\t", " "), listData)
	shared, err := f.types.Compile("self.l.map(x, x.v).sum() == 6 && self.t.matches('^t')", f.self, CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var a Activation
			a.Self = f.doc
			for i := range 10 {
				if v, _, err := shared.Eval(context.Background(), &a, 1000); err != nil || !v.Bool() {
					t.Errorf("shared program: %v %v", v, err)
				}
				outside := &Type{Kind: List, Elem: &Type{Kind: Object, Fields: []Field{{Name: "k", Type: &Type{Kind: String}, Slot: -1}}}}
				outside.Elem.SetSizes(nil, 0)
				outside.SetSizes(nil, 0)
				if _, err := f.types.Compile("self.all(x, x.k != '')", outside, CompileOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := f.types.Compile(fmt.Sprintf("self.num > %d && self.l.all(x, x.v > %d)", g, i), f.self, CompileOptions{}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
}
