package apply

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keelson-io/keelson/internal/fastpath"

	"github.com/keelson-io/keelson/internal/status"
	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file tests large lists: what they cost, and that they are tracked like small ones.

// lists returns the Manager of a kind with a set, a map list and a map.
func lists(t testing.TB) *Manager {
	t.Helper()
	text := func() *structural.Schema { return &structural.Schema{Type: "string"} }
	object := func(properties map[string]*structural.Schema, names ...string) *structural.Schema {
		return &structural.Schema{Type: "object", Properties: properties, Names: names}
	}
	item := object(map[string]*structural.Schema{"name": text(), "v": text()}, "name", "v")
	spec := object(map[string]*structural.Schema{
		"set":    {Type: "array", ListType: "set", Items: text()},
		"list":   {Type: "array", ListType: "map", ListMapKeys: []string{"name"}, Items: item},
		"labels": {Type: "object", Additional: text()},
	}, "labels", "list", "set")
	m, err := New(Config{Group: "g", Kind: "K", Version: "v1", Versions: []Version{{Name: "v1", Schema: object(map[string]*structural.Schema{"spec": spec}, "spec")}}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// listObject returns an object of lists with so many items, or members, all with the same value.
func listObject(field string, n int, reversed bool, value string) string {
	var items []string
	for i := range n {
		switch field {
		case "set":
			items = append(items, fmt.Sprintf(`"%06d"`, i))
		case "list":
			items = append(items, fmt.Sprintf(`{"name":"%06d","v":"%s"}`, i, value))
		case "labels":
			items = append(items, fmt.Sprintf(`"%06d":"%s"`, i, value))
		}
	}
	if reversed {
		slices.Reverse(items)
	}
	v := "[" + strings.Join(items, ",") + "]"
	if field == "labels" {
		v = "{" + v[1:len(v)-1] + "}"
	}
	return fmt.Sprintf(`{"apiVersion":"g/v1","kind":"K","metadata":{"name":"a"},"spec":{"%s":%s}}`, field, v)
}

// parsed returns a live object.
func parsed(t testing.TB, text string) *jsondoc.Doc {
	t.Helper()
	d := new(jsondoc.Doc)
	if err := jsondoc.Parse(d, []byte(text)); err != nil {
		t.Fatal(err)
	}
	d.Set(d.NewString("u"), "metadata", "uid")
	return d
}

// processorTime returns the processor time that the process has taken.
func processorTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestHeavyApplies applies an object with many items and then another one over it. The bound on processor time is several times
// what it takes; without bounds on work the reversed lists take more than 10 s.
// Ledger: apply-work.
func TestHeavyApplies(t *testing.T) {
	fastpath.Direct.Need(t)
	m := lists(t)
	for _, c := range []struct {
		field    string
		n        int
		reversed bool
		value    string
		want     int // status code
	}{
		{"set", 50_000, false, "", http.StatusOK},
		{"set", 50_000, true, "", http.StatusRequestEntityTooLarge},
		{"set", 8_000, true, "", http.StatusOK},
		{"list", 50_000, false, "a", http.StatusOK},
		{"list", 50_000, false, "b", http.StatusRequestEntityTooLarge},
		{"list", 50_000, true, "a", http.StatusRequestEntityTooLarge},
		{"list", 15_000, false, "b", http.StatusConflict},
		{"list", 8_000, true, "b", http.StatusConflict},
		{"labels", 50_000, true, "a", http.StatusOK},
		{"labels", 50_000, false, "b", http.StatusConflict},
	} {
		name := fmt.Sprintf("%s of %d, reversed %v, value %q", c.field, c.n, c.reversed, c.value)
		first, err := m.Apply(nil, []byte(listObject(c.field, c.n, false, "a")), Options{Manager: "m", Time: at})
		if err != nil {
			t.Fatal(err)
		}
		live := parsed(t, string(first))
		patch := []byte(listObject(c.field, c.n, c.reversed, c.value))
		start := processorTime()
		_, err = m.Apply(live, patch, Options{Manager: "other", Time: at})
		took := processorTime() - start
		t.Logf("%s: %v", name, took)
		if took > 5*time.Second {
			t.Errorf("%s: took %v of processor time, want 5s at most", name, took)
		}
		code, size := http.StatusOK, 0
		if err != nil {
			got := status.From(err).Status
			code, size = int(got.Code), len(got.Message)
			if got.Details != nil {
				for _, cause := range got.Details.Causes {
					size += len(cause.Field) + len(cause.Message)
				}
			}
		}
		if code != c.want {
			t.Errorf("%s: got status %d (%.200v), want %d", name, code, err, c.want)
		}
		if size > 3*maxConflictText {
			t.Errorf("%s: the error has %d bytes, want %d at most", name, size, 3*maxConflictText)
		}
	}
}

// TestLargeUpdates replaces an object in a way that is not plain: a member becomes null.
func TestLargeUpdates(t *testing.T) {
	fastpath.Direct.Need(t)
	m := lists(t)
	for n, want := range map[int]error{2_000: nil, 50_000: status.TooLarge("tracking the managers of fields takes too many steps")} {
		first, err := m.Apply(nil, []byte(strings.Replace(listObject("set", n, false, ""), `"spec":{`, `"spec":{"labels":{"a":"b"},`, 1)), Options{Manager: "m", Time: at})
		if err != nil {
			t.Fatal(err)
		}
		live := parsed(t, string(first))
		next := parsed(t, strings.Replace(listObject("set", n, true, ""), `"spec":{`, `"spec":{"labels":null,`, 1))
		next.Set(next.Import(managedFieldsOf(live)), "metadata", "managedFields")
		if m.updateDirect(live, next, &Options{Manager: "m", Time: at}) {
			t.Fatalf("%d items: the direct way was taken", n)
		}
		err = m.Update(live, next, Options{Manager: "m", Time: at})
		if (err == nil) != (want == nil) || want != nil && !strings.Contains(err.Error(), strings.TrimPrefix(want.Error(), "Request entity too large: ")) {
			t.Errorf("%d items: got %v, want %v", n, err, want)
		}
	}
}

// TestManyConflicts is about the text of conflicts: all of them if they are few, some if they are many.
// Ledger: apply-conflicts.
func TestManyConflicts(t *testing.T) {
	m := lists(t)
	for n, want := range map[int]string{100: "\n- .spec.labels.000099", 50_000: ""} {
		first, err := m.Apply(nil, []byte(listObject("labels", n, false, "a")), Options{Manager: "m", Time: at})
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Apply(parsed(t, string(first)), []byte(listObject("labels", n, false, "b")), Options{Manager: "other", Time: at})
		got := status.From(err).Status
		listed := len(got.Details.Causes)
		if n > 100 {
			want = fmt.Sprintf("\nand %d more", n-listed)
		}
		if !strings.HasPrefix(got.Message, fmt.Sprintf("Apply failed with %d conflicts: conflicts with \"m\":\n- .spec.labels.000000\n- .spec.labels.000001\n", n)) ||
			!strings.HasSuffix(got.Message, want) || strings.Count(got.Message, "\n- ") != listed || listed < min(n, 1000) {
			t.Errorf("%d conflicts: got %d causes and %.100q … %q, want the end %q", n, listed, got.Message, got.Message[max(0, len(got.Message)-40):], want)
		}
	}
}

// TestLargeListsAreTrackedDirectly compares the direct ways with SMD for lists that are looked up by an index.
func TestLargeListsAreTrackedDirectly(t *testing.T) {
	m := lists(t)
	const n = 3 * fewItems
	o := Options{Manager: "other", Time: at}
	for _, field := range []string{"set", "list"} {
		first, err := m.Apply(nil, []byte(listObject(field, n, false, "a")), Options{Manager: "m", Time: at})
		if err != nil {
			t.Fatal(err)
		}
		live := parsed(t, string(first))
		for name, next := range map[string]string{
			"reversed": listObject(field, n, true, "a"), "shorter": listObject(field, n-9, false, "a"),
			"longer": listObject(field, n+9, true, "a"), "other values": listObject(field, n-1, true, "b"),
		} {
			fresh := func() *jsondoc.Doc {
				d := parsed(t, next)
				d.Set(d.Import(managedFieldsOf(live)), "metadata", "managedFields")
				return d
			}
			direct, plain := both(t, m, live, fresh, o)
			if direct != plain {
				t.Errorf("%s, %s:\ndirect %s\nplain  %s", field, name, direct, plain)
			}
		}
		direct, plain := bothApply(t, m, live, listObject(field, n, false, "a"), o)
		if direct != plain {
			t.Errorf("%s, applied:\ndirect %s\nplain  %s", field, direct, plain)
		}
		twice := strings.Replace(listObject(field, n, false, "a"), `"000000"`, `"000001"`, 1)
		if m.updateDirect(live, parsed(t, twice), &o) {
			t.Errorf("%s: an item that is there twice was tracked directly", field)
		}
	}
}
