package apply

import (
	"github.com/keelson-io/keelson/jsondoc"
)

// This file keeps writes that change nothing from changing times.

// IgnoreTimestamps gives the managedFields of new the times of live's if the
// two objects differ in nothing else. It belongs at the end of an update, after
// admission: an object that then equals live need not be stored.
func IgnoreTimestamps(live, new *jsondoc.Doc) {
	if live == nil {
		return
	}
	was, is := managedFieldsOf(live), managedFieldsOf(new)
	if was.Len() == 0 || was.Len() != is.Len() || !onlyTimesDiffer(was, is) || !equalButManaged(live.Root(), new.Root()) {
		return
	}
	new.Set(new.Import(was), "metadata", "managedFields")
}

// onlyTimesDiffer reports whether entries differ in some time and nothing else.
func onlyTimesDiffer(was, is jsondoc.Value) bool {
	differ := false
	for i := range was.Len() { // which is known at once where entries are written more than once in a second
		differ = differ || !jsondoc.Equal(was.Item(i).Get("time"), is.Item(i).Get("time"))
	}
	for i := 0; differ && i < was.Len(); i++ {
		a, b := was.Item(i), is.Item(i)
		differ = a.Kind() == jsondoc.Object && b.Kind() == jsondoc.Object && equalBut(a, b, "time")
	}
	return differ
}

// equalBut reports whether two objects are equal apart from one member, which
// either may lack.
func equalBut(a, b jsondoc.Value, except string) bool {
	n := 0
	for name, v := range a.Members() {
		if name == except {
			continue
		}
		if !jsondoc.Equal(v, b.Get(name)) {
			return false
		}
		n++
	}
	for name := range b.Members() {
		if name != except {
			n--
		}
	}
	return n == 0
}

// equalButManaged reports whether two objects are equal apart from
// metadata.managedFields.
func equalButManaged(a, b jsondoc.Value) bool {
	return equalBut(a, b, "metadata") && equalBut(a.Get("metadata"), b.Get("metadata"), "managedFields")
}
