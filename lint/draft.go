package lint

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/keelson-io/keelson/cel"
	"github.com/keelson-io/keelson/schema"
	"github.com/keelson-io/keelson/schema/structural"
)

// This file finds rules in the form of KEP-2876's first draft, and translates them.

// draftKey was the draft's name of x-kubernetes-validations. Its rules named properties without
// self.
const draftKey = "x-kubernetes-validator"

// environment is the environment in which rules are compiled.
var environment = sync.OnceValues(func() (*cel.Env, error) { return cel.NewEnv(cel.EnvOptions{}) })

// drafts finds rules under the draft's name.
func (d *Definition) drafts() []Finding {
	var out []Finding
	_, versions, ok := d.text.Walk("spec.versions")
	if !ok || versions.Kind != yaml.SequenceNode {
		return nil
	}
	for i := range versions.Content {
		if _, root, ok := d.text.Walk(schemaPath(i)); ok {
			d.draftsBelow(root, schemaPath(i), &out)
		}
	}
	return out
}

// draftsBelow looks for draft rules at a YAML node and below it.
func (d *Definition) draftsBelow(n *yaml.Node, path string, out *[]Finding) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i].Value, n.Content[i+1]
			below := path + "." + key
			if strings.HasSuffix(path, ".properties") {
				below = path + "[" + key + "]"
			} else if key == draftKey {
				*out = append(*out, d.draft(n, value, below))
				continue
			}
			d.draftsBelow(value, below, out)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			d.draftsBelow(item, fmt.Sprintf("%s[%d]", path, i), out)
		}
	}
}

// draft returns the finding for one list of draft rules at a schema node.
func (d *Definition) draft(at, rules *yaml.Node, path string) Finding {
	f := Finding{Severity: Error, Check: "draft", Path: path,
		Message: draftKey + " is a name of the first draft of KEP-2876: servers do not know it, and the rules below it are never run"}
	var list []apiextv1.ValidationRule
	if convert(rules, &list) != nil || len(list) == 0 {
		f.Hint = "write x-kubernetes-validations, a list of rules"
		return f
	}
	var b strings.Builder
	b.WriteString("write\n\nx-kubernetes-validations:")
	for i := range list {
		if fixed, ok := withSelf(at, list[i].Rule); ok {
			list[i].Rule = fixed
		}
		text, err := json.Marshal(list[i].Rule)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "\n- rule: %s", unescapeHTML(text))
		if m := list[i].Message; m != "" {
			fmt.Fprintf(&b, "\n  message: %q", m)
		}
	}
	f.Hint = b.String()
	return f
}

// unescapeHTML reverses encoding/json's escapes of characters that are frequent in rules.
func unescapeHTML(b []byte) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(b))
}

// current returns the current form of an expression that names properties without self; "" if it
// has another mistake.
func (d *Definition) current(path, expr, detail string) string {
	if !strings.Contains(detail, "undeclared reference to '") {
		return ""
	}
	at, _, _ := strings.Cut(path, ".x-kubernetes-validations")
	_, n, ok := d.text.Walk(at)
	if !ok {
		return ""
	}
	if fixed, ok := withSelf(n, expr); ok && fixed != expr {
		return "a property is named through self: " + fixed
	}
	return ""
}

// undeclared matches the undeclared names in an error.
var undeclared = regexp.MustCompile(`undeclared reference to '([^']*)'`)

// withSelf inserts "self." before the names of properties in an expression over the schema node at.
// ok reports whether the result compiles.
func withSelf(at *yaml.Node, expr string) (fixed string, ok bool) {
	var props apiextv1.JSONSchemaProps
	if convert(at, &props) != nil {
		return "", false
	}
	props.XValidations = nil
	s, errs := structural.Parse(&props, nil)
	env, err := environment()
	if len(errs) > 0 || err != nil {
		return "", false
	}
	detail := compileError(s, env, expr)
	texts, places := pointers(detail, expr)
	lines := strings.Split(expr, "\n")
	// Backwards through each line, so that positions stay valid.
	for i := len(texts) - 1; i >= 0; i-- {
		m := undeclared.FindStringSubmatch(texts[i])
		if m == nil {
			return "", false
		}
		name, known := cel.Unescape(m[1])
		if !known || s.Properties[name] == nil {
			return "", false
		}
		line, at := []rune(lines[places[i].Line-1]), places[i].Column-1
		if at > len(line) {
			return "", false
		}
		lines[places[i].Line-1] = string(slices.Concat(line[:at], []rune("self."), line[at:]))
	}
	fixed = strings.Join(lines, "\n")
	return fixed, compileError(s, env, fixed) == ""
}

// compileError returns what is wrong with a rule at a schema node.
func compileError(s *structural.Schema, env *cel.Env, expr string) string {
	bare := *s
	bare.Rules = []apiextv1.ValidationRule{{Rule: expr}}
	p, err := schema.Compile(&bare, schema.Options{Env: env})
	if err != nil {
		return err.Error()
	}
	for _, e := range p.CheckRules(schema.RuleCheck{}) {
		if strings.Contains(e.Detail, "compil") {
			return e.Detail
		}
	}
	return ""
}

// convert decodes a part of the text.
func convert(n *yaml.Node, to any) error {
	var v any
	if err := n.Decode(&v); err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}
