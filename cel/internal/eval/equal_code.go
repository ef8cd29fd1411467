package eval

import (
	"github.com/keelson-io/keelson/cel/internal/val"
	"github.com/keelson-io/keelson/jsondoc"
)

// This file compares lists, maps and objects of documents that are read directly.

// equalData returns the test == or != of two lists, maps or objects of one type that are read
// directly, nil for other operands.
func equalData(a, b *code, negated bool, general val.TestFn) val.TestFn {
	x, ok := directData(a)
	if !ok || a.param != b.param {
		return nil
	}
	y, ok := directData(b)
	if !ok {
		return nil
	}
	t, kind, units := a.param, val.JSONKind[a.param.Kind], x.units+y.units
	if len(x.slots) == 0 && len(y.slots) == 0 && t.Kind == val.Object {
		return equalVariables(x.slot, y.slot, t, units, negated, general)
	}
	return func(fr *val.Frame) val.Tri {
		da, m := x.container(fr)
		db, n := y.container(fr)
		if m.Kind() != kind || n.Kind() != kind {
			return general(fr)
		}
		same, size := val.Sides{A: da, B: db, Known: fr.Knows(da, db)}.Sized(m, n, t)
		if same == val.Bad {
			return general(fr)
		}
		fr.Cost += units + val.Tenth(uint64(size))
		return val.Truth((same == val.Yes) != negated)
	}
}

// equalVariables is equalData for two variables that are objects.
//
//go:noinline
func equalVariables(i, j int32, t *val.Type, units uint64, negated bool, general val.TestFn) val.TestFn {
	return func(fr *val.Frame) val.Tri {
		x, y := &fr.Slots[i], &fr.Slots[j]
		if x.Typ != t || y.Typ != t || x.Flag != val.FlagFromDoc || y.Flag != val.FlagFromDoc {
			return general(fr)
		}
		da, db := (*jsondoc.Doc)(x.Ptr), (*jsondoc.Doc)(y.Ptr)
		same, size := val.Sides{A: da, B: db, Known: fr.Knows(da, db)}.Sized(x.Node, y.Node, t)
		if same == val.Bad {
			return general(fr)
		}
		fr.Cost += units + val.Tenth(uint64(size))
		return val.Truth((same == val.Yes) != negated)
	}
}
