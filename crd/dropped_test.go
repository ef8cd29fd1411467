package crd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema"
)

// versionsDoc returns a definition with some versions, as a document.
func versionsDoc(t *testing.T, spec string) *jsondoc.Doc {
	t.Helper()
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, []byte(`{"spec":{"group":"demo.io","names":{"plural":"docs"},`+spec+`}}`)); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDroppedVersionsEnd holds that the stored objects are looked at only if a version is dropped,
// and for a bounded time.
func TestDroppedVersionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := versionsDoc(t, `"versions":[{"name":"v1"},{"name":"v2"}]`)
		one := versionsDoc(t, `"versions":[{"name":"v2"}]`)
		beta := versionsDoc(t, `"version":"v2"`)
		looks := 0
		c := &Compiler{Stored: func(ctx context.Context, group, plural string, fn func(string, []byte) bool) error {
			looks++
			if group != "demo.io" || plural != "docs" {
				t.Errorf("got %s.%s", plural, group)
			}
			<-ctx.Done()
			return ctx.Err()
		}}
		for what, err := range map[string]error{
			"no version is dropped":       second(c.checkDropped(t.Context(), both, one, schema.Whole)),
			"the same version in v1beta1": second(c.checkDropped(t.Context(), beta, one, schema.Whole)),
			"a write of the status":       second(c.checkDropped(t.Context(), one, both, schema.Status)),
			"no store":                    second(new(Compiler).checkDropped(t.Context(), one, both, schema.Whole)),
			"no compiler":                 second((*Compiler)(nil).checkDropped(t.Context(), one, both, schema.Whole)),
		} {
			if err != nil || looks > 0 {
				t.Errorf("%s: got %v after %d looks at the store, want none", what, err, looks)
			}
		}
		began := time.Now()
		if _, err := c.checkDropped(t.Context(), one, both, schema.Whole); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != maxCheck {
			t.Errorf("got %v after %v, want a timeout after %v", err, time.Since(began), maxCheck)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		endless := &Compiler{Stored: func(_ context.Context, _, _ string, fn func(string, []byte) bool) error {
			for fn("d", []byte(`{"apiVersion":"demo.io/v1"}`)) {
				time.Sleep(time.Millisecond)
			}
			return nil
		}}
		if _, err := endless.checkDropped(ctx, beta, both, schema.Whole); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("endless objects: got %v, want a timeout", err)
		}
	})
	three := &Compiler{Stored: func(_ context.Context, _, _ string, fn func(string, []byte) bool) error {
		for name, raw := range map[string]string{"a": `{"apiVersion":"demo.io/v1"}`, "b": `{"kind":"Doc","x":1,"apiVersion":"demo.io/v2"}`, "c": `{"apiVersion":"demo.io/v3"}`, "d": "damaged"} {
			fn(name, []byte(raw))
		}
		return nil
	}}
	errs, err := three.checkDropped(t.Context(), versionsDoc(t, `"versions":[{"name":"v3"}]`), versionsDoc(t, `"versions":[{"name":"v2"},{"name":"v1"},{"name":"v3"}]`), schema.Whole)
	if err != nil || len(errs) != 2 || !strings.Contains(errs[0].Detail, "1 object is still stored as demo.io/v2, such as b,") || !strings.Contains(errs[1].Detail, "stored as demo.io/v1, such as a,") {
		t.Errorf("got %v, %v, want an error for each version", errs, err)
	}
}

func second[T any](_ T, err error) error { return err }
