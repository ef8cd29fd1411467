package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/keelson-io/keelson/internal/coverage"
)

// This file changes definitions, and finds out which changes no case detects.
//
// A change is detected if a case fails that passes without it. The cases of a change run until one
// fails. A change at a place for which no case has a value is not detected, without a run.

// MutateOptions bound a mutation test. The zero value has the default bounds.
type MutateOptions struct {
	// Limit is the greatest number of changes that are tried; 0 stands for DefaultMutations. If there
	// are more, every n-th of them is tried.
	Limit int
	// Started is called with the number of changes, and Done after each. Nil: nobody wants to know.
	Started func(changes int)
	Done    func()
}

// DefaultMutations is the default limit of the changes that are tried.
const DefaultMutations = 2000

// Mutations is the result of a mutation test.
type Mutations struct {
	Changes  int `json:"changes"`  // how many there are
	Tried    int `json:"tried"`    // at most the limit
	Detected int `json:"detected"` // a case fails
	Invalid  int `json:"invalid"`  // the server refuses the changed definition
	// Undetected are the changes that no case detects, in the order of the definitions.
	Undetected []Change `json:"undetected"`
}

// Percent returns the share of the changes that are detected, without those that are invalid; 100 if
// there are none.
func (m *Mutations) Percent() float64 {
	if m.Tried == m.Invalid {
		return 100
	}
	return 100 * float64(m.Detected) / float64(m.Tried-m.Invalid)
}

// Mutate changes the rules and bounds of the definitions of suites one by one, and runs the cases of
// the suites that use the definition. All cases must pass without a change.
func Mutate(ctx context.Context, suites []*Suite, o MutateOptions) (*Mutations, error) {
	recorder := coverage.New()
	for _, s := range suites {
		for _, r := range s.RunWith(ctx, RunOptions{Coverage: recorder}) {
			if !r.Passed {
				return nil, fmt.Errorf("%s:%d: case %q fails: all cases must pass before definitions are changed", s.File, r.Line, r.Case)
			}
		}
	}
	all := recorder.Changes()
	out := &Mutations{Changes: len(all), Undetected: []coverage.Change{}}
	if o.Limit == 0 {
		o.Limit = DefaultMutations
	}
	chosen := all
	if len(all) > o.Limit {
		chosen = nil
		for i := range o.Limit {
			chosen = append(chosen, all[i*len(all)/o.Limit])
		}
	}
	out.Tried = len(chosen)
	if o.Started != nil {
		o.Started(len(chosen))
	}
	results, err := tryAll(ctx, suites, chosen, o.Done)
	if err != nil {
		return nil, err
	}
	for i, r := range results {
		switch r {
		case changeDetected:
			out.Detected++
		case changeInvalid:
			out.Invalid++
		default:
			out.Undetected = append(out.Undetected, chosen[i])
		}
	}
	return out, nil
}

// changeResult is what came of a change.
type changeResult int

const (
	changeUndetected changeResult = iota
	changeDetected
	changeInvalid
)

// tryAll tries the changes on all processors. The results do not depend on the order.
func tryAll(ctx context.Context, suites []*Suite, changes []coverage.Change, done func()) ([]changeResult, error) {
	results := make([]changeResult, len(changes))
	var mu sync.Mutex
	var errs []error
	next := 0
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(changes)) {
		wait.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= len(changes) || len(errs) > 0
				mu.Unlock()
				if stop {
					return
				}
				r, err := try(ctx, suites, &changes[i])
				mu.Lock()
				results[i] = r
				if err != nil {
					errs = append(errs, err)
				}
				if done != nil {
					done()
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return results, errors.Join(errs...)
}

// try runs the cases of the suites that use a definition on a changed one, until one fails.
func try(ctx context.Context, suites []*Suite, c *coverage.Change) (changeResult, error) {
	if err := ctx.Err(); err != nil {
		return changeUndetected, err
	}
	if c.Unreached {
		return changeUndetected, nil
	}
	text, err := c.Apply()
	if err != nil {
		return changeUndetected, err
	}
	for _, s := range suites {
		docs := slices.Clone(s.docs)
		uses := false
		for i := range docs {
			if c.IsOf(&docs[i]) {
				docs[i].SetJSON(bytes.Clone(text))
				uses = true
			}
		}
		if !uses {
			continue
		}
		kinds, err := newKinds(docs)
		if err != nil {
			return changeInvalid, nil // as a server would say
		}
		changed := *s
		changed.Kinds = kinds
		results := changed.RunWith(ctx, RunOptions{Until: func(r *Result) bool { return !r.Passed }})
		if err := kinds.Close(); err != nil {
			return changeUndetected, err
		}
		if ctx.Err() != nil {
			return changeUndetected, ctx.Err()
		}
		if n := len(results); n > 0 && !results[n-1].Passed {
			return changeDetected, nil
		}
	}
	return changeUndetected, nil
}
