// This file has what the commands share that use a server in the same process: the user and the
// existing objects.

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/keelson-io/keelson/internal/manifest"
	"github.com/keelson-io/keelson/offline"
)

// openOffline opens a server with the objects in documents. It returns the verdicts on those that
// it refuses.
func openOffline(ctx context.Context, docs []manifest.Document) (*offline.Server, []*verdict, error) {
	s, err := offline.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	refused, added, err := s.Add(ctx, docs)
	if err == nil && added+len(refused) == 0 && len(docs) > 0 {
		err = fmt.Errorf("%s: nothing in it that decides about objects: no definition, policy, role or namespace", docs[0].File)
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	var bad []*verdict
	for _, r := range refused {
		bad = append(bad, verdictOf(r.Document, r.Answer, nil))
	}
	return s, bad, nil
}

// notEvaluated returns what a document is, if it decides about objects on a cluster, but not here: a
// webhook, or a policy of another engine. Otherwise it returns "".
func notEvaluated(d manifest.Document) string {
	s := offline.SubjectOf(d, "")
	switch {
	case s.Group == "admissionregistration.k8s.io" && strings.HasSuffix(s.Kind, "WebhookConfiguration"):
		return s.Kind + " " + s.Name + ", whose webhooks are not called,"
	case s.Group == "kyverno.io", s.Group == "policies.kyverno.io", s.Group == "templates.gatekeeper.sh", s.Group == "constraints.gatekeeper.sh":
		return fmt.Sprintf("%s.%s %s, a policy of another engine,", s.Kind, s.Group, s.Name)
	}
	return ""
}
