package authz

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authz/partial"
	"github.com/keelson-io/keelson/internal/authz/reload"
	"github.com/keelson-io/keelson/internal/cli/command"
)

// This file has the decisions about requests with unknown parts, and the comparison of two
// configurations.

// rulingCase is a decision with its condition.
type rulingCase struct {
	By       string `json:"by,omitempty"`
	Decision string `json:"decision"` // allow, deny, no opinion, error or unknown
	When     string `json:"when"`     // an expression; "true" if it is always so
	Reason   string `json:"reason,omitempty"`
	Error    string `json:"error,omitempty"`
}

// decidePartly decides a request with unknown parts. The ruling is "allow" or another decision if
// that holds for all values of the unknown parts, otherwise "depends".
func decidePartly(ctx context.Context, chain *reload.Authorizer, r *partial.Request) ruling {
	v := ruling{Request: describeRequest(r.Attributes, r.Unknown)}
	outcomes := map[string]bool{}
	for _, c := range partial.Decide(ctx, r, chain.Links()) {
		out := rulingCase{By: c.By, Decision: c.Decision.String(), When: c.When.String(), Reason: c.Reason, Error: textOf(c.Err)}
		switch {
		case c.Open || c.Reason == notAsked:
			out.Decision = "unknown"
			outcomes["allow"], outcomes["no opinion"] = true, true
		case c.Decision == authz.NoOpinion && c.By != "":
			if c.Err != nil {
				outcomes["error"] = true // the decision if no authorizer allows
			}
		case c.Decision != authz.Allow && c.Err != nil:
			out.Decision = "error"
			outcomes["error"] = true
		default:
			outcomes[out.Decision] = true
		}
		v.Cases = append(v.Cases, out)
	}
	last := &v.Cases[len(v.Cases)-1]
	v.Decision, v.By, v.Reason, v.Error = last.Decision, last.By, last.Reason, last.Error
	if outcomes["allow"] && len(outcomes) > 1 {
		v.Decision, v.By, v.Reason, v.Error = "depends", "", "", ""
	}
	return v
}

// certainty returns the first words of a ruling with unknown parts.
func (v *ruling) certainty() string {
	switch v.Decision {
	case "allow":
		return "always"
	case "depends":
		return "depends"
	}
	return "never"
}

// printCases prints the decisions with their conditions.
func (v *ruling) printCases(out io.Writer, all bool) {
	fmt.Fprintf(out, "%s: %s\n", v.Request, v.certainty())
	for i, c := range v.Cases {
		said := c.Decision != "no opinion" || i == len(v.Cases)-1
		if !said && !all {
			continue
		}
		text, reason := c.Decision, c.Reason
		if c.By != "" {
			text += " by " + c.By
		}
		if reason == notAsked {
			text, reason = "as "+c.By+" says", ""
		}
		switch {
		case c.When != "true":
			text += " if " + c.When
		case i == len(v.Cases)-1 && len(v.Cases) > 1:
			text = "else " + text
		}
		fmt.Fprintf(out, "  %s\n", join(text, reason, c.Error))
	}
}

// rulingChange is a request that two configurations decide differently.
type rulingChange struct {
	Request string `json:"request"`
	Count   int    `json:"count,omitempty"` // in the audit log
	Before  ruling `json:"before"`
	After   ruling `json:"after"`
}

// effect returns the effect of a decision on a client: Deny and NoOpinion both refuse.
func effect(decision string) string {
	if decision == "deny" {
		return "no opinion"
	}
	return decision
}

// differs reports whether two configurations decide a request differently.
func differs(a, b *ruling) bool {
	if effect(a.Decision) != effect(b.Decision) || effect(a.Else) != effect(b.Else) || !slices.Equal(a.Depends, b.Depends) {
		return true
	}
	return !slices.EqualFunc(a.effective(), b.effective(), func(a, b rulingCase) bool { return a.When == b.When && effect(a.Decision) == effect(b.Decision) })
}

// effective returns the cases that can decide, if the decision is not certain.
func (v *ruling) effective() []rulingCase {
	if v.Decision != "depends" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(v.Cases), func(c rulingCase) bool { return c.Decision == "no opinion" })
}

// compare prints the requests that are decided differently.
func (o *options) compare(cmd *cobra.Command, asked []inquiry, before, after decider) error {
	changes, requests, affected := []rulingChange{}, 0, 0
	for _, q := range asked {
		second := *q.attributes
		second.Trace = &authz.Trace{Full: true}
		c := rulingChange{Count: q.count, Before: before(cmd.Context(), q.attributes), After: after(cmd.Context(), &second)}
		requests += max(q.count, 1)
		if !differs(&c.Before, &c.After) {
			continue
		}
		affected += max(q.count, 1)
		c.Request, c.Before.Request, c.After.Request = c.Before.Request, "", ""
		if !o.explain {
			c.Before.Steps, c.After.Steps = nil, nil
		}
		changes = append(changes, c)
	}
	out := cmd.OutOrStdout()
	if o.output == "json" {
		if err := command.PrintJSON(out, changes); err != nil {
			return err
		}
	} else {
		for i := range changes {
			changes[i].print(out, o.explain)
		}
		fmt.Fprintf(out, "%d of %d requests would be decided differently\n", affected, requests)
	}
	if affected > 0 {
		return errors.New("")
	}
	return nil
}

func (c *rulingChange) print(out io.Writer, steps bool) {
	times := ""
	if c.Count > 1 {
		times = fmt.Sprintf(" (%d times)", c.Count)
	}
	fmt.Fprintf(out, "%s%s\n", c.Request, times)
	for _, side := range []struct {
		name string
		v    *ruling
	}{{"before", &c.Before}, {"after", &c.After}} {
		var text strings.Builder
		side.v.Request = side.name
		side.v.print(&text, steps)
		for line := range strings.Lines(text.String()) {
			fmt.Fprint(out, "  "+line)
		}
	}
}
