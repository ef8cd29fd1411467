package quota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// This file calculates with lists of resources.

// Add returns the sum of two lists.
func Add(a, b corev1.ResourceList) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for name, q := range a {
		q = q.DeepCopy()
		if other, ok := b[name]; ok {
			q.Add(other)
		}
		sum[name] = q
	}
	for name, q := range b {
		if _, ok := sum[name]; !ok {
			sum[name] = q.DeepCopy()
		}
	}
	return sum
}

// growth returns by how much a exceeds b, without what does not exceed it.
func growth(a, b corev1.ResourceList) corev1.ResourceList {
	more := corev1.ResourceList{}
	for name, q := range a {
		q = q.DeepCopy()
		if other, ok := b[name]; ok {
			q.Sub(other)
		}
		if q.Sign() > 0 {
			more[name] = q
		}
	}
	return more
}

// Mask returns the members of a list that are named.
func Mask(list corev1.ResourceList, names []corev1.ResourceName) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range names {
		if q, ok := list[name]; ok {
			out[name] = q
		}
	}
	return out
}

// Names returns the names of a list, sorted.
func Names(list corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(list)) }

// Equal reports whether two lists have the same names and quantities.
func Equal(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

// beyond returns the names of which a list has more than the limit, sorted. A name without a limit is
// not limited.
func beyond(list, limit corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for _, name := range Names(list) {
		most, ok := limit[name]
		if q := list[name]; ok && q.Cmp(most) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// text returns a list for an error.
func text(list corev1.ResourceList) string {
	var parts []string
	for _, name := range Names(list) {
		q := list[name]
		parts = append(parts, string(name)+"="+q.String())
	}
	return strings.Join(parts, ",")
}

// joined returns names for an error, sorted.
func joined(names []corev1.ResourceName) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = string(name)
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// count returns a number of objects.
func count(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

// None returns a list that has nothing of a resource.
func None(name corev1.ResourceName) corev1.ResourceList { return corev1.ResourceList{name: count(0)} }

// Times returns a list for n objects that use the same numbers of objects.
func Times(list corev1.ResourceList, n int) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name := range list {
		out[name] = count(n)
	}
	return out
}
