package cluster

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// This file is what an object may say over time, for porcupine.

// An operation is one request about one object, and what was answered.
type operation struct {
	key     string
	verb    string // get, create, put, patch, delete
	value   int    // of create, put and patch: what is written; no two operations of a test write the same
	version string // of put: the version that it replaces
}

// outcome is an answer. One that is unknown (no answer, or one that says nothing about what happened) may have been carried out, then
// or later, or not.
type outcome struct {
	unknown bool
	code    int
	value   int    // what the object said, of get
	version string // its resource version; of delete, unknown
}

// object is the state of an object.
type object struct {
	there   bool
	value   int
	version string // "" if it is not known, because nobody was told
}

// gadgetModel says which answers are right in which state, and what the state is then.
var gadgetModel = (&porcupine.NondeterministicModel{
	Init:              func() []any { return []any{object{}} },
	Step:              func(state, in, out any) []any { return step(state.(object), in.(operation), out.(outcome)) },
	Partition:         byKey,
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v → %+v", in, out) },
	DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
}).ToModel()

func step(s object, in operation, out outcome) []any {
	if out.unknown {
		if next, ok := written(s, in, ""); ok {
			return []any{s, next}
		}
		return []any{s}
	}
	next, applies := written(s, in, out.version)
	switch {
	case in.verb == "get" && out.code == 200:
		if s.there && s.value == out.value && (s.version == "" || s.version == out.version) {
			return []any{object{true, s.value, out.version}}
		}
	case out.code == 404:
		if !s.there && in.verb != "create" {
			return []any{s}
		}
	case out.code == 409: // of create: it is there; of put: it has another version
		if s.there && (in.verb == "create" || in.verb == "put" && (s.version == "" || s.version != in.version)) {
			return []any{s}
		}
	case out.code == 200 || out.code == 201:
		if applies {
			return []any{next}
		}
	}
	return nil
}

// written is the state after a write that succeeds, if it can.
func written(s object, in operation, version string) (object, bool) {
	switch in.verb {
	case "create":
		return object{true, in.value, version}, !s.there
	case "put":
		return object{true, in.value, version}, s.there && (s.version == "" || s.version == in.version)
	case "patch":
		return object{true, in.value, version}, s.there
	case "delete":
		return object{}, s.there
	}
	return s, false
}

func byKey(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, op := range history {
		k := op.Input.(operation).key
		parts[k] = append(parts[k], op)
	}
	var all [][]porcupine.Operation
	for _, p := range parts {
		all = append(all, p)
	}
	return all
}

// history collects operations.
type history struct {
	mu      sync.Mutex
	began   time.Time
	all     []porcupine.Operation
	unknown int
}

// add notes an operation that client asked for at a time, and that is answered now.
func (h *history) add(client int, at time.Time, in operation, out outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := time.Since(h.began).Nanoseconds()
	if out.unknown {
		if h.unknown++; in.verb == "get" {
			return // says nothing
		}
		end = 1 << 60 // it may happen at any time
	}
	h.all = append(h.all, porcupine.Operation{ClientId: client, Input: in, Call: at.Sub(h.began).Nanoseconds(), Output: out, Return: end})
}

// resolved is the history with what watches know of writes that were not answered. Each writes a value of its own, so that one whose
// value was seen was carried out, with the version that was seen, and any other was not while the test ran. The outcome of deletions stays unknown.
// Without it some histories take longer to be decided than anybody waits.
func (h *history) resolved(seen []change) []porcupine.Operation {
	versions := map[int]int64{}
	for _, e := range seen {
		if e.kind != "DELETED" { // which says the last value again
			versions[e.value] = e.version
		}
	}
	var all []porcupine.Operation
	for _, op := range h.all {
		if in, out := op.Input.(operation), op.Output.(outcome); out.unknown && in.value != 0 {
			version, happened := versions[in.value]
			if !happened {
				continue
			}
			op.Output = outcome{code: http.StatusOK, value: in.value, version: strconv.FormatInt(version, 10)}
		}
		all = append(all, op)
	}
	return all
}
