package schema

import (
	"context"
	"sync"
	"testing"

	"github.com/keelson-io/keelson/jsondoc"
)

// TestConcurrent uses a fresh program from many goroutines at once: rules and
// patterns compile on first use.
func TestConcurrent(t *testing.T) {
	p := httpRoute(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				text := route
				if i%2 == 1 {
					text = `{"spec":{"rules":[{"matches":[{"path":{"type":"Exact","value":"a b"}}]}]}}`
				}
				d := jsondoc.Get()
				if _, err := p.Decode(d, []byte(text)); err != nil {
					t.Error(err)
				}
				if r := p.Validate(context.Background(), d, nil, Whole); (len(r.Errors) > 0) != (i%2 == 1) {
					t.Errorf("got %v", r.Errors.ToAggregate())
				}
				d.Release()
			}
		})
	}
	all.Wait()
}
