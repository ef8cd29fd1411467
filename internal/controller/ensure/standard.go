package ensure

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/keelson-io/keelson/kind"
)

// This file creates what must exist before the first request.

// systemPriorities are the priority classes that every server has.
var systemPriorities = []struct {
	name        string
	value       int
	description string
}{
	{"system-node-critical", 2000001000, "Used for system critical pods that must not be moved from their current node."},
	{"system-cluster-critical", 2000000000, "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."},
}

// Creator creates objects.
type Creator interface {
	// Ensure creates an object from its JSON unless it exists.
	Ensure(ctx context.Context, k *kind.Kind, namespace, name string, body []byte) error
	// EnsureNamespace creates a namespace unless it exists.
	EnsureNamespace(ctx context.Context, name string) error
}

// Standard creates the priority classes and namespaces that every server has, and does more at the same time: a
// store commits many writes in little more time than one.
func Standard(ctx context.Context, kinds *kind.Snapshot, c Creator, more func() error) error {
	tasks := []func() error{more}
	if k := kinds.Lookup("scheduling.k8s.io", "priorityclasses"); k != nil {
		for _, p := range systemPriorities {
			tasks = append(tasks, func() error {
				body := fmt.Sprintf(`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":%q},"value":%d,"description":%q}`, p.name, p.value, p.description)
				if err := c.Ensure(ctx, k, "", p.name, []byte(body)); err != nil {
					return fmt.Errorf("creating priority class %s: %w", p.name, err)
				}
				return nil
			})
		}
	}
	for _, name := range SystemNamespaces {
		tasks = append(tasks, func() error {
			if err := c.EnsureNamespace(ctx, name); err != nil {
				return fmt.Errorf("creating namespace %s: %w", name, err)
			}
			return nil
		})
	}
	errs := make([]error, len(tasks))
	var all sync.WaitGroup
	for i, do := range tasks {
		all.Go(func() { errs[i] = do() })
	}
	all.Wait()
	return errors.Join(errs...)
}
