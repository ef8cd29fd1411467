package authz

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/keelson-io/keelson/authz"
)

// This file prints decisions.

// ruling is the decision about one request.
type ruling struct {
	Request  string `json:"request,omitempty"`
	Count    int    `json:"count,omitempty"` // in the audit log
	Decision string `json:"decision"`        // allow, deny, no opinion, error, or depends
	By       string `json:"by,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Error    string `json:"error,omitempty"`
	// Depends lists the webhooks whose answers would decide, in order. The other fields hold for
	// the case that none of them has an opinion.
	Depends []string     `json:"depends,omitempty"`
	Else    string       `json:"else,omitempty"` // decided if they have none
	Steps   []rulingStep `json:"steps,omitempty"`
	Cases   []rulingCase `json:"cases,omitempty"` // if parts of the request are not known: the first that holds decides
}

// rulingStep is the part of one authorizer in a decision.
type rulingStep struct {
	Name       string            `json:"name"`
	Type       string            `json:"type,omitempty"`
	Decision   string            `json:"decision"`
	Reason     string            `json:"reason,omitempty"`
	Error      string            `json:"error,omitempty"`
	Skipped    bool              `json:"skipped,omitempty"`
	Conditions []rulingCondition `json:"conditions,omitempty"`
	Review     json.RawMessage   `json:"review,omitempty"`
}

type rulingCondition struct {
	Expression string `json:"expression"`
	Match      bool   `json:"match"`
	Error      string `json:"error,omitempty"`
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// decide asks the chain. A webhook without an answer could allow or deny: it counts as having no
// opinion, and the ruling lists it.
func decide(ctx context.Context, chain authz.Authorizer, a *authz.Attributes) ruling {
	v := ruling{Request: describeRequest(a, nil)}
	r := chain.Authorize(ctx, a)
	for _, s := range a.Trace.Steps {
		step := rulingStep{Name: s.Name, Type: s.Type, Decision: s.Decision.String(), Reason: s.Reason, Error: textOf(s.Err), Skipped: s.Skipped, Review: s.Review}
		if s.Reason == notAsked {
			v.Depends = append(v.Depends, s.Name)
			step.Decision = "unknown"
		}
		for _, c := range s.Conditions {
			step.Conditions = append(step.Conditions, rulingCondition{c.Expression, c.Match, textOf(c.Err)})
		}
		v.Steps = append(v.Steps, step)
	}
	v.Decision, v.By, v.Reason, v.Error = r.Decision.String(), r.By, r.Reason, textOf(r.Err)
	switch {
	case len(v.Depends) > 0:
		v.Decision, v.Else = "depends", v.Decision
		lines := strings.Split(v.Reason, "\n")
		v.Reason = strings.Join(slices.DeleteFunc(lines, func(s string) bool { return strings.HasSuffix(s, ": "+notAsked) }), "\n")
	case r.Decision != authz.Allow && r.Err != nil:
		v.Decision = "error"
	}
	return v
}

// describeRequest returns a request in one line, with question marks for unknown parts.
func describeRequest(a *authz.Attributes, unknown map[string]bool) string {
	part := func(name, value string) string {
		if unknown[name] {
			return "?"
		}
		return value
	}
	who := part("user", a.User.Name) + " " + part("verb", a.Verb) + " "
	if !a.ResourceRequest {
		return who + part("path", a.Path)
	}
	what := part("resource", a.Resource)
	for _, p := range []struct{ before, name, value string }{{".", "group", a.Group}, {"/", "subresource", a.Subresource}, {" ", "name", a.Name}, {" in ", "namespace", a.Namespace}} {
		if value := part(p.name, p.value); value != "" {
			what += p.before + value
		}
	}
	return who + what
}

// print prints a ruling, with every step if steps is set.
func (v *ruling) print(out io.Writer, steps bool) {
	if v.Cases != nil {
		v.printCases(out, steps)
		return
	}
	times := ""
	if v.Count > 1 {
		times = fmt.Sprintf(" (%d times)", v.Count)
	}
	fmt.Fprintf(out, "%s%s: %s\n", v.Request, times, v.summary())
	if !steps {
		return
	}
	for _, s := range v.Steps {
		fmt.Fprintf(out, "  %s: %s\n", s.Name, s.summary())
		for _, c := range s.Conditions {
			value := fmt.Sprint(c.Match)
			if c.Error != "" {
				value = c.Error
			}
			fmt.Fprintf(out, "    %s: %s\n", c.Expression, value)
		}
		if s.Review != nil {
			fmt.Fprintf(out, "    review: %s\n", s.Review)
		}
	}
}

func (v *ruling) summary() string {
	text := v.Decision
	if len(v.Depends) > 0 {
		text += " on " + strings.Join(v.Depends, ", ") + "; else " + v.Else
	}
	if v.By != "" {
		text += " by " + v.By
	}
	return join(text, v.Reason, v.Error)
}

func (s *rulingStep) summary() string {
	if s.Skipped {
		return "skipped: a match condition is false"
	}
	return join(s.Decision, s.Reason, s.Error)
}

// join appends the texts that are not empty.
func join(text string, more ...string) string {
	for _, m := range more {
		if m != "" {
			text += ": " + strings.ReplaceAll(m, "\n", "; ")
		}
	}
	return text
}
