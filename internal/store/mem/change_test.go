package mem

import (
	"context"
	"errors"
	"testing"

	"github.com/keelson-io/keelson/internal/store"
)

// TestChange holds that a change is made of what is stored, whatever other writers do, and that an error counts
// only for the state of the store.
func TestChange(t *testing.T) {
	ctx, s := t.Context(), New(Options{})
	defer s.Close()
	add := func(text string) func(store.Item) ([]byte, error) {
		return func(now store.Item) ([]byte, error) { return append([]byte(string(now.Value)), text...), nil }
	}
	was, err := store.Change(ctx, s, "k", nil, add("a"))
	if err != nil || string(was.Value) != "a" {
		t.Fatalf("created: got %+v, %v", was, err)
	}
	overtaken := false
	now, err := store.Change(ctx, s, "k", &was, func(now store.Item) ([]byte, error) {
		if !overtaken {
			overtaken = true
			if _, err := store.Change(ctx, s, "k", nil, add("b")); err != nil {
				t.Fatal(err)
			}
		}
		return add("c")(now)
	})
	if err != nil || string(now.Value) != "abc" {
		t.Errorf("overtaken: got %+v, %v", now, err)
	}
	// The caller knows an old state, of which the function thinks that it is wrong.
	wrong := errors.New("wrong")
	got, err := store.Change(ctx, s, "k", &was, func(now store.Item) ([]byte, error) {
		if now.Rev == was.Rev {
			return nil, wrong
		}
		return nil, nil
	})
	if err != nil || got.Rev != now.Rev {
		t.Errorf("outdated: got %+v, %v", got, err)
	}
	if _, err := store.Change(ctx, s, "k", nil, func(store.Item) ([]byte, error) { return nil, wrong }); !errors.Is(err, wrong) {
		t.Errorf("wrong: got %v", err)
	}
	// The function deletes the key, and the value is created anew.
	got, err = store.Change(ctx, s, "k", nil, func(now store.Item) ([]byte, error) {
		if now.Rev == 0 {
			return []byte("new"), nil
		}
		if _, err := s.Delete(context.WithoutCancel(ctx), "k", now.Rev); err != nil {
			return nil, err
		}
		return []byte("unused"), nil
	})
	if err != nil || string(got.Value) != "new" {
		t.Errorf("deleted: got %+v, %v", got, err)
	}
}
