package main

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
)

// Move is hostile traffic of one sort. The same Move sends the same bytes on each run; their timing differs.
type Move struct {
	Name  string `json:"name"`
	Actor string `json:"actor"` // "" is a client without credentials
	Seed  uint64 `json:"seed"`
	Size  int    `json:"size"` // 1 to 100: how much of it
}

// move describes moves of one name.
type move struct {
	actors []string // the users that make it; "" is an anonymous client
	run    func(ctx context.Context, a *arena, m Move, rng *rand.Rand)
}

var (
	anybody = []string{"", "nobody", "editor"}
	users   = []string{"nobody", "editor", "author", "policies", "node"}
	writers = []string{"editor", "author", "policies"}
)

// moves are all there are. A name stays as it is: kept rounds refer to it.
var moves = map[string]move{
	"handshakes":   {[]string{""}, handshakes},
	"stalled-http": {anybody, stalledHTTP},
	"unread-http":  {anybody, unreadHTTP},
	"odd-http":     {anybody, oddHTTP},
	"unread-http2": {users, unreadHTTP2},
	"bodies-http2": {users, bodiesHTTP2},
	"frames-http2": {anybody, framesHTTP2},
	"websockets":   {users, webSockets},
	"nest":         {writers, nest},
	"repeat":       {writers, repeat},
	"mutate":       {append([]string{"node"}, writers...), mutate},
	"apply":        {[]string{"editor"}, applySideBySide},
	"define":       {[]string{"author"}, define},
	"multiply":     {[]string{"author"}, multiply},
	"lists":        {[]string{"editor", "author"}, lists},
	"grab":         {[]string{"nobody", "editor", "node", "monitor", ""}, grab},
	"govern":       {[]string{"policies"}, govern},
	"tiny":         {anybody, tiny},
	"reset":        {anybody, reset},
	"giant":        {append([]string{"", "nobody", "node"}, writers...), giant},
	"compressed":   {append([]string{"", "nobody"}, writers...), compressed},
	"flood":        {append([]string{"", "fairness"}, users...), flood},
	"breed":        {[]string{"editor"}, breed},
	"swarm":        {[]string{"author"}, swarm},
	"convert":      {[]string{"author"}, convert},
	"quotas":       {[]string{"quotas"}, quotas},
	"events":       {[]string{"editor"}, events},
	"fairness":     {[]string{"fairness"}, fairness},
	"derive":       {[]string{"warden"}, derive},
	"churn":        {[]string{"editor"}, churn},
	"connect":      {[]string{""}, connect},
	"offline":      {[]string{""}, offline},
	"items":        {[]string{"warden"}, items},
	"keys":         {[]string{"editor"}, keys},
	"owners":       {[]string{"warden"}, foreignOwners}, // the plugin OwnerReferencesPermissionEnforcement stops an editor
}

func moveNames() []string { return slices.Sorted(maps.Keys(moves)) }

// crowd runs fn n times side by side, each with random numbers of its own, and waits for all.
func crowd(rng *rand.Rand, n int, fn func(i int, rng *rand.Rand)) {
	var wg sync.WaitGroup
	for i := range n {
		own := rand.New(rand.NewPCG(rng.Uint64(), 4))
		wg.Go(func() { fn(i, own) })
	}
	wg.Wait()
}

// pick draws one of some values.
func pick[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// chance is true in one of n cases.
func chance(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }

// hit sends a complete request, and looks into its answer for what the actor must not see.
func hit(ctx context.Context, a *arena, c *http.Client, actor, method, path string, body []byte, header ...string) answer {
	r, err := send(ctx, c, method, path, body, header...)
	if err != nil {
		return answer{}
	}
	a.inspect(actor, method+" "+path[:min(len(path), 200)], r.body)
	return r
}

// somewhere is a resource to send something to: one that the actor may write in half of the cases, otherwise any.
func somewhere(a *arena, actor string, rng *rand.Rand) (r resource, namespace string) {
	namespace = "arena"
	may := func(r resource) bool {
		switch actor {
		case "editor":
			return r.Namespaced && slices.Contains([]string{"", "apps", "batch", "networking.k8s.io", "autoscaling"}, r.Group)
		case "author":
			return r.Group == "apiextensions.k8s.io" || r.Namespaced && r.Group == "apps"
		case "policies":
			return r.Group == "admissionregistration.k8s.io"
		case "quotas":
			return r.Plural == "resourcequotas" || r.Plural == "limitranges"
		case "fairness":
			return r.Group == "flowcontrol.apiserver.k8s.io"
		case "node":
			return slices.Contains([]string{"pods", "nodes", "leases", "csinodes", "certificatesigningrequests", "resourceslices", "events"}, r.Plural)
		}
		return false
	}
	var mine []resource
	for _, r := range a.resources {
		if slices.Contains(r.Verbs, "create") && may(r) {
			mine = append(mine, r)
		}
	}
	if len(mine) > 0 && !chance(rng, 4) {
		return mine[rng.IntN(len(mine))], namespace
	}
	return a.resources[rng.IntN(len(a.resources))], pick(rng, "arena", "arena", "vault", "default")
}

// reading is a path that answers something: lists of all kinds, documents, watches.
func reading(a *arena, rng *rand.Rand) string {
	switch rng.IntN(6) {
	case 0, 1:
		return pick(rng, "/openapi/v2", "/openapi/v3", "/apis", "/api/v1", "/version", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1")
	case 2:
		r := a.resources[rng.IntN(len(a.resources))]
		return r.path("arena", "") + "?watch=1"
	default:
		r := a.resources[rng.IntN(len(a.resources))]
		return r.path(pick(rng, "arena", ""), "")
	}
}
