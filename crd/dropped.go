package crd

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-io/keelson/jsondoc"
	"github.com/keelson-io/keelson/kind"
	"github.com/keelson-io/keelson/schema"
)

// This file refuses to drop a version in which objects are still stored: they could not be read any
// more.
//
// As in Kubernetes, a version in status.storedVersions cannot be dropped. But clients write
// status.storedVersions, and nothing compels them to rewrite the objects before. The check is made
// when spec.versions loses the version, because only that makes objects unreadable: clients that
// write the status first and rewrite the objects afterwards keep working.
//
// The check comes before the write of the definition, so that it does not count an object that is
// stored in the dropped version in between. Such a write must have begun before the storage version
// changed. Package objects compares the storage version once more when it stores an object; before,
// it waits until the server knows what other servers of the store have written to the definition
// (write.checkStorage). Therefore a server that lags behind, or was stopped, stores nothing in the
// old version. One window is left: between that comparison and the write of the object, the storage
// version would have to change, the other objects to be rewritten, and both the status and the spec
// of the definition to be written. The store could exclude this only if each write of an object was
// a transaction with its definition. If it happens, the errors of reads name the object and the way
// out, and a deletion of the definition deletes it.

// maxCheck is how long the stored objects are looked through before the update is refused with a
// timeout.
const maxCheck = 15 * time.Second

// checkDropped returns an error for each version that an update drops while objects are stored in
// it.
func (c *Compiler) checkDropped(ctx context.Context, new, old *jsondoc.Doc, scope schema.Scope) (field.ErrorList, error) {
	if c == nil || c.Stored == nil || scope != schema.Whole {
		return nil, nil
	}
	group, plural := old.Root().At("spec", "group").Text(), old.Root().At("spec", "names", "plural").Text()
	left := versionNames(new)
	var dropped []*droppedVersion
	for _, name := range versionNames(old) {
		if !contains(left, name) {
			dropped = append(dropped, &droppedVersion{name: name, apiVersion: group + "/" + name})
		}
	}
	if len(dropped) == 0 {
		return nil, nil
	}
	if err := c.countStored(ctx, group, plural, dropped); err != nil {
		return nil, err
	}
	var errs field.ErrorList
	for _, v := range dropped {
		if v.objects == 0 {
			continue
		}
		objects := "1 object is"
		if v.objects > 1 {
			objects = fmt.Sprintf("%d objects are", v.objects)
		}
		errs = append(errs, field.Forbidden(field.NewPath("spec", "versions"), fmt.Sprintf(
			"must have %s: %s still stored as %s, such as %s, and could not be read without it; rewrite the objects, "+
				"for example with a StorageVersionMigration of %s.%s, and then remove the version",
			v.name, objects, v.apiVersion, v.first, plural, group)))
	}
	return errs, nil
}

// droppedVersion is a version that an update drops.
type droppedVersion struct {
	name, apiVersion string
	objects          int    // the number of objects that are stored in it
	first            string // the first of them, see Compiler.Stored; "" if there is none
}

// countStored counts the objects that are stored in the versions.
func (c *Compiler) countStored(ctx context.Context, group, plural string, versions []*droppedVersion) error {
	ctx, cancel := context.WithTimeout(ctx, maxCheck)
	defer cancel()
	seen := 0
	err := c.Stored(ctx, group, plural, func(name string, raw []byte) bool {
		if seen++; seen%1024 == 0 && ctx.Err() != nil {
			return false
		}
		stored := kind.StoredAPIVersion(raw)
		for _, v := range versions {
			if v.apiVersion == stored {
				if v.objects++; v.first == "" {
					v.first = name
				}
			}
		}
		return true
	})
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// versionNames returns the names of the versions of a definition. In v1beta1 the only version may be
// outside the list.
func versionNames(d *jsondoc.Doc) []string {
	var names []string
	for _, v := range d.Root().At("spec", "versions").Items() {
		names = append(names, v.Get("name").Text())
	}
	if v := d.Root().At("spec", "version").Text(); len(names) == 0 && v != "" {
		names = append(names, v)
	}
	return names
}
