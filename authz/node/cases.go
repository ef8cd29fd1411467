package node

import (
	"context"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/authz/partial"
)

// This file is nodes whose requests are not known in part.

// Cases implements partial.Authorizer. Whether a node may do something whose
// parts are not known is not gone into: it may be that it may.
func (z *Authorizer) Cases(ctx context.Context, r *partial.Request) []partial.Case {
	isNode := partial.All(r.Begins("user", Prefix), r.Member(Group))
	switch {
	case isNode.False():
		return nil
	case len(r.Unknown) == 0:
		return []partial.Case{{Result: z.Authorize(ctx, r.Attributes)}}
	}
	return []partial.Case{{Result: authz.Result{Reason: "what nodes may do depends on what is not known"}, When: isNode, Open: true}}
}
