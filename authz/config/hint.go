package config

import (
	"fmt"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// This file says what to write instead. KEP-3221's own samples are among what
// does not load.

// Error is why a configuration does not load.
type Error struct {
	Err   error    // in upstream's words
	Hints []string // what to write instead, where that is known
}

// Error is what is wrong, and on further lines what to write instead.
func (e *Error) Error() string {
	if len(e.Hints) == 0 {
		return e.Err.Error()
	}
	return e.Err.Error() + "\n  " + strings.Join(e.Hints, "\n  ")
}

// Unwrap is the error without the hints.
func (e *Error) Unwrap() error { return e.Err }

func newError(text []byte, err error) *Error {
	e := &Error{Err: err}
	var root yaml.Node
	if yaml.Unmarshal(text, &root) != nil || len(root.Content) == 0 {
		return e
	}
	list := member(root.Content[0], "authorizers")
	if list == nil || list.Kind != yaml.SequenceNode {
		return e
	}
	names := map[string]bool{}
	for i, a := range list.Content {
		at := "authorizers[" + strconv.Itoa(i) + "]"
		e.hintName(a, at, i, names)
		if w := member(a, "webhook"); w != nil {
			e.hintWebhook(w, at+".webhook")
		}
	}
	return e
}

// member is the value of a key of a mapping, nil if there is none.
func member(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

func (e *Error) say(n *yaml.Node, format string, args ...any) {
	e.Hints = append(e.Hints, fmt.Sprintf("line %d: ", n.Line)+fmt.Sprintf(format, args...))
}

// hintName is about an authorizer's name.
func (e *Error) hintName(a *yaml.Node, at string, i int, names map[string]bool) {
	kind, name := text(member(a, "type")), text(member(a, "name"))
	switch w := member(a, "webhook"); {
	case kind == Webhook && name == "" && text(member(w, "name")) != "":
		e.say(a, "%s: the name is the authorizer's, not the webhook's: write name: %s beside type", at, text(member(w, "name")))
	case kind == Webhook && name == "":
		e.say(a, "%s: every authorizer has a name, which metrics and logs show: write for example name: webhook-%d", at, i)
	case kind != Webhook && kind != "" && name != strings.ToLower(kind):
		e.say(a, "%s: write name: %s", at, strings.ToLower(kind))
	case names[name]:
		e.say(a, "%s: there is another authorizer with the name %s: give this one a name of its own", at, name)
	}
	names[name] = true
}

// hintWebhook is about a webhook's fields.
func (e *Error) hintWebhook(w *yaml.Node, at string) {
	if kind := member(member(w, "connectionInfo"), "type"); text(kind) == "KubeConfig" {
		e.say(kind, "%s.connectionInfo.type: write type: KubeConfigFile", at)
	}
	conditions := member(w, "matchConditions")
	if conditions == nil || conditions.Kind != yaml.SequenceNode || len(conditions.Content) == 0 {
		return
	}
	if member(w, "matchConditionSubjectAccessReviewVersion") == nil {
		e.say(conditions, "%s: write matchConditionSubjectAccessReviewVersion: v1", at)
	}
	for i, c := range conditions.Content {
		e.hintExpression(member(c, "expression"), fmt.Sprintf("%s.matchConditions[%d].expression", at, i))
	}
}

// hintExpression is about a condition: an exclamation mark that YAML takes for
// a tag, and users' groups where there are none.
func (e *Error) hintExpression(n *yaml.Node, at string) {
	if n == nil || n.Kind != yaml.ScalarNode {
		return
	}
	const wrong, right = "request.user.groups", "request.groups"
	tagged := strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!")
	expression := n.Value
	if tagged {
		expression = n.Tag + " " + n.Value
	}
	switch fixed := strings.ReplaceAll(expression, wrong, right); {
	case tagged:
		e.say(n, "%s: YAML takes what follows an exclamation mark for a tag; write it in quotes: %s", at, quote(fixed))
	case fixed != expression:
		e.say(n, "%s: request.user is a name; write %s: %s", at, right, quote(fixed))
	}
}

// quote is a text as YAML reads it back.
func quote(s string) string {
	if strings.Contains(s, `"`) {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return strconv.Quote(s)
}
