package node

import (
	"context"

	"github.com/keelson-io/keelson/authz"
	"github.com/keelson-io/keelson/internal/authz/partial"
)

// This file decides about requests of nodes with unknown parts.

// Cases implements partial.Authorizer. If a part is unknown and the user may be a node, the
// only case is open: the graph is not searched for every value of the part.
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
