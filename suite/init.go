package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/keelson-io/keelson/internal/witness"
)

// This file writes a first suite for a definition: the smallest accepted and the smallest refused
// object of each rule.

// Init returns the text of a suite for a definition, which is in the file crd relative to the suite.
// It has two cases for each rule of each served version, and a comment for each witness that was not
// found. All cases pass. It calls step, unless that is nil, after each rule. The context ends it.
func Init(ctx context.Context, def *apiextv1.CustomResourceDefinition, crd string, o InitOptions, step func()) ([]byte, error) {
	text, err := json.Marshal(def)
	if err != nil {
		return nil, err
	}
	kinds, err := NewKinds(text)
	if err != nil {
		return nil, err
	}
	defer kinds.Close()
	versions, err := witness.Versions(def, o)
	if err != nil {
		return nil, err
	}
	w := initial{ctx: ctx, kinds: kinds, names: map[string]int{}}
	fmt.Fprintf(&w.out, "# The smallest accepted and the smallest refused object of each rule. Add cases of your own.\ncrd: %s\ncases:\n", quoted(crd))
	for _, v := range versions {
		if !v.Served {
			continue
		}
		if err := w.version(&v, step); err != nil {
			return nil, err
		}
	}
	if w.cases == 0 {
		return nil, fmt.Errorf("%s: got no rule and no valid object in a served version, want one for a case", def.Name)
	}
	return w.out.Bytes(), nil
}

// initial is one call of Init.
type initial struct {
	ctx   context.Context
	kinds *Kinds
	out   bytes.Buffer
	names map[string]int // of cases
	cases int
}

// version writes the cases of a version.
func (w *initial) version(v *witness.Version, step func()) error {
	if least := v.Search.Minimal(w.ctx); least != nil {
		if err := w.add(v, v.Name+": the smallest object", least, nil, true, ""); err != nil {
			return err
		}
	}
	for _, rule := range v.Search.Rules() {
		pair := v.Search.Both(w.ctx, rule)
		if w.ctx.Err() != nil {
			return w.ctx.Err()
		}
		name := v.Name + " " + title(rule)
		for _, one := range []struct {
			verb   string
			result *witness.Result
			accept bool
		}{{"accepts", &pair.Accepted, true}, {"refuses", &pair.Refused, false}} {
			if one.result.Object == nil {
				fmt.Fprintf(&w.out, "# %s %s: %s\n", oneLine(name), one.verb, oneLine(one.result.Reason))
				continue
			}
			if err := w.add(v, name+" "+one.verb, one.result.Object, one.result.Old, one.accept, rule.Message); err != nil {
				return err
			}
		}
		if step != nil {
			step()
		}
	}
	return nil
}

// title names a rule: its place, and its text or message.
func title(r witness.Rule) string {
	text := r.Message
	if text == "" {
		text = r.ValidationRule.Rule
	}
	return strings.TrimSpace(strings.TrimPrefix(r.Path, ".") + ": " + text)
}

// add writes a case, with the answer of the server as its expectation. An object that the server
// decides otherwise about becomes a comment.
func (w *initial) add(v *witness.Version, name string, object, old []byte, accept bool, message string) error {
	c := Case{Name: w.unique(oneLine(name)), Object: object}
	if old != nil {
		c = Case{Name: c.Name, Initial: old, Updated: object}
	}
	if v.StatusSubresource && hasStatus(object) {
		if c = (Case{Name: c.Name, Initial: old, Updated: object, Options: Options{Subresource: "status"}}); old == nil {
			c.Initial = withoutStatus(object)
		}
	}
	var answer *Outcome
	var err error
	if c.Object != nil {
		answer, err = w.kinds.Create(w.ctx, c.Object, c.Options)
	} else {
		answer, err = w.kinds.Update(w.ctx, c.Initial, c.Updated, c.Options)
	}
	switch {
	case err != nil:
		return err
	case accept != (answer.Refusal == nil):
		fmt.Fprintf(&w.out, "# %s: the server ignores a part of the object that the rule needs\n", c.Name)
		return nil
	}
	w.cases++
	fmt.Fprintf(&w.out, "- name: %s\n", quoted(c.Name))
	if c.Options.Subresource != "" {
		fmt.Fprintf(&w.out, "  subresource: %s\n", c.Options.Subresource)
	}
	w.object("object", c.Object)
	w.object("initial", c.Initial)
	w.object("updated", c.Updated)
	if accept {
		w.object("stored", withoutServerFields(answer.Object, nil))
		return nil
	}
	text := strings.TrimSpace(message)
	if text == "" || !strings.Contains(answer.Refusal.Message, text) {
		text = answer.Refusal.Message
	}
	fmt.Fprintf(&w.out, "  error: %s\n", quoted(text))
	return nil
}

// unique returns a name that no case has yet.
func (w *initial) unique(name string) string {
	if w.names[name]++; w.names[name] > 1 {
		return w.unique(name + " (" + strconv.Itoa(w.names[name]) + ")")
	}
	return name
}

// object writes an object in a case, unless it is nil.
func (w *initial) object(key string, object []byte) {
	if object == nil {
		return
	}
	text, err := yamlOf(object)
	if err != nil {
		panic("BUG: an object that is not JSON: " + err.Error())
	}
	fmt.Fprintf(&w.out, "  %s:\n    %s\n", key, strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    "))
}

// quoted returns a text as a YAML scalar on one line.
func quoted(text string) string {
	b, err := kyaml.Marshal(text)
	if err != nil || bytes.Count(b, []byte("\n")) > 1 || strings.HasPrefix(string(b), "|") || strings.HasPrefix(string(b), ">") {
		b, _ = json.Marshal(text)
	}
	return strings.TrimSpace(string(b))
}

// oneLine returns a text without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// hasStatus reports whether an object has a status.
func hasStatus(object []byte) bool {
	var o struct{ Status json.RawMessage }
	return json.Unmarshal(object, &o) == nil && o.Status != nil
}

// withoutStatus returns an object without its status.
func withoutStatus(object []byte) []byte {
	var o map[string]json.RawMessage
	if json.Unmarshal(object, &o) != nil {
		return object
	}
	delete(o, "status")
	b, err := json.Marshal(o)
	if err != nil {
		return object
	}
	return b
}
