package migration

import (
	"context"
	"encoding/json"
	"fmt"

	migrationv1 "k8s.io/api/storagemigration/v1"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-io/keelson/internal/controller/loop"
	"github.com/keelson-io/keelson/kind"
)

// This file marks the definition of a resource while a migration of it runs.

// marked is the configuration that is applied to a definition.
type marked struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Status     markedStatus      `json:"status"`
}

type markedStatus struct {
	Conditions     []apiextv1.CustomResourceDefinitionCondition `json:"conditions"`
	StoredVersions []string                                     `json:"storedVersions,omitempty"`
}

// definition reads the definition of a migration's resource, nil if there is none.
func (c *Controller) definition(ctx context.Context, m *migrationv1.StorageVersionMigration) (*apiextv1.CustomResourceDefinition, error) {
	name := m.Spec.Resource.Resource + "." + m.Spec.Resource.Group
	o, err := loop.Load(ctx, c.Store, c.definitions, c.definitions.Key("", name))
	if o == nil || err != nil {
		return nil, err
	}
	defer o.Doc.Release()
	def := new(apiextv1.CustomResourceDefinition)
	if err := json.Unmarshal(o.Doc.AppendJSON(nil, o.Doc.Root().Node), def); err != nil {
		return nil, err
	}
	return def, nil
}

// checkServed returns an error if k, the kind of a migration's resource that this server serves, is
// not that of the stored definition: another server has written the definition, and this one does not
// serve it yet. It would rewrite the objects in the old storage version, in which they are, and the
// migration would succeed. nil means that this server does not serve the resource.
func (c *Controller) checkServed(ctx context.Context, m *migrationv1.StorageVersionMigration, k *kind.Kind) error {
	if k != nil && k.Behavior.IsBuiltin {
		return nil
	}
	def, err := c.definition(ctx, m)
	switch {
	case err != nil:
		return err
	case def == nil || k != nil && k.UID == string(def.UID) && k.Generation >= def.Generation:
		return nil // without a definition, the resource is gone, or about to go
	}
	return fmt.Errorf("migration %s: this server does not serve generation %d of %s yet", m.Name, def.Generation, def.Name)
}

// mark sets the condition StorageMigrating of a definition, if the definition is still as it was read.
func (c *Controller) mark(ctx context.Context, def *apiextv1.CustomResourceDefinition, value apiextv1.ConditionStatus, reason, message string, stored ...string) error {
	body, err := json.Marshal(marked{
		APIVersion: apiextv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition",
		Metadata: map[string]string{"name": def.Name, "resourceVersion": def.ResourceVersion},
		Status: markedStatus{StoredVersions: stored, Conditions: []apiextv1.CustomResourceDefinitionCondition{{
			Type: apiextv1.StorageMigrating, Status: value, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(c.Now()), ObservedGeneration: def.Generation,
		}}},
	})
	if err != nil {
		return err
	}
	return c.Definitions.Apply(ctx, c.definitions, "", def.Name, "status", body)
}

// markDefinition says in the definition of a resource that a migration begins.
func (c *Controller) markDefinition(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	def, err := c.definition(ctx, m)
	if def == nil || err != nil {
		return err
	}
	return c.mark(ctx, def, apiextv1.ConditionTrue, running, "Migration "+m.Name+" is running")
}

// releaseDefinition says in the definition of a resource how a migration ended. After a success, if
// the definition is the one with which the migration began, its objects are stored in the storage
// version alone.
func (c *Controller) releaseDefinition(ctx context.Context, m *migrationv1.StorageVersionMigration) error {
	def, err := c.definition(ctx, m)
	if def == nil || err != nil {
		return err
	}
	same := false
	for _, condition := range def.Status.Conditions {
		if condition.Type == apiextv1.StorageMigrating && condition.ObservedGeneration == def.Generation {
			same = true
		}
	}
	if !is(m, migrationv1.MigrationSucceeded) {
		return c.mark(ctx, def, apiextv1.ConditionFalse, "MigrationFailed", "The migration has failed")
	}
	if !same {
		return c.mark(ctx, def, apiextv1.ConditionFalse, "MigrationSucceeded",
			"The migration has succeeded but the stored versions have not been updated due to a generation mismatch")
	}
	var stored []string
	for _, v := range def.Spec.Versions {
		if v.Storage {
			stored = append(stored, v.Name)
		}
	}
	return c.mark(ctx, def, apiextv1.ConditionFalse, "MigrationSucceeded", "The migration has succeeded and the stored versions have been updated", stored...)
}
