package objects

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/keelson-io/keelson/internal/builtin"
	"github.com/keelson-io/keelson/internal/status"
)

// This file sends wrong directives of strategic merge patches to every list of every built-in kind.

// sweep visits the lists of Go types, each field of each type once.
type sweep struct {
	seen  map[reflect.Type]bool
	visit func(field, mergeKey string, wrap func(string) string)
}

// walk goes through a struct. wrap puts the text of such a struct where the struct is in an object.
func (w *sweep) walk(t reflect.Type, wrap func(string) string) {
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch {
		case name == "" && f.Anonymous && of.Kind() == reflect.Struct:
			w.walk(of, wrap)
		case name == "" || name == "-":
		case of.Kind() == reflect.Struct:
			w.walk(of, func(text string) string { return wrap(fmt.Sprintf(`{%q:%s}`, name, text)) })
		case of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Uint8:
			key := f.Tag.Get("patchMergeKey")
			w.visit(name, key, wrap)
			if item := of.Elem(); item.Kind() == reflect.Struct {
				w.walk(item, func(text string) string {
					if key != "" {
						text = fmt.Sprintf(`{%q:%s,%s`, key, keyOf(item, key), text[1:])
					}
					return wrap(fmt.Sprintf(`{%q:[%s]}`, name, text))
				})
			}
		}
	}
}

// keyOf is a value for a merge key.
func keyOf(item reflect.Type, key string) string {
	for i := range item.NumField() {
		if name, _, _ := strings.Cut(item.Field(i).Tag.Get("json"), ","); name == key && item.Field(i).Type.Kind() != reflect.String {
			return "1"
		}
	}
	return `"a"`
}

// TestDirectivesOfEveryList holds that a directive that the library does not understand is the client's mistake.
// Ledger: hostile-directives.
func TestDirectivesOfEveryList(t *testing.T) {
	values := []string{`1`, `[1,null,{}]`, `null`, `{"a":1}`, `[1]`, `[null]`, `[[]]`, `[{}]`, `["a",1]`, `[{"$patch":1}]`, `[{"$patch":"delete"}]`, `[{"$patch":"replace"},1]`}
	kinds, lists, refused := 0, 0, 0
	w := &sweep{seen: map[reflect.Type]bool{}}
	for _, k := range builtin.All(nil) {
		for _, v := range k.Versions {
			if !v.Kind.Behavior.HasGoType() {
				continue
			}
			typed := typedObject(v)
			kinds++
			w.visit = func(field, key string, wrap func(string) string) {
				lists++
				try := func(object, patch string) {
					_, err := strategic(context.Background(), []byte(wrap(object)), []byte(wrap(patch)), typed)
					switch {
					case err == nil:
					case status.From(err).Code >= http.StatusInternalServerError:
						t.Errorf("%s: object %s, patch %s: %v, want a refusal", k.Name, wrap(object), wrap(patch), err)
					case status.From(err).Code == http.StatusBadRequest:
						refused++
					}
				}
				have := fmt.Sprintf(`{%q:["a"]}`, field)
				odd := values
				if key != "" {
					have = fmt.Sprintf(`{%q:[{%q:"a"}]}`, field, key)
					odd = append(odd[:len(odd):len(odd)], fmt.Sprintf(`[{%q:{}}]`, key), fmt.Sprintf(`[{%q:[1]},{%[1]q:"a","$patch":{}}]`, key),
						fmt.Sprintf(`[{%q:"a","$retainKeys":[{}]}]`, key))
				}
				for _, value := range odd {
					for _, name := range []string{field, "$setElementOrder/" + field, "$deleteFromPrimitiveList/" + field, "$retainKeys", "$patch"} {
						patch := fmt.Sprintf(`{%q:%s}`, name, value)
						try(have, patch)
						if name == "$setElementOrder/"+field {
							try(have, fmt.Sprintf(`{%q:%s,%q:%s}`, name, value, field, have[strings.Index(have, ":")+1:len(have)-1]))
						}
						if name != "$patch" {
							try(fmt.Sprintf(`{%q:%s}`, field, value), patch)
						}
					}
				}
			}
			w.walk(reflect.TypeOf(typed).Elem(), func(text string) string { return text })
		}
	}
	t.Logf("%d kinds, %d lists, %d patches refused", kinds, lists, refused)
	if lists < 300 || refused == 0 {
		t.Errorf("%d lists, %d patches refused: the sweep sweeps nothing", lists, refused)
	}
}
