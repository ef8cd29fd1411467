package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/keelson-io/keelson/internal/status"
)

// This file applies strategic merge patches, with upstream's library. The library needs time
// quadratic in the length of a list that it merges, and cannot be interrupted. So its steps are
// counted first, in time linear in the patch and the object.

// maxStrategicSteps is the greatest number of steps of one strategic merge patch. A step is a
// comparison of two items of a list, some 10 ns. It suffices for one list of which the object and the
// patch have 2,000 items together.
const maxStrategicSteps = 64_000_000

// strategic returns an object of a built-in kind after a strategic merge patch.
func strategic(ctx context.Context, object, patch []byte, typed any) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, StoreError(ctx.Err())
	}
	// The library works on maps. kjson reads integers as int64, as upstream does.
	original, change := map[string]any{}, map[string]any{}
	if kjson.Unmarshal(object, &original) != nil || kjson.Unmarshal(patch, &change) != nil {
		return nil, refusedStrategic(mergepatch.ErrBadJSONDoc)
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(typed)
	if err != nil {
		return nil, err
	}
	// The steps are counted before anything is merged, since the library cannot be stopped.
	s := stepCounter{left: maxStrategicSteps}
	if s.merge(original, change, schema, 0); s.left < 0 {
		return nil, status.TooLarge(fmt.Sprintf("the strategic merge patch needs more than %d comparisons of list items: "+
			"use a JSON merge patch, a JSON patch or server-side apply for lists of this length", maxStrategicSteps))
	}
	// The library panics on some malformed patches: see strategicpanic.go.
	merged, err := withoutPanic(func() (map[string]any, error) { return strategicpatch.StrategicMergeMapPatch(original, change, typed) })
	if err != nil {
		return nil, refusedStrategic(err)
	}
	return json.Marshal(merged)
}

// refusedStrategic returns the answer to an error of upstream's library, which is about the patch:
// the object was valid when it was stored. Errors that upstream does not know have status 500 there.
func refusedStrategic(err error) error {
	if errors.Is(err, mergepatch.ErrNoListOfLists) || errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys) {
		return status.Unprocessable(err)
	}
	return status.BadRequest("%v", err)
}

// wrongStrategic returns the error for a strategic merge patch whose outcome is no object of its
// type. It merges once more, and asks upstream's converter from maps for the reason; why is the
// reason if the converter finds none. Upstream shows the patch as it is after the merge, which takes
// directives out.
func wrongStrategic(object, patch []byte, typed any, why string) error {
	original, change := map[string]any{}, map[string]any{}
	if kjson.Unmarshal(object, &original) == nil && kjson.Unmarshal(patch, &change) == nil {
		after, err := strategicpatch.StrategicMergeMapPatch(original, change, typed)
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(after, typed)
		}
		if err != nil {
			why = err.Error()
		}
	}
	return wrongPatch(fmt.Appendf(nil, "%+v", change), why)
}

// stepCounter counts down the steps that the library will need at least.
type stepCounter struct{ left int64 }

// Prefixes of keys in a patch that are directives for the list whose name follows.
const (
	setElementOrder         = "$setElementOrder/"
	deleteFromPrimitiveList = "$deleteFromPrimitiveList/"
)

// merge counts the steps of merging a patch into an object. Lists of the object may have grown by
// some items before.
func (s *stepCounter) merge(object, patch map[string]any, schema strategicpatch.LookupPatchMeta, grown int) {
	for key, value := range patch {
		if s.left < 0 {
			return
		}
		switch v := value.(type) {
		// An object is merged member by member, if there is something to merge it with.
		case map[string]any:
			if have, ok := object[key].(map[string]any); ok {
				if sub, _, err := schema.LookupPatchMetadataForStruct(key); err == nil {
					s.merge(have, v, sub, grown)
				}
			}
		// A list is merged by the tags of the Go type: with a strategy, item by item; otherwise it is replaced,
		// which costs nothing.
		case []any:
			name, ordered := strings.CutPrefix(key, setElementOrder)
			name, deletes := strings.CutPrefix(name, deleteFromPrimitiveList)
			have, _ := object[name].([]any)
			also, _ := patch[name].([]any)
			if sub, how, err := schema.LookupPatchMetadataForSlice(name); err == nil &&
				(ordered || deletes || have != nil && slices.Contains(how.GetPatchStrategies(), "merge")) {
				if !ordered && !deletes {
					also = nil // it is v
				}
				s.list(how.GetPatchMergeKey(), grown, have, v, also)
				if !ordered && !deletes {
					s.items(have, v, how.GetPatchMergeKey(), sub, grown)
				}
			}
		}
	}
}

// list counts the steps of merging lists: each item is compared with each, and again whenever the
// result is sorted.
func (s *stepCounter) list(mergeKey string, grown int, lists ...[]any) {
	// A comparison of long keys needs more time: 64 bytes count as one item.
	n, text := int64(grown), int64(0)
	for _, list := range lists {
		n += int64(len(list))
		for _, item := range list {
			if m, ok := item.(map[string]any); ok {
				item = m[mergeKey]
			}
			if key, ok := item.(string); ok {
				text += int64(len(key))
			}
		}
	}
	// Each item is compared with each other one, in log n rounds of sorting and three more passes.
	s.left -= n * int64(bits.Len64(uint64(n))+3) * (n + text/64)
}

// items counts the steps of merging the items of a list that have the same key.
func (s *stepCounter) items(have, patch []any, mergeKey string, schema strategicpatch.LookupPatchMeta, grown int) {
	if mergeKey == "" {
		return
	}
	// Several items may have the same key: the library merges the first.
	byKey := make(map[any]map[string]any, len(have))
	for _, item := range have {
		if m, key, ok := keyed(item, mergeKey); ok && byKey[key] == nil {
			byKey[key] = m
		}
	}
	seen := make(map[any]bool, len(patch))
	for _, item := range patch {
		if _, key, ok := keyed(item, mergeKey); ok && seen[key] {
			// From here on, lists of the object may have as many items more as the patch has in all.
			grown += countItems(patch) // an item is merged with what the one before it made
			break
		} else if ok {
			seen[key] = true
		}
	}
	for _, item := range patch {
		m, key, ok := keyed(item, mergeKey)
		if !ok {
			continue
		}
		if byKey[key] == nil {
			byKey[key] = m
			continue
		}
		s.merge(byKey[key], m, schema, grown)
	}
}

// keyed returns an item of a list and its key: a text, a number or a truth value.
func keyed(item any, mergeKey string) (m map[string]any, key any, ok bool) {
	m, _ = item.(map[string]any)
	key = m[mergeKey]
	switch key.(type) {
	case string, int64, float64, bool:
		return m, key, true
	}
	return nil, nil, false
}

// countItems returns the number of items in all lists of a value.
func countItems(v any) int {
	n := 0
	switch v := v.(type) {
	case []any:
		n += len(v)
		for _, item := range v {
			n += countItems(item)
		}
	case map[string]any:
		for _, member := range v {
			n += countItems(member)
		}
	}
	return n
}
