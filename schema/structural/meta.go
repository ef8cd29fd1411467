package structural

import (
	"maps"
	"slices"
	"sync"
)

// This file has the schema of metadata.

// ObjectMeta returns the schema of every object's metadata: the fields of meta/v1 ObjectMeta with
// their types and list types. The decoder uses it, and server-side apply merges by it. It is shared
// and must not be changed.
func ObjectMeta() *Schema { return objectMeta() }

var objectMeta = sync.OnceValue(func() *Schema {
	text := &Schema{Type: "string"}
	integer := &Schema{Type: "integer", Format: "int64"}
	stamp := &Schema{Type: "string", Format: "date-time"}
	flag := &Schema{Type: "boolean"}
	texts := &Schema{Type: "object", Additional: text}

	owner := object(map[string]*Schema{
		"apiVersion": text, "kind": text, "name": text,
		"uid":        {Type: "string", Default: []byte(`""`)}, // so that an apply without it is refused by validation
		"controller": flag, "blockOwnerDeletion": flag,
	})
	owner.MapType = "atomic"
	owner.Values = &Values{Required: []string{"apiVersion", "kind", "name", "uid"}}

	managed := object(map[string]*Schema{
		"apiVersion": text, "fieldsType": text, "manager": text, "operation": text,
		"subresource": text, "time": stamp,
		"fieldsV1": {Type: "object", Preserve: true},
	})

	return object(map[string]*Schema{
		"annotations":                texts,
		"creationTimestamp":          {Type: "string", Format: "date-time", Nullable: true},
		"deletionGracePeriodSeconds": integer,
		"deletionTimestamp":          stamp,
		"finalizers":                 {Type: "array", Items: text, ListType: "set"},
		"generateName":               text,
		"generation":                 integer,
		"labels":                     texts,
		"managedFields":              {Type: "array", Items: managed, ListType: "atomic"},
		"name":                       text,
		"namespace":                  text,
		"ownerReferences":            {Type: "array", Items: owner, ListType: "map", ListMapKeys: []string{"uid"}},
		"resourceVersion":            text,
		"selfLink":                   text,
		"uid":                        text,
	})
})

// object is Object, for use in this file.
func object(properties map[string]*Schema) *Schema {
	return &Schema{Type: "object", Properties: properties, Names: slices.Sorted(maps.Keys(properties))}
}
