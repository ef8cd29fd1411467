package kind

import (
	"fmt"
	"testing"
)

// This file tests the registry.

func TestRegistry(t *testing.T) {
	r := new(Registry)
	if r.Load().Lookup("a", "b") != nil || r.Load().Len() != 0 {
		t.Error("empty registry has something")
	}
	before := r.Load()
	for i := range 3000 {
		r.Put(&Kind{Group: fmt.Sprintf("g%d.io", i%7), Plural: fmt.Sprint("p", i), UID: "1"})
	}
	s := r.Load()
	if before.Len() != 0 || s.Len() != 3000 || s.Rev != 3000 || len(s.Groups()) != 7 {
		t.Errorf("got %d kinds, revision %d, groups %v", s.Len(), s.Rev, s.Groups())
	}
	for i := range 3000 {
		if k := s.Lookup(fmt.Sprintf("g%d.io", i%7), fmt.Sprint("p", i)); k == nil || k.Plural != fmt.Sprint("p", i) {
			t.Fatalf("kind %d: got %v", i, k)
		}
	}
	n := 0
	for k := range s.InGroup("g3.io") {
		if n++; k.Group != "g3.io" {
			t.Errorf("got %s", k.Group)
		}
	}
	if n != 3000/7+1 {
		t.Errorf("got %d kinds in the group", n)
	}
	old := s.Lookup("g0.io", "p0")
	r.Put(&Kind{Group: "g0.io", Plural: "p0", UID: "2"})
	r.Remove(old)
	if k := r.Load().Lookup("g0.io", "p0"); k == nil || k.UID != "2" {
		t.Errorf("removing a kind took its successor: %v", k)
	}
	r.Remove(r.Load().Lookup("g0.io", "p0"))
	if r.Load().Lookup("g0.io", "p0") != nil || r.Load().Len() != 2999 || s.Len() != 3000 {
		t.Error("kind is not removed, or from an older snapshot too")
	}
}
