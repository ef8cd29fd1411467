// Package texts bounds the errors and warnings of one request while they are made. An item of three
// bytes may have several errors, and an error may name everything that would have been valid, so that
// the texts about a body may be many times as long as the body.
//
// The checks of built-in kinds go through the lists of an object with [Each], [Until] or [EachOf]: the
// loop ends after the item with which the list of errors becomes longer than [Most]. The last error says
// so. A Status ends at the same length, so clients see the same errors as without the bound. [Warnings]
// does the same for warnings.
package texts

import (
	"iter"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Most is the number of bytes of the errors, or of the warnings, of one object after which the list ends.
const Most = 1 << 20

// leastText is the length of the shortest error beside its field, value and detail: ": Forbidden".
const leastText = 11

// origin marks the last error of a list that was cut. Clients do not see it.
const origin = "keelson/more"

// More returns the last error of a list that was cut.
func More() *field.Error {
	return field.Invalid(nil, field.OmitValueType{}, "there are more errors than are listed").WithOrigin(origin)
}

// IsMore reports whether err ends a list that was cut.
func IsMore(err *field.Error) bool { return err.Origin == origin }

// Budget counts the text of a list of errors. Its zero value is not valid: see [Over].
type Budget struct {
	errs *field.ErrorList
	seen int // errors that are counted
	size int // bytes of their text
}

// Over returns the budget of a list of errors. The loops of one function over the lists in one another
// share it.
func Over(errs *field.ErrorList) *Budget { return &Budget{errs: errs} }

// isSpent reports whether the list is long enough, and ends it then.
func (b *Budget) isSpent() bool {
	if len(*b.errs) < b.seen { // the check took errors back
		b.seen, b.size = 0, 0
	}
	for ; b.seen < len(*b.errs); b.seen++ {
		b.size += size((*b.errs)[b.seen])
	}
	if b.size <= Most {
		return false
	}
	if last := (*b.errs)[b.seen-1]; !IsMore(last) {
		*b.errs = append(*b.errs, More())
	}
	return true
}

// size returns a length that the text of err has at least.
func size(err *field.Error) int {
	n := len(err.Field) + len(err.Detail) + leastText
	switch err.Type {
	case field.ErrorTypeInvalid, field.ErrorTypeNotSupported, field.ErrorTypeNotFound, field.ErrorTypeDuplicate:
		if v := reflect.ValueOf(err.BadValue); v.Kind() == reflect.String && err.BadValue != (field.OmitValueType{}) {
			n += v.Len()
		}
	}
	return n
}

// Each returns the items of a list, until the errors have more text than a Status lists.
func Each[T any](errs *field.ErrorList, list []T) iter.Seq2[int, T] { return EachOf(Over(errs), list) }

// EachOf is Each for loops that share a budget.
func EachOf[T any](b *Budget, list []T) iter.Seq2[int, T] { return until(b, slices.All(list)) }

// Until is Each for a sequence.
func Until[K, V any](errs *field.ErrorList, seq iter.Seq2[K, V]) iter.Seq2[K, V] {
	return until(Over(errs), seq)
}

func until[K, V any](b *Budget, seq iter.Seq2[K, V]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for k, v := range seq {
			if b.isSpent() || !yield(k, v) {
				return
			}
		}
	}
}

// Once returns the errors without repeated ones, which have the same path and text. It cuts what has more
// text than a Status lists.
func Once(errs field.ErrorList) field.ErrorList {
	said, size := map[string]bool{}, 0
	for i, err := range errs {
		if size > Most {
			errs = append(errs[:i:i], More())
			break
		}
		size += len(err.Error())
	}
	return slices.DeleteFunc(errs, func(e *field.Error) bool {
		text := e.Error()
		again := said[text]
		said[text] = true
		return again
	})
}

// Warnings are those of one request. The list ends after Most bytes of text.
type Warnings struct {
	list []string
	size int
}

// Add adds warnings. Once the list is full, it adds nothing.
func (w *Warnings) Add(warnings ...string) {
	for _, text := range warnings {
		if w.Full() {
			return
		}
		w.list = append(w.list, text)
		if w.size += len(text); w.Full() {
			w.list = append(w.list, "there are more warnings than are listed")
		}
	}
}

// Full reports whether the list has ended, so that no further warnings need be made.
func (w *Warnings) Full() bool { return w.size > Most }

// List returns the warnings.
func (w *Warnings) List() []string { return w.list }
