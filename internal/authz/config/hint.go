package config

import (
	"fmt"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// This file adds advice to errors. The samples of KEP-3221, for example, do not load as written.

// Error says why a configuration does not load.
type Error struct {
	Err   error    // in upstream's words
	Hints []string // what to write instead, if known
}

// Error is the reason why a configuration does not load.
func (e *Error) Error() string {
	if len(e.Hints) == 0 {
		return e.Err.Error()
	}
	return e.Err.Error() + "\n  " + strings.Join(e.Hints, "\n  ")
}

// Unwrap returns the error without the hints.
func (e *Error) Unwrap() error { return e.Err }

// newError returns an error with a hint for each known mistake in the text.
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

// member returns the value of a key in a YAML mapping, nil if the key is absent.
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

// text returns the value of a YAML scalar, "" for other nodes.
func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// addHint adds a hint with the line of a node.
func (e *Error) addHint(n *yaml.Node, format string, args ...any) {
	e.Hints = append(e.Hints, fmt.Sprintf("line %d: ", n.Line)+fmt.Sprintf(format, args...))
}

// hintName adds hints about the name of an authorizer.
func (e *Error) hintName(a *yaml.Node, at string, i int, names map[string]bool) {
	kind, name := text(member(a, "type")), text(member(a, "name"))
	switch w := member(a, "webhook"); {
	case kind == Webhook && name == "" && text(member(w, "name")) != "":
		e.addHint(a, "%s: the name is the authorizer's, not the webhook's: write name: %s beside type", at, text(member(w, "name")))
	case kind == Webhook && name == "":
		e.addHint(a, "%s: every authorizer has a name, which metrics and logs show: write for example name: webhook-%d", at, i)
	case kind != Webhook && kind != "" && name != strings.ToLower(kind):
		e.addHint(a, "%s: write name: %s", at, strings.ToLower(kind))
	case names[name]:
		e.addHint(a, "%s: there is another authorizer with the name %s: give this one a name of its own", at, name)
	}
	names[name] = true
}

// hintWebhook adds hints about the fields of a webhook.
func (e *Error) hintWebhook(w *yaml.Node, at string) {
	if kind := member(member(w, "connectionInfo"), "type"); text(kind) == "KubeConfig" {
		e.addHint(kind, "%s.connectionInfo.type: write type: KubeConfigFile", at)
	}
	conditions := member(w, "matchConditions")
	if conditions == nil || conditions.Kind != yaml.SequenceNode || len(conditions.Content) == 0 {
		return
	}
	if member(w, "matchConditionSubjectAccessReviewVersion") == nil {
		e.addHint(conditions, "%s: write matchConditionSubjectAccessReviewVersion: v1", at)
	}
	for i, c := range conditions.Content {
		e.hintExpression(member(c, "expression"), fmt.Sprintf("%s.matchConditions[%d].expression", at, i))
	}
}

// hintExpression adds hints about a match condition: an exclamation mark that YAML reads as a tag,
// and groups of users that conditions cannot see.
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
		e.addHint(n, "%s: YAML takes what follows an exclamation mark for a tag; write it in quotes: %s", at, quote(fixed))
	case fixed != expression:
		e.addHint(n, "%s: request.user is a name; write %s: %s", at, right, quote(fixed))
	}
}

// quote returns a string quoted for YAML.
func quote(s string) string {
	if strings.Contains(s, `"`) {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return strconv.Quote(s)
}
